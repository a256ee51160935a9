#!/usr/bin/env python3
"""Runs Claude Code once and leaves its answer where the harness looks. Nothing here is trusted: it runs in the sandbox."""
import json
import os
import pathlib
import subprocess
import sys

inputs = pathlib.Path(os.environ["HARNESS_INPUT_DIR"])
prompt = sys.stdin.read() + "".join(f"\n<file name={path.name!r}>\n{path.read_text()}\n</file>\n" for path in sorted(inputs.iterdir()))
schema = pathlib.Path(os.environ["HARNESS_SCHEMA"]).read_text()
done = subprocess.run(
    ["claude", "-p", "--output-format", "json", "--json-schema", schema],
    input=prompt, capture_output=True, text=True, check=False,
)
sys.stderr.write(done.stderr)
envelope = json.loads(done.stdout)
usage = envelope.get("usage") or {}
out = pathlib.Path(os.environ["HARNESS_OUTPUT_DIR"])
out.joinpath("usage.json").write_text(json.dumps({
    "cost_usd": envelope.get("total_cost_usd"),
    "input_tokens": usage.get("input_tokens"),
    "output_tokens": usage.get("output_tokens"),
}))
# The CLI says "is_error" and still ends with 0.
if done.returncode != 0 or envelope.get("is_error"):
    sys.exit("claude reported an error")
answer = envelope.get("structured_output")
text = json.dumps(answer) if answer is not None else envelope["result"]
pathlib.Path(os.environ["HARNESS_OUTPUT_FILE"]).write_text(text)
