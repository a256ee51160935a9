//! Which literals are read as one text, and which never are; what is told and stays; what an operator excuses.

use crate::detect::Pack;

use super::*;

/// A secret in two halves, neither of which is one.
fn halves() -> (&'static str, &'static str) {
    TOKEN.split_at(20)
}

fn is_masked(raw: &str) -> bool {
    let told = told(raw, &UNTRUSTED, &redacting());
    let (one, two) = halves();
    let (first, second) = (told.text().contains(one), told.text().contains(two));
    assert_eq!(first, second, "{}", told.text());
    !first
}

fn block(text: &str) -> String {
    format!(r#"{{"type":"text","text":"{text}"}}"#)
}

#[test]
fn a_secret_is_found_over_neighbouring_texts_however_many_there_are() {
    let (one, two) = halves();
    // As many texts as are looked through at a time, and one more or less: the halves lie on both sides of each border.
    for before in [0, 1, 1022, 1023, 1024, 2046, 2047] {
        let mut blocks = vec![block("x"); before];
        blocks.extend([block(one), block(two), block("y")]);
        assert!(
            is_masked(&format!(r#"{{"content":[{}]}}"#, blocks.join(","))),
            "{before}"
        );
    }
}

#[test]
fn texts_with_something_else_between_them_are_not_one() {
    let (one, two) = halves();
    let picture = r#"{"type":"image","data":"","mimeType":"image/png"}"#;
    let raw = format!(r#"{{"content":[{},{picture},{}]}}"#, block(one), block(two));
    assert!(!is_masked(&raw));
}

#[test]
fn strings_of_an_array_are_one_only_within_an_armoured_key() {
    let (one, two) = halves();
    let (begin, end) = (
        concat!("-----BEGIN PRI", "VATE KEY-----"),
        concat!("-----END PRI", "VATE KEY-----"),
    );
    let structured = |strings: &[&str]| {
        let strings: Vec<_> = strings.iter().map(|string| format!(r#""{string}""#)).collect();
        format!(
            r#"{{"content":[],"structuredContent":{{"a":[{}]}}}}"#,
            strings.join(",")
        )
    };
    assert!(!is_masked(&structured(&[one, two])));
    assert!(!is_masked(&structured(&["-----END it-----", one, two])));
    // A key that ends where it begins leaves nothing open.
    let whole = format!("{begin} {end}");
    assert!(!is_masked(&structured(&[&whole, one, two])));
    assert!(!is_masked(&structured(&[begin, end, one, two])));
}

#[test]
fn what_is_told_and_never_masked_stays() {
    let link = concat!(
        "https://b.s3.amazonaws.com/k?X-Amz-Credential=AKIA",
        "Q2RTYU7WXZ3KLMN4%2F20261116"
    );
    let raw = text(link);
    let told = told(&raw, &UNTRUSTED, &redacting());
    assert_eq!(
        (told.text(), told.words()),
        (raw.as_str(), vec!["warning/detection".to_owned()])
    );
}

#[test]
fn a_rule_is_excused_for_the_tool_that_is_named() {
    let pack = |tool: &str| {
        let text = format!("[[allow]]\nrule = \"github-personal-token\"\nserver = \"srv\"\ntool = \"{tool}\"\n");
        let pack = Pack {
            name: "own.toml",
            text: &text,
        };
        Arc::new(Detector::with_packs(&[pack]).unwrap())
    };
    let raw = text(TOKEN);
    for (tool, message, excused) in [
        ("tool", Message::ToolResult, true),
        ("tool", Message::TaskState, true),
        ("other", Message::ToolResult, false),
        ("tool", Message::Other, false),
    ] {
        let mut rules = rules();
        rules.sanitisation.action = ResponseAction::Redact(pack(tool));
        let case = Case { message, ..UNTRUSTED };
        let body = if message == Message::TaskState {
            format!(r#"{{"taskId":"t","result":{raw}}}"#)
        } else {
            raw.clone()
        };
        assert_eq!(
            told(&body, &case, &rules).text().contains(TOKEN),
            excused,
            "{tool} {message:?}"
        );
    }
}

#[test]
fn a_sequence_is_not_read_through_a_mask() {
    let mut rules = redacting();
    rules.sanitisation.strip = Classes::ALL;
    let raw = text(&format!("a \\u001b[{TOKEN} b"));
    let told = told(&raw, &UNTRUSTED, &rules);
    assert_eq!(told.text(), text("a [REDACTED:api_token] b"));
}
