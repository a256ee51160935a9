#!/usr/bin/env python3
"""Sees validated copies and a manifest, and nothing else of the reviewers."""
import json
import os
import pathlib

inputs = pathlib.Path(os.environ["HARNESS_INPUT_DIR"])
manifest = json.loads(inputs.joinpath("manifest.json").read_text())
findings = {entry["agent"]: json.loads(inputs.joinpath(entry["file"]).read_text())["findings"] for entry in manifest["inputs"]}
verdict = "block" if findings["security"] else "pass"
pathlib.Path(os.environ["HARNESS_OUTPUT_FILE"]).write_text(json.dumps({"verdict": verdict, "findings": sum(findings.values())}))
