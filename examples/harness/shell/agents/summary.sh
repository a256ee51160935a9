#!/bin/sh
# Reads its input, writes its output where the harness says, and checks itself before it ends.
set -eu
notes="$HARNESS_INPUT_DIR/notes.txt"
lines=$(wc -l < "$notes")
words=$(wc -w < "$notes")
printf '{"lines":%d,"words":%d}\n' "$lines" "$words" > "$HARNESS_OUTPUT_FILE"
portreeve harness validate --schema "$HARNESS_SCHEMA" "$HARNESS_OUTPUT_FILE"
