//! Runtimes that go for the harness itself, for the host, or for each other.

use super::attempts::make_workspace;
use crate::support::workshop::{GOOD, Workshop, names};

/// Tries to write every path given in `TARGETS`, and says what it saw.
const VANDAL: &str = r#"
    for target in $TARGETS; do
        # Below /tmp a sandbox has directories of its own; what matters is what is there.
        [ -e "$target" ] || continue
        echo "sees $target" >> report
        echo vandal >> "$target" 2>/dev/null && echo "wrote $target" >> report
    done
    echo '{"verdict":"ok"}' > "$HARNESS_OUTPUT_FILE""#;

fn targets(workshop: &Workshop) -> String {
    [
        "harness.toml",
        "harness.lock",
        "schemas/verdict.v1.json",
        "prompts/verdict.md",
        "hooks/post",
        "portreeve.toml",
        "state/ledger/00000001.jsonl",
        "state/harness/runs",
        "state/admin.token",
    ]
    .map(|name| workshop.path(name).display().to_string())
    .join(" ")
}

// R231, R248
#[test]
fn the_kernel_keeps_a_runtime_away_from_its_harness() {
    for fs in ["workspace_only", "read_only"] {
        let more =
            format!("[AGENT.sandbox]\nworkspace = \"work\"\nfs = \"{fs}\"\n[AGENT.hooks]\npost = [[\"hooks/post\"]]\n");
        let workshop = Workshop::new().executable("hooks/post", "#!/bin/sh\n").agent(
            "judge",
            &VANDAL.replace("$TARGETS", "$(cat targets)"),
            &more,
        );
        make_workspace(&workshop);
        workshop.write("work/targets", &targets(&workshop));
        let workshop = workshop.ready();
        let before: Vec<String> = ["harness.toml", "harness.lock", "schemas/verdict.v1.json"]
            .map(|name| workshop.read(name))
            .into();
        let outcome = workshop.judge();
        assert_eq!(outcome.code, 0, "{outcome:?}");
        assert_eq!(workshop.read("work/report"), "", "{fs}");
        let after: Vec<String> = ["harness.toml", "harness.lock", "schemas/verdict.v1.json"]
            .map(|name| workshop.read(name))
            .into();
        assert_eq!(before, after);
    }
}

// R231, R248
#[test]
fn without_walls_a_changed_harness_is_found_and_valid_output_goes_nowhere() {
    for (target, script) in [
        (
            "schemas/verdict.v1.json",
            "echo '{\"type\":\"object\",\"minProperties\":1}' > TARGET",
        ),
        ("prompts/verdict.md", "echo more >> TARGET"),
        ("harness.toml", "echo >> TARGET"),
        ("harness.lock", "echo >> TARGET"),
        ("hooks/post", "echo evil >> TARGET"),
        ("agents/judge.sh", "echo evil >> TARGET"),
    ] {
        let more = "[AGENT.sandbox]\nfs = \"none\"\nnet = \"none\"\n[AGENT.retry]\nmax_retries = 2\n[AGENT.hooks]\npost = [[\"hooks/post\"]]\n";
        let workshop = Workshop::new().executable("hooks/post", "#!/bin/sh\necho applied > \"$APPLIED\"\n");
        let applied = workshop.path("applied").display().to_string();
        let path = workshop.path(target).display().to_string();
        let script = format!(
            "{}\necho '{GOOD}' > \"$HARNESS_OUTPUT_FILE\"",
            script.replace("TARGET", &path)
        );
        let workshop = workshop
            .agent("judge", &script, more)
            .variable("APPLIED", &applied)
            .ready();
        open_to_all(&workshop, target);
        let outcome = workshop.judge();
        assert_eq!(outcome.code, 14, "{target}: {outcome:?}");
        assert!(outcome.emitted_nothing(), "{target}");
        assert_eq!(workshop.classes(), ["integrity"], "{target}: never tried again");
        assert!(!workshop.path("applied").exists(), "{target}");
        assert_eq!(workshop.records("harness_attempt")[0]["sandbox"]["fs_policy"], "none");
    }
}

// R248
#[test]
fn a_schema_that_is_swapped_while_the_runtime_runs_is_not_used() {
    // The new schema would accept the output; the one that was loaded does not.
    let script = "echo '{\"anything\":1}' > \"$HARNESS_OUTPUT_FILE\"; touch started; sleep 2";
    let more = "[AGENT.sandbox]\nworkspace = \"work\"\n[AGENT.retry]\nmax_retries = 0\n";
    let workshop = Workshop::new().agent("judge", script, more);
    make_workspace(&workshop);
    let workshop = workshop.ready();
    let child = workshop.spawn(&["run", "judge", "--json"]);
    while !workshop.path("work/started").exists() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    workshop.write("schemas/verdict.v1.json", "{\"type\":\"object\",\"minProperties\":1}");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(14));
    assert!(output.stdout.is_empty());
}

// R232
#[test]
fn a_runtime_has_neither_the_hosts_variables_nor_its_network() {
    let script = r#"
        env | sort > environment
        cat /proc/self/environ > /dev/null
        (echo x | timeout 3 sh -c 'exec 3<>/dev/tcp/1.1.1.1/80') 2>/dev/null
        getent hosts evil.example >/dev/null 2>&1
        echo '{"verdict":"ok"}' > "$HARNESS_OUTPUT_FILE""#;
    let more = "[AGENT.env]\nGIVEN = \"env:OWN_KEY\"\n[AGENT.sandbox]\nworkspace = \"work\"\n";
    let workshop = Workshop::new().agent("judge", script, more);
    make_workspace(&workshop);
    let workshop = workshop
        .variable("OWN_KEY", "given-to-the-agent")
        .variable("HOOK_SECRET", "of-the-hooks-alone")
        .ready();
    let outcome = workshop.judge();
    assert_eq!(outcome.code, 0, "{outcome:?}");
    let environment = workshop.read("work/environment");
    assert!(environment.contains("GIVEN=given-to-the-agent"));
    assert!(!environment.contains("of-the-hooks-alone") && !environment.contains("OWN_KEY"));
    let mut names: Vec<&str> = environment.lines().filter_map(|line| line.split('=').next()).collect();
    names.retain(|name| !["PWD", "OLDPWD", "_", "SHLVL"].contains(name));
    let expected = [
        "GIVEN",
        "HARNESS_AGENT",
        "HARNESS_ATTEMPT",
        "HARNESS_DEADLINE",
        "HARNESS_INPUT_DIR",
        "HARNESS_MAX_ATTEMPTS",
        "HARNESS_OUTPUT_DIR",
        "HARNESS_OUTPUT_FILE",
        "HARNESS_RUN_ID",
        "HARNESS_SCHEMA",
        "HOME",
        "LANG",
        "PATH",
        "TMPDIR",
    ];
    assert_eq!(names, expected);
    let egress = workshop.listed(&["--type", "egress", "--run", outcome.run()]);
    assert!(!egress.is_empty(), "what a runtime tries to reach is recorded");
    assert!(
        egress
            .iter()
            .all(|record| record["result"] == "blocked" && record["server_id"] == "judge")
    );
}

// R231
#[test]
fn an_agent_of_a_pipeline_cannot_reach_anothers_directory() {
    let vandal = r#"
        for place in $(dirname "$(dirname "$HARNESS_OUTPUT_DIR")")/portreeve-*; do
            [ "$place" = "$(dirname "$HARNESS_OUTPUT_DIR")" ] || echo "$place" >> "$HARNESS_OUTPUT_DIR/seen"
        done
        [ -e "$HARNESS_OUTPUT_DIR/seen" ] && exit 7
        echo '{"verdict":"ok"}' > "$HARNESS_OUTPUT_FILE""#;
    let workshop = Workshop::new()
        .agent("one", &format!("sleep 1\n{vandal}"), "")
        .agent("two", vandal, "")
        .toml("[pipelines.both]\nstages = [{ parallel = [\"one\", \"two\"] }]\n")
        .ready();
    let outcome = workshop.run(&["pipeline", "both"]);
    assert_eq!(outcome.code, 0, "{outcome:?}");
    assert_eq!(outcome.published(), ["one.json", "two.json"]);
}

// R247
#[test]
fn a_harness_that_is_killed_leaves_no_half_file_and_an_open_run() {
    let workshop = Workshop::of(&format!("echo '{GOOD}' > \"$HARNESS_OUTPUT_FILE\"; sleep 0.2")).ready();
    for delay in [150, 300, 450, 600, 750, 900] {
        let mut child = workshop.spawn(&["run", "judge", "--json"]);
        std::thread::sleep(std::time::Duration::from_millis(delay));
        let _ = child.kill();
        let _ = child.wait();
    }
    let runs = workshop.path("state/harness/runs");
    for run in names(&runs) {
        let folder = runs.join(&run);
        for file in names(&folder.join("validated")) {
            if !file.starts_with('.') {
                let text = std::fs::read_to_string(folder.join("validated").join(file)).unwrap();
                assert_eq!(text, format!("{GOOD}\n"));
            }
        }
        let records = workshop.listed(&["--run", &run]);
        let ended = records.iter().any(|record| record["type"] == "harness_result");
        let state = std::fs::read_to_string(folder.join("run.json")).unwrap_or_default();
        assert!(ended || !state.contains("\"status\":\"ok\""), "{run}: {state}");
        let starts = workshop.records("admin");
        assert!(
            state.is_empty() || starts.iter().any(|record| record["subject"] == run.as_str()),
            "{run} began without a record"
        );
    }
}

fn open_to_all(workshop: &Workshop, target: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    for (name, mode) in [
        (target, 0o777),
        ("schemas", 0o777),
        ("prompts", 0o777),
        ("hooks", 0o777),
        ("agents", 0o777),
    ] {
        if workshop.path(name).exists() {
            std::fs::set_permissions(workshop.path(name), std::fs::Permissions::from_mode(mode)).unwrap();
        }
    }
}
