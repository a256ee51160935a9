//! The examples of the guides, run as they stand; other people's programs have stand-ins that behave like them.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::support::environment::{Finished, command, portreeve, repository};
use crate::support::walk::{Walk, blocks, chapter};

/// A copy of an example, with state of its own.
struct Example(TempDir);

impl Example {
    fn of(name: &str) -> Self {
        let home = TempDir::new().unwrap();
        copy(&repository().join("examples/harness").join(name), home.path());
        std::fs::write(
            home.path().join("portreeve.toml"),
            "[state]\ndir = \"state\"\n[audit]\norigin = \"test/guides\"\n",
        )
        .unwrap();
        Self(home)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    /// Puts a stand-in where the example expects a program of others.
    fn stand_in(&self, place: &str, program: &str, text: &str) {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = self.path("stand-in");
        std::fs::create_dir_all(&folder).unwrap();
        self.write(&format!("stand-in/{program}"), text);
        std::fs::set_permissions(folder.join(program), std::fs::Permissions::from_mode(0o755)).unwrap();
        let toml = std::fs::read_to_string(self.path("harness.toml")).unwrap();
        self.write("harness.toml", &toml.replace(place, &folder.display().to_string()));
        assert_eq!(self.harness(&["lock"]).code, Some(0));
    }

    fn harness(&self, arguments: &[&str]) -> Finished {
        let mut command = command(portreeve());
        command.current_dir(self.0.path()).arg("harness").args(arguments);
        command
            .env("ANTHROPIC_API_KEY", "key-of-claude")
            .env("OPENAI_API_KEY", "key-of-codex")
            .env("MESSAGE_FILE", self.path("message"));
        Finished::of(&mut command)
    }
}

fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            std::fs::create_dir_all(&target).unwrap();
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[test]
fn the_guide_begins_with_an_example_that_can_be_typed() {
    let page = repository().join("docs/guides/agents.md");
    let first = chapter(&page, "## One whole example");
    let text = std::fs::read_to_string(page).unwrap();
    assert_eq!(
        text.find("\n## "),
        text.find("\n## One whole example"),
        "it comes first"
    );
    let walk = Walk::through(blocks(&first));
    walk.run();
    assert!(walk.path("greeter/harness.lock").exists());
}

// R249, R254
#[test]
fn every_example_agrees_with_its_lock() {
    for name in ["shell", "python", "claude-code", "codex", "fan-in"] {
        let finished = Example::of(name).harness(&["check"]);
        assert_eq!(finished.code, Some(0), "{name}: {}", finished.stderr);
    }
    assert_eq!(
        Example::of("codex")
            .harness(&["check", "--dialect", "openai-strict"])
            .code,
        Some(0)
    );
}

#[test]
fn the_shell_agent_counts() {
    let example = Example::of("shell");
    example.write("notes.txt", "one two\nthree\n");
    let finished = example.harness(&["run", "summary", "--input", "notes.txt=notes.txt"]);
    assert_eq!(
        (finished.code, finished.stdout.as_str()),
        (Some(0), "{\"lines\":2,\"words\":3}\n"),
        "{}",
        finished.stderr
    );
}

// R243, R256
#[test]
fn the_python_agent_mends_its_answer_by_feedback() {
    let example = Example::of("python");
    example.write("issue.txt", "it does crash");
    let finished = example.harness(&["run", "classify", "--input", "issue.txt=issue.txt"]);
    let expected = "{\"severity\": \"high\", \"labels\": [\"bug\"]}";
    assert_eq!(
        (finished.code, finished.stdout.as_str()),
        (Some(0), expected),
        "{}",
        finished.stderr
    );
    assert!(
        finished.stderr.contains("attempt 1: schema_violation"),
        "{}",
        finished.stderr
    );
    assert!(finished.stderr.contains("0.000400 USD"), "{}", finished.stderr);
}

const CLAUDE: &str = r#"#!/usr/bin/env python3
import json, os, sys
arguments = sys.argv[1:]
assert arguments[:3] == ["-p", "--output-format", "json"] and arguments[3] == "--json-schema", arguments
assert json.loads(arguments[4])["properties"]["verdict"]
assert os.environ["ANTHROPIC_API_KEY"] == "key-of-claude" and "OPENAI_API_KEY" not in os.environ
prompt = sys.stdin.read()
mode = "MODE"
envelope = {"type": "result", "subtype": "success", "is_error": False, "result": "done", "total_cost_usd": 0.0123,
    "usage": {"input_tokens": 10, "output_tokens": 5}, "session_id": "x"}
if mode == "error":
    envelope.update(is_error=True, result="API Error: 529 overloaded")
elif mode == "text":
    envelope["result"] = '{"verdict":"accept","reason":"fine"}'
elif mode == "prose" and "portreeve-feedback" not in prompt:
    envelope["result"] = "Sure! Here is the JSON you asked for:"
else:
    envelope["structured_output"] = {"verdict": "reject", "reason": "spam" if "BUY NOW" in prompt else "none"}
print(json.dumps(envelope))
"#;

// R235, R245
#[test]
fn claude_code_is_taken_at_its_output_not_at_its_exit_code() {
    for (mode, code, stdout) in [
        ("structured", 0, r#"{"verdict": "reject", "reason": "spam"}"#),
        ("text", 0, r#"{"verdict":"accept","reason":"fine"}"#),
        ("prose", 0, r#"{"verdict": "reject", "reason": "spam"}"#),
        ("error", 12, ""),
    ] {
        let example = Example::of("claude-code");
        example.stand_in("/opt/claude", "claude", &CLAUDE.replace("MODE", mode));
        example.write("issue.txt", "BUY NOW");
        let finished = example.harness(&["run", "triage", "--input", "issue.txt=issue.txt"]);
        assert_eq!(
            (finished.code, finished.stdout.as_str()),
            (Some(code), stdout),
            "{mode}: {}",
            finished.stderr
        );
        assert!(finished.stderr.contains("0.012300 USD"), "{mode}: {}", finished.stderr);
    }
}

const CODEX: &str = r#"#!/bin/sh
# codex exec … --output-schema S --output-last-message F -
[ "$1" = exec ] || exit 2
while [ $# -gt 1 ]; do
    case "$1" in
        --output-schema) schema=$2; shift ;;
        --output-last-message) last=$2; shift ;;
    esac
    shift
done
[ "$1" = - ] && prompt=$(cat)
grep -q '"additionalProperties": false' "$schema" || exit 1
echo "thinking out loud"
case MODE in
    good) printf '{"verdict":"accept","reason":"fine"}' > "$last" ;;
    error) printf 'stream disconnected before completion' > "$last" ;;
    silent) : ;;
esac
exit 0
"#;

// R235, R245
#[test]
fn codex_is_taken_at_its_output_not_at_its_exit_code() {
    for (mode, code, stdout) in [
        ("good", 0, r#"{"verdict":"accept","reason":"fine"}"#),
        ("error", 11, ""),
        ("silent", 11, ""),
    ] {
        let example = Example::of("codex");
        example.stand_in("/opt/codex", "codex", &CODEX.replace("MODE", mode));
        let finished = example.harness(&["run", "triage"]);
        assert_eq!(
            (finished.code, finished.stdout.as_str()),
            (Some(code), stdout),
            "{mode}: {}",
            finished.stderr
        );
    }
}

// R230, R250, R257
#[test]
fn three_reviewers_and_their_aggregator() {
    for (diff, verdict, message) in [
        (
            "+++ b/tests/x.py\n+ok\n",
            "{\"verdict\": \"pass\", \"findings\": 0}",
            false,
        ),
        ("+++ b/x.py\n+eval(password)\n", "", true),
    ] {
        let example = Example::of("fan-in");
        example.write("change.diff", diff);
        let finished = example.harness(&["pipeline", "review", "--input", "change.diff=change.diff", "--json"]);
        assert_eq!(finished.code, Some(0), "{}", finished.stderr);
        let object: serde_json::Value = serde_json::from_str(&finished.stderr).unwrap();
        let published = Path::new(object["directory"].as_str().unwrap()).join("validated/aggregate.json");
        let aggregate = std::fs::read_to_string(published).unwrap();
        match message {
            // The last stage did not run, so nothing is printed.
            false => assert_eq!((finished.stdout.as_str(), aggregate.as_str()), ("", verdict)),
            true => {
                assert_eq!(finished.stdout, "{\"text\":\"the review blocks this change\"}");
                assert_eq!(
                    std::fs::read_to_string(example.path("message")).unwrap(),
                    finished.stdout
                );
            }
        }
        assert_eq!(example.path("message").exists(), message);
    }
}

#[test]
fn the_step_for_github_actions_runs_as_it_is_written() {
    let workflow = std::fs::read_to_string(repository().join("examples/harness/github-actions.yml")).unwrap();
    let lines: Vec<&str> = workflow
        .lines()
        .map(|line| line.trim().trim_start_matches("run: "))
        .filter(|line| line.starts_with("portreeve harness"))
        .collect();
    assert_eq!(lines.len(), 2);
    let example = Example::of("fan-in");
    std::fs::create_dir(example.path(".git")).unwrap();
    example.write("CODEOWNERS", "* @reviewers\n");
    example.write("change.diff", "+++ b/tests/x.py\n+eval(1)\n");
    for line in lines {
        let mut shell = command("sh");
        shell.current_dir(example.0.path()).args(["-eu", "-c", line]);
        let path = format!("{}:/usr/bin:/bin", portreeve().parent().unwrap().display());
        shell.env("PATH", path).env("RUNNER_TEMP", example.0.path());
        let finished = Finished::of(&mut shell);
        assert_eq!(finished.code, Some(0), "{line}: {}", finished.stderr);
        assert!(!finished.stderr.contains('\u{1b}'), "plain lines in CI");
    }
    assert_eq!(
        std::fs::read_to_string(example.path("verdict.json")).unwrap(),
        "{\"text\":\"the review blocks this change\"}"
    );
}
