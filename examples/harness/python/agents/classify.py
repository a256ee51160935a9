#!/usr/bin/env python3
"""Sorts an issue into a class. A stand-in for a call to a model: the first answer has the wrong shape."""
import json
import os
import pathlib
import sys

prompt = sys.stdin.read()
issue = pathlib.Path(os.environ["HARNESS_INPUT_DIR"], "issue.txt").read_text()
severity = "high" if "crash" in issue else "low"

if os.environ["HARNESS_ATTEMPT"] == "1":
    answer = {"severity": severity.upper(), "labels": "bug"}
else:
    # What the harness says is data about the format, never text of the last answer.
    feedback = json.loads(pathlib.Path(os.environ["HARNESS_FEEDBACK_FILE"]).read_text())
    wrong = {violation["path"] for violation in feedback["violations"]}
    answer = {
        "severity": severity if "/severity" in wrong else severity.upper(),
        "labels": ["bug"] if "/labels" in wrong else "bug",
    }

out = pathlib.Path(os.environ["HARNESS_OUTPUT_DIR"])
out.joinpath("usage.json").write_text(json.dumps({"input_tokens": len(prompt.split()), "output_tokens": 2, "cost_usd": 0.0004}))
pathlib.Path(os.environ["HARNESS_OUTPUT_FILE"]).write_text(json.dumps(answer))
