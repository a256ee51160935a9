//! Commands on the host, before and after.

use crate::support::workshop::{GOOD, Workshop};

const HOOKS: &str = "[AGENT.hooks]\npre = [[\"hooks/pre\"]]\npost = [[\"hooks/post\", \"--apply\"]]\n";

fn workshop(script: &str, pre: &str, post: &str) -> Workshop {
    let workshop = Workshop::new()
        .executable("hooks/pre", &format!("#!/bin/sh\necho pre >> \"$TRACE\"\n{pre}\n"))
        .executable(
            "hooks/post",
            &format!("#!/bin/sh\necho \"post $*\" >> \"$TRACE\"\n{post}\n"),
        )
        .agent("judge", script, HOOKS);
    let trace = workshop.path("trace").display().to_string();
    workshop
        .variable("TRACE", &trace)
        .variable("HOOK_SECRET", "for-hooks")
        .ready()
}

// R242, R250
#[test]
fn hooks_run_around_the_judgement_with_their_own_environment() {
    let pre = "echo fetched > \"$HARNESS_INPUT_DIR/issue.txt\"; [ \"$HOOK_SECRET\" = for-hooks ]";
    let post = r#"
        [ "$HOOK_SECRET" = for-hooks ] || exit 5
        cat "$HARNESS_VALIDATED_FILE" >> "$TRACE"
        echo "$HARNESS_VALIDATED_SHA256  $HARNESS_VALIDATED_FILE" | sha256sum -c - >> "$TRACE"
        env | grep -c ^HARNESS_ >> "$TRACE"
        echo said by the hook"#;
    let script = format!(
        "[ -z \"$HOOK_SECRET\" ] && grep -q fetched \"$HARNESS_INPUT_DIR/issue.txt\" && echo '{GOOD}' > \"$HARNESS_OUTPUT_FILE\""
    );
    let workshop = workshop(&script, pre, post);
    let outcome = workshop.judge();
    assert_eq!(
        (outcome.code, outcome.stdout.as_str()),
        (0, "{\"verdict\":\"ok\"}\n"),
        "{outcome:?}"
    );
    let trace = workshop.read("trace");
    let lines: Vec<&str> = trace.lines().collect();
    assert_eq!(lines[..3], ["pre", "post --apply", GOOD]);
    assert!(lines[3].ends_with(": OK"), "{trace}");
    assert_eq!(lines[4], "4", "run, agent, file and digest");
    assert!(!outcome.stdout.contains("said by"));
}

// R246, R250
#[test]
fn hooks_after_run_only_on_valid_output() {
    let workshop = workshop("echo '{}' > \"$HARNESS_OUTPUT_FILE\"", "", "");
    let outcome = workshop.judge();
    assert_eq!(outcome.code, 10);
    assert_eq!(workshop.read("trace"), "pre\n");
}

#[test]
fn a_hook_before_can_skip_or_fail_the_run() {
    let run = format!("echo ran >> \"$HARNESS_OUTPUT_DIR/x\"; echo '{GOOD}' > \"$HARNESS_OUTPUT_FILE\"");
    let skipped = workshop(&run, "exit 78", "");
    let outcome = skipped.judge();
    assert_eq!(
        (outcome.code, &outcome.object["status"], &outcome.object["attempts"]),
        (0, &"skipped".into(), &0.into())
    );
    assert!(outcome.emitted_nothing());
    assert_eq!(skipped.read("trace"), "pre\n");
    assert_eq!(skipped.records("harness_result")[0]["reason"], "skipped_by_hook");
    let failed = workshop(&run, "exit 1", "");
    let outcome = failed.judge();
    assert_eq!(outcome.code, 15);
    assert!(outcome.emitted_nothing());
    assert_eq!(failed.classes(), Vec::<String>::new());
}

// R250
#[test]
fn a_hook_after_that_fails_leaves_the_file_and_nothing_on_standard_output() {
    let workshop = workshop(&format!("echo '{GOOD}' > \"$HARNESS_OUTPUT_FILE\""), "", "exit 1");
    let outcome = workshop.judge();
    assert_eq!(outcome.code, 16);
    assert_eq!(outcome.stdout, "");
    assert_eq!(outcome.published(), ["judge.json"]);
    assert_eq!(workshop.read("trace"), "pre\npost --apply\n", "once");
    let admin = workshop.records("admin");
    assert_eq!(admin.last().unwrap()["action"], "harness.post_hook");
}

#[test]
fn hooks_share_the_runs_time() {
    let workshop = Workshop::new()
        .executable("hooks/pre", "#!/bin/sh\nsleep 30\n")
        .agent(
            "judge",
            "true",
            "[AGENT.hooks]\npre = [[\"hooks/pre\"]]\n[AGENT.limits]\ntimeout = \"1s\"\ntotal_timeout = \"1s\"\n",
        )
        .ready();
    let began = std::time::Instant::now();
    assert_eq!(workshop.judge().code, 15);
    assert!(began.elapsed() < std::time::Duration::from_secs(20));
}
