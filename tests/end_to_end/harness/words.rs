//! What is told about a harness, and whether it could be.

use crate::support::environment::{Finished, command, portreeve};
use crate::support::workshop::{GOOD, Workshop};

const GIVE: &str = "echo '{\"verdict\":\"ok\"}' > \"$HARNESS_OUTPUT_FILE\"";

#[test]
fn no_key_of_a_harness_moves_the_cursor() {
    let workshop = Workshop::of(GIVE).ready();
    let text = workshop.read("harness.toml");
    for more in [
        "\"x\\u001b]0;owned\\u0007\\u202e\" = 1\n",
        "[agents.\"\\u001b[2Jx\"]\ncommand = []\n",
        "[pipelines.\"\\u001b[2Jx\"]\nstages = []\n",
        "[agents.judge.env]\n\"\\u001b[2J\" = \"env:NOT_THERE\"\n",
    ] {
        workshop.write("harness.toml", &format!("{text}\n{more}"));
        workshop.harness(&["lock"]);
        for arguments in [&["check"][..], &["lock"], &["run", "judge"], &["run", "\u{1b}[2J"]] {
            let finished = workshop.harness(arguments);
            assert_ne!(finished.stderr, "");
            assert!(
                !finished.stderr.contains(['\u{1b}', '\u{7}', '\u{202e}']),
                "{more} {arguments:?}: {:?}",
                finished.stderr
            );
        }
    }
}

#[test]
fn a_document_that_could_not_be_written_is_not_a_success() {
    let workshop = Workshop::of(GIVE).ready();
    for (redirection, code) in [(">&-", 1), ("> /dev/full", 1), ("> /dev/null", 0), ("> out", 0)] {
        let line = format!("{} harness run judge {redirection}", portreeve().display());
        let finished = Finished::of(command("sh").args(["-c", &line]).current_dir(workshop.path("")));
        assert_eq!(finished.code, Some(code), "{redirection}: {}", finished.stderr);
    }
    let line = format!("({} harness run judge; echo $? >&2) | true", portreeve().display());
    let finished = Finished::of(command("bash").args(["-c", &line]).current_dir(workshop.path("")));
    assert!(finished.stderr.trim().ends_with('1'), "{}", finished.stderr);
    assert_eq!(workshop.read("out").trim(), GOOD);
}

#[test]
fn one_is_told_as_one() {
    let workshop = Workshop::of(GIVE).ready();
    let told = workshop.harness(&["lock"]).stderr;
    assert!(told.ends_with("1 agent\n"), "{told}");
    let told = workshop.harness(&["check"]).stderr;
    assert!(told.contains("1 agent and no pipelines"), "{told}");
}

#[test]
fn a_runtime_that_failed_is_told_with_its_last_words_and_nothing_was_exhausted() {
    let token = concat!("gh", "p_R7kT2mQ9vX4bN8cL1wZ6yH3jF5dS0gAaPpEe");
    let noise = "i=0; while [ $i -lt 20000 ]; do echo \"line $i of many\" >&2; i=$((i + 1)); done";
    let script = format!("{noise}; printf '\\033[31mno model with {token}\\n' >&2; exit 3");
    let workshop = Workshop::of(&script).ready();
    let outcome = workshop.run(&["run", "judge"]);
    assert_eq!((outcome.code, &outcome.object["reason"]), (12, &"runtime_exit".into()));
    let attempt = &outcome.object["history"][0];
    assert_eq!(attempt["exit_code"], 3);
    let words = attempt["stderr"].as_array().unwrap();
    assert_eq!(words.last().unwrap(), "no model with [REDACTED:api_token]");
    assert_eq!(
        words[0], "line 19993 of many",
        "the last of them, however many there were"
    );
    let told = workshop.harness(&["run", "judge"]).stderr;
    assert!(told.contains("judge: failed (runtime_exit), exit 12;"), "{told}");
    assert!(told.contains("attempt 1: runtime_exit, exit code 3, "), "{told}");
    assert!(told.contains("    no model with [REDACTED:api_token]\n"), "{told}");
    assert!(
        !told.contains("exhausted") && !told.contains('\u{1b}') && !told.contains(token),
        "{told}"
    );
}

#[test]
fn the_summary_stands_in_a_line_of_its_own() {
    let workshop = Workshop::of("printf '{\"verdict\":\"ok\"}' > \"$HARNESS_OUTPUT_FILE\"").ready();
    for line in ["harness run judge 2>&1", "harness run judge > both 2>&1; cat both"] {
        let line = format!("{} {line}", portreeve().display());
        let finished = Finished::of(command("sh").args(["-c", &line]).current_dir(workshop.path("")));
        assert!(finished.stdout.lines().any(|line| line == GOOD), "{}", finished.stdout);
    }
    let finished = workshop.harness(&["run", "judge"]);
    assert_eq!(finished.stdout, GOOD, "alone it stays as it was");
    assert!(!finished.stderr.contains("\n\n"), "{}", finished.stderr);
}

#[test]
fn a_run_without_a_configuration_can_be_looked_at() {
    let workshop = Workshop::of(GIVE).ready();
    std::fs::remove_file(workshop.path("portreeve.toml")).unwrap();
    let home = workshop.path("home");
    let run = |arguments: &[&str]| {
        let mut command = command(portreeve());
        command
            .args(arguments)
            .current_dir(workshop.path(""))
            .env("HOME", &home);
        Finished::of(command.env_remove("XDG_STATE_HOME").env_remove("XDG_CONFIG_HOME"))
    };
    let none = run(&["activity", "list"]);
    assert!(none.stderr.contains("no configuration found"), "{none:?}");
    let ran = run(&["harness", "run", "judge", "--json"]);
    let object: serde_json::Value = serde_json::from_str(ran.stderr.trim()).unwrap();
    let name = object["run"].as_str().unwrap();
    let listed = run(&["activity", "list", "--run", name, "--json"]).success();
    assert!(listed.contains("harness_result") && listed.contains(name), "{listed}");
    // The configuration of somebody's gateway elsewhere is not this harness's.
    let elsewhere = home.join(".config/portreeve");
    std::fs::create_dir_all(&elsewhere).unwrap();
    std::fs::write(elsewhere.join("portreeve.toml"), "[state]\ndir = \"elsewhere\"\n").unwrap();
    assert_eq!(run(&["activity", "list", "--run", name, "--json"]).success(), listed);
}
