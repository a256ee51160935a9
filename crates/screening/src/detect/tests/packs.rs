//! Packs of operators: what they add, what they excuse, and how their faults are told.

use super::*;

const GOOD: &str = r#"
[[rule]]
id = "badge"
category = "custom"
severity = "critical"
keywords = ["BADGE-"]
pattern = '\bBADGE-[0-9]{8}\b'
examples.finds = ["BADGE-{dig:8}"]
examples.passes = ["BADGE-1"]

[[allow]]
rule = "badge"
server = "doors"
tool = "*"
"#;

fn with(text: &str) -> Result<Detector, Vec<PackFault>> {
    Detector::with_packs(&[Pack { name: "own.toml", text }])
}

fn told(faults: Result<Detector, Vec<PackFault>>) -> Vec<String> {
    faults
        .err()
        .unwrap_or_default()
        .iter()
        .map(ToString::to_string)
        .collect()
}

#[test]
fn an_operator_adds_rules_and_excuses_them_by_server_and_tool() {
    let detector = with(GOOD).expect("a good pack");
    let raw = "BADGE-12345678";
    let found = |server| {
        detector
            .find(&[text_piece(raw)], &Excuse { server, tool: "open" })
            .len()
    };
    assert_eq!((found("files"), found("doors")), (1, 0));
    assert_ne!(detector.hash(), DETECTOR.hash());
    assert_eq!(detector.hash(), with(GOOD).expect("a good pack").hash());
}

#[test]
fn every_fault_has_file_line_and_advice() {
    let broken = |from: &str, to: &str| told(with(&GOOD.replace(from, to)));
    let one = |from: &str, to: &str, line: usize, words: &str| {
        let told = broken(from, to);
        let [fault] = &told[..] else { panic!("{to}: {told:?}") };
        assert!(
            fault.starts_with(&format!("own.toml:{line}: ")) && fault.contains(words),
            "{fault}"
        );
    };
    one("[0-9]{8}", "[0-9", 7, "cannot be read");
    one("[0-9]{8}", "[0-9]+", 7, "no longest match");
    one("[0-9]{8}", "(?=x)", 7, "cannot be read");
    one("'\\bBADGE-[0-9]{8}\\b'", "'[0-9]*'", 7, "empty");
    one("\"BADGE-\"", "\"BA\"", 2, "shorter than three");
    one("[\"BADGE-\"]", "[]", 2, "no keyword");
    one("\"badge\"", "\"jwt\"", 2, "used twice");
    one("rule = \"badge\"", "rule = \"bagde\"", 11, "not a rule");
    one(
        "finds = [\"BADGE-{dig:8}\"]",
        "finds = [\"BADGE-1\"]",
        2,
        "does not find",
    );
    one(
        "passes = [\"BADGE-1\"]",
        "passes = [\"BADGE-12345678\"]",
        2,
        "lets pass",
    );
    one("passes = [\"BADGE-1\"]", "passes = []", 2, "no examples");
    one("severity = \"critical\"", "severity = \"grave\"", 5, "grave");
    one(
        "severity = \"critical\"",
        "severity = \"critical\"\nseverty = 1",
        6,
        "severty",
    );
    one("id = \"badge\"", "id = ", 3, "");
}

#[test]
fn all_faults_are_told_at_once() {
    let both = GOOD
        .replace("[0-9]{8}", "[0-9")
        .replace("rule = \"badge\"", "rule = \"bagde\"");
    assert_eq!(told(with(&both)).len(), 2);
}
