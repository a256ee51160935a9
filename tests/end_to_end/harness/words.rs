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
