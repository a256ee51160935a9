//! Several agents: each judged on its own, failures stop who needs them.

use crate::support::workshop::{GOOD, Outcome, Workshop, names};

fn writes(text: &str) -> String {
    format!("echo '{text}' > \"$HARNESS_OUTPUT_FILE\"")
}

/// Lists what it was given and says so in its own output.
const AGGREGATE: &str = r#"
    ls "$HARNESS_INPUT_DIR" > "$HARNESS_OUTPUT_DIR/seen"; ls "$HARNESS_INPUT_DIR" >&2; cat "$HARNESS_INPUT_DIR/manifest.json" >&2
    count=$(ls "$HARNESS_INPUT_DIR" | grep -v manifest.json | wc -l)
    printf '{"verdict":"ok","count":%s}' "$count" > "$HARNESS_OUTPUT_FILE""#;

fn review(security: &str, style: &str, tests: &str, stage: &str) -> Workshop {
    let once = "[AGENT.retry]\nmax_retries = 0\n";
    Workshop::new()
        .agent("security", security, once)
        .agent("style", style, once)
        .agent("tests", tests, once)
        .agent("aggregate", AGGREGATE, once)
        .toml(&format!(
            "[pipelines.review]\nstages = [{{ parallel = [\"security\", \"style\", \"tests\"] }}, {stage}]\n"
        ))
        .ready()
}

const NEEDS: &str = "{ agent = \"aggregate\", needs = [\"security\", \"style\", \"tests\"] }";

fn status_of<'a>(outcome: &'a Outcome, agent: &str) -> Option<&'a str> {
    let agents = outcome.object["agents"].as_array()?;
    agents.iter().find(|object| object["agent"] == agent)?["status"].as_str()
}

// R230, R257
#[test]
fn an_aggregator_sees_exactly_the_three_validated_files() {
    let workshop = review(&writes(GOOD), &writes(GOOD), &writes(GOOD), NEEDS);
    let outcome = workshop.run(&["pipeline", "review"]);
    assert_eq!(
        (outcome.code, outcome.stdout.as_str()),
        (0, "{\"verdict\":\"ok\",\"count\":3}"),
        "{outcome:?}"
    );
    assert_eq!(
        outcome.published(),
        ["aggregate.json", "security.json", "style.json", "tests.json"]
    );
    let told = std::fs::read_to_string(outcome.directory().join("quarantine/aggregate-1.stderr")).unwrap();
    assert!(
        told.starts_with("manifest.json\nsecurity.json\nstyle.json\ntests.json\n"),
        "{told}"
    );
    let manifest: serde_json::Value = serde_json::from_str(told.lines().last().unwrap()).unwrap();
    let results = workshop.records("harness_result");
    for input in manifest["inputs"].as_array().unwrap() {
        let result = results.iter().find(|result| result["agent"] == input["agent"]).unwrap();
        assert_eq!(input["output_hash"], result["output"]["hash"]);
        assert_eq!(input["receipt_id"], result["receipt_id"]);
        assert_eq!(input["schema_hash"], result["schema_hash"]);
    }
    let last = results.last().unwrap();
    assert_eq!(
        (&last["agent"], last["inputs"].as_array().unwrap().len()),
        (&"aggregate".into(), 3)
    );
    assert_eq!(workshop.listed(&["--run", outcome.run()]).len(), 8, "one run, one log");
}

// R247, R257
#[test]
fn one_invalid_of_three_and_the_aggregator_never_starts() {
    for slow in ["", "sleep 2; "] {
        let bad = format!("{slow}{}", writes("{\"verdict\":\"LEAK\"}"));
        let workshop = review(&writes(GOOD), &bad, &writes(GOOD), NEEDS);
        let outcome = workshop.run(&["pipeline", "review"]);
        assert_eq!((outcome.code, outcome.stdout.as_str()), (20, ""));
        assert_eq!(status_of(&outcome, "aggregate"), None);
        assert!(!outcome.published().contains(&"aggregate.json".to_owned()));
        let failed = outcome.object["failed"].as_array().unwrap();
        let failure = failed.iter().find(|object| object["agent"] == "style").unwrap();
        assert_eq!(
            (&failure["attempts"], &failure["class"]),
            (&1.into(), &"schema_violation".into())
        );
        assert_eq!(failure["violations"][0]["path"], "/verdict");
        assert!(!outcome.object.to_string().contains("LEAK"));
        let agents: Vec<_> = workshop
            .records("harness_attempt")
            .iter()
            .map(|record| record["agent"].clone())
            .collect();
        assert!(!agents.contains(&"aggregate".into()), "{agents:?}");
    }
}

#[test]
fn a_failure_stops_those_who_run_beside_it() {
    let slow = format!("sleep 60; {}", writes(GOOD));
    let workshop = review(&slow, &writes("{}"), &slow, NEEDS);
    let began = std::time::Instant::now();
    let outcome = workshop.run(&["pipeline", "review"]);
    assert_eq!(outcome.code, 20);
    assert!(began.elapsed() < std::time::Duration::from_secs(30));
    let results = workshop.records("harness_result");
    let reason = |agent: &str| {
        results
            .iter()
            .find(|result| result["agent"] == agent)
            .map(|result| result["reason"].clone())
    };
    assert_eq!(reason("security"), Some("stopped".into()));
    assert_eq!(reason("style"), Some("exhausted".into()));
}

#[test]
fn a_partial_input_must_be_written_out_and_is_a_marker_without_data() {
    let partial =
        "{ agent = \"aggregate\", needs = [\"security\", \"style\", \"tests\"], allow_partial = [\"style\"] }";
    let workshop = review(&writes(GOOD), &writes("{\"verdict\":\"LEAK\"}"), &writes(GOOD), partial);
    let outcome = workshop.run(&["pipeline", "review"]);
    assert_eq!(
        (outcome.code, outcome.stdout.as_str()),
        (0, "{\"verdict\":\"ok\",\"count\":2}"),
        "{outcome:?}"
    );
    let told = std::fs::read_to_string(outcome.directory().join("quarantine/aggregate-1.stderr")).unwrap();
    assert!(!told.contains("LEAK") && !told.contains("style.json"));
    let manifest: serde_json::Value = serde_json::from_str(told.lines().last().unwrap()).unwrap();
    assert_eq!(manifest["failed"][0]["agent"], "style");
    assert_eq!(manifest["failed"][0]["class"], "schema_violation");
    // Another need is still a need.
    let workshop = review(&writes("{}"), &writes(GOOD), &writes(GOOD), partial);
    assert_eq!(workshop.run(&["pipeline", "review"]).code, 20);
}

// R230
#[test]
fn whoever_fails_does_not_choose_the_answer_of_a_condition() {
    let with = |second: &str| {
        Workshop::new()
            .agent("first", &writes("{}"), "")
            .agent("second", &writes(GOOD), "")
            .agent("third", &writes(GOOD), "")
            .toml(&format!(
                "[pipelines.p]\nstages = [{{ agent = \"first\" }}, {{ agent = \"second\", needs = [\"first\"], allow_partial = [\"first\"] }}{second}]\n"
            ))
            .ready()
    };
    let plain = with(", { agent = \"third\" }");
    assert_eq!(plain.run(&["pipeline", "p"]).code, 0, "bearable by itself");
    let asks = ", { agent = \"third\", when = { from = \"first\", pointer = \"/verdict\", equals = \"block\" } }";
    let outcome = with(asks).run(&["pipeline", "p"]);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (20, ""), "{outcome:?}");
}

// R230
#[test]
fn conditions_read_validated_output_and_a_missing_pointer_is_false() {
    let with = |pointer: &str, value: &str, second: &str| {
        Workshop::new()
            .agent("first", &writes("{\"verdict\":\"block\",\"count\":3}"), "")
            .agent("second", second, "")
            .toml(&format!(
                "[pipelines.p]\nstages = [{{ agent = \"first\" }}, {{ agent = \"second\", when = {{ from = \"first\", pointer = \"{pointer}\", {value} }} }}]\n"
            ))
            .ready()
    };
    for (pointer, value, runs, reason) in [
        ("/verdict", "equals = \"block\"", true, "valid"),
        ("/verdict", "equals = \"ok\"", false, "condition_false"),
        ("/count", "in = [1, 3]", true, "valid"),
        ("/count", "equals = \"3\"", false, "condition_false"),
        ("/nowhere/at/all", "equals = 1", false, "pointer_missing"),
    ] {
        let workshop = with(pointer, value, &writes(GOOD));
        let outcome = workshop.run(&["pipeline", "p"]);
        assert_eq!(outcome.code, 0, "{pointer} {value}");
        assert_eq!(outcome.stdout.is_empty(), !runs, "{pointer} {value}");
        let results = workshop.records("harness_result");
        assert_eq!(results[1]["reason"], reason, "{pointer} {value}");
    }
    // A first stage that fails decides nothing.
    let workshop = Workshop::new()
        .agent("first", &writes("{\"verdict\":\"evil\"}"), "[AGENT.retry]\nmax_retries = 0\n")
        .agent("second", &writes(GOOD), "")
        .toml("[pipelines.p]\nstages = [{ agent = \"first\" }, { agent = \"second\", when = { from = \"first\", pointer = \"/verdict\", equals = \"evil\" } }]\n")
        .ready();
    assert_eq!(workshop.run(&["pipeline", "p"]).code, 20);
    assert_eq!(workshop.records("harness_attempt").len(), 1);
}

// R233
#[test]
fn there_is_no_trusted_agent() {
    let workshop = Workshop::new()
        .agent(
            "internal",
            &writes("{\"verdict\":\"trust me\"}"),
            "[AGENT.retry]\nmax_retries = 0\n",
        )
        .agent("next", AGGREGATE, "")
        .toml("[pipelines.p]\nstages = [{ agent = \"internal\" }, { agent = \"next\", needs = [\"internal\"] }]\n")
        .ready();
    assert_eq!(workshop.run(&["pipeline", "p"]).code, 20);
    assert_eq!(workshop.run(&["run", "internal"]).code, 10);
}

// R256
#[test]
fn a_budget_is_shared_by_all_agents() {
    let bad = "echo \"{\\\"verdict\\\":\\\"$HARNESS_AGENT $HARNESS_ATTEMPT\\\"}\" > \"$HARNESS_OUTPUT_FILE\"";
    let workshop = Workshop::new()
        .agent("one", &writes(GOOD), "")
        .agent("two", bad, "[AGENT.retry]\nmax_retries = 2\n")
        .toml("[pipelines.p]\nbudget = { attempts = 2 }\nstages = [{ agent = \"one\" }, { agent = \"two\" }]\n[pipelines.q]\nbudget = { time = \"1s\" }\nstages = [{ agent = \"slow\" }]\n")
        .agent("slow", &format!("sleep 30; {}", writes(GOOD)), "")
        .ready();
    let outcome = workshop.run(&["pipeline", "p"]);
    assert_eq!(outcome.code, 20);
    assert_eq!(workshop.records("harness_attempt").len(), 2);
    assert_eq!(outcome.object["failed"][0]["reason"], "budget");
    let outcome = workshop.run(&["pipeline", "q"]);
    assert_eq!(
        (outcome.code, &outcome.object["failed"][0]["reason"]),
        (20, &"budget".into())
    );
}

// R257
#[test]
fn fifty_agents_finish_with_bounded_memory() {
    let mut workshop = Workshop::new();
    let mut all = Vec::new();
    for number in 0..50 {
        let name = format!("agent-{number}");
        let script = "printf '{\"verdict\":\"ok\",\"note\":\"' > note; head -c 900000 /dev/zero | tr '\\0' x >> note; printf '\"}' >> note; cp note \"$HARNESS_OUTPUT_FILE\"";
        workshop = workshop.agent(&name, script, "");
        all.push(format!("\"{name}\""));
    }
    let workshop = workshop
        .toml(&format!(
            "[pipelines.many]\nstages = [{{ parallel = [{}] }}]\n",
            all.join(", ")
        ))
        .ready();
    let mut child = workshop.spawn(&["pipeline", "many", "--json"]);
    let mut peak = 0;
    while child.try_wait().unwrap().is_none() {
        peak = peak.max(peak_memory(child.id()));
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let output = child.wait_with_output().unwrap();
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let object: serde_json::Value = serde_json::from_slice(&output.stderr).unwrap();
    let published = names(&std::path::Path::new(object["directory"].as_str().unwrap()).join("validated"));
    assert_eq!(published.len(), 50);
    assert!(peak < 600 << 20, "{} MiB", peak >> 20);
}

fn peak_memory(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok())
        .unwrap_or_default()
        * 1024
}

#[test]
fn steps_are_told_line_by_line_where_there_is_no_terminal() {
    let workshop = review(&writes(GOOD), &writes(GOOD), &writes(GOOD), NEEDS);
    let finished = workshop.harness(&["pipeline", "review"]);
    assert_eq!(
        (finished.code, finished.stdout.as_str()),
        (Some(0), "{\"verdict\":\"ok\",\"count\":3}")
    );
    for line in ["style: attempt 1 of 1\n", "aggregate: ok (valid) after "] {
        assert!(finished.stderr.contains(line), "{line} in {}", finished.stderr);
    }
    assert!(!finished.stderr.contains('\u{1b}'));
    let last = finished.stderr.lines().last().unwrap();
    assert!(
        last.starts_with("pipeline review: 4 of 4 agents, 4 attempts, "),
        "{last}"
    );
}

#[test]
fn a_signal_ends_the_run_in_good_order() {
    let workshop = Workshop::of(&format!("touch \"$HARNESS_OUTPUT_DIR/x\"; sleep 60; {}", writes(GOOD))).ready();
    let child = workshop.spawn(&["run", "judge", "--json"]);
    let runs = workshop.path("state/harness/runs");
    while names(&runs).is_empty() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    std::thread::sleep(std::time::Duration::from_millis(500));
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(
        output.status.code(),
        Some(143),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.stdout.is_empty());
    assert_eq!(workshop.records("harness_result")[0]["reason"], "stopped");
}
