#!/bin/sh
count=$(grep -c '^+.\{121,\}' "$HARNESS_INPUT_DIR/change.diff")
printf '{"findings":%d}' "$count" > "$HARNESS_OUTPUT_FILE"
