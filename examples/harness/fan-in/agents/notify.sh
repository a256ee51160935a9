#!/bin/sh
printf '{"text":"the review blocks this change"}' > "$HARNESS_OUTPUT_FILE"
