//! Structured output that is passed over as a whole held nothing, seen string by string.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn scanned(structured: &str) -> Scanned {
    let answer = Bytes::from(format!(
        r#"{{"result":{{"content":[],"structuredContent":{structured}}}}}"#
    ));
    let [result] = members_of(&answer, 512, ["result"]).unwrap();
    result.unwrap()
}

fn is_quiet(structured: &str, rules: &Rules) -> bool {
    let run = Run {
        origin: &ORIGIN,
        rules,
        own: None,
    };
    run.quiet(&scanned(structured)).is_some()
}

fn everything() -> Rules {
    let mut rules = redacting();
    rules.sanitisation.strip = Classes::ALL;
    rules.sanitisation.spotlight = Spotlight::Untrusted;
    rules
}

#[test]
fn ordinary_output_is_passed_over() {
    let item = |number: usize| {
        format!(
            r#"{{"id":{number},"name":"Entry number {number}, “Straße”\n","path":"/srv/agents/files/part-{number}.txt",
	"amount_cents":{},"when":"2026-11-16T12:00:{:02}Z","tags":["north","he said \"no\""],"ok":true}}"#,
            1000 + 37 * number,
            number % 60
        )
    };
    let items: Vec<_> = (0..200).map(item).collect();
    assert!(is_quiet(
        &format!(r#"{{"items":[{}]}}"#, items.join(",")),
        &everything()
    ));
}

#[test]
fn what_could_be_something_is_not_passed_over() {
    let card: String = CARD.chars().filter(char::is_ascii_digit).collect();
    for structured in [
        format!(r#"{{"a":"{TOKEN}"}}"#),
        format!(r#"["{CARD}"]"#),
        format!(r#"{{"card_number":{card}}}"#),
        r#"{"api_key":"x"}"#.to_owned(),
        r#"{"a":{"\u0061pi_key":["x"]}}"#.to_owned(),
        r#"{"a":"gh\u0070_"}"#.to_owned(),
        "{\"a\":\"x\u{200b}y\"}".to_owned(),
        r#"{"a":"\u001b[1m"}"#.to_owned(),
        r#"{"a":"\\u001b[1m"}"#.to_owned(),
        r#"["-----BEGIN","x"]"#.to_owned(),
        r#""c2VjcmV0IGlzIGhlcmUsIHJlYWQgbWU=""#.to_owned(),
        r#""a%20b%20c%20d%20e%20f%20g%20h%20i""#.to_owned(),
    ] {
        assert!(!is_quiet(&structured, &everything()), "{structured}");
    }
}

#[test]
fn a_name_outside_may_speak_of_secrets() {
    let pack = r#"
[[rule]]
id = "structured"
category = "custom"
severity = "high"
keywords = ["structured"]
pattern = 'structuredContent": "[a-z]{8}'
examples.finds = ['"structuredContent": "abcdefgh"']
examples.passes = ["structured"]
"#;
    let packs = [crate::detect::Pack {
        name: "own.toml",
        text: pack,
    }];
    let Ok(detector) = Detector::with_packs(&packs) else {
        panic!("{:?}", Detector::with_packs(&packs).err());
    };
    let mut rules = everything();
    rules.sanitisation.action = ResponseAction::Redact(Arc::new(detector));
    assert!(!is_quiet(r#""abcdefgh""#, &rules));
}

/// Parts of strings, as they are spelled: what is looked for, what hides it, and what is neither.
fn part() -> impl Strategy<Value = String> {
    let half = TOKEN.len() / 2;
    let (head, tail) = TOKEN.split_at(half);
    let parts = [
        TOKEN,
        head,
        tail,
        CARD,
        "4539148803436467",
        "4539",
        "password=",
        "Bearer ",
        "-----BEGIN RSA PRIVATE KEY-----",
        "-----END RSA PRIVATE KEY-----",
        "MIIEpAIBAAKCAQEA7bq3Kx2vQm9dTzR4",
        "c2VjcmV0IGlzIGhlcmUsIHJlYWQgbWU=",
        "676870",
        "%67%68",
        "\\n",
        "\\\"",
        "\\t",
        "\\\\",
        "\\/",
        "\\u0070",
        "\\u200b",
        "\\u001b[1m",
        "\u{200b}",
        "\u{ad}",
        "é",
        "“Straße”",
        " ",
        "north",
        "/srv/files/part-1.txt",
        "12",
    ];
    prop::sample::select(parts.map(str::to_owned).to_vec())
}

/// JSON, as it is spelled.
fn value() -> impl Strategy<Value = String> {
    let string = vec(part(), 0..4).prop_map(|parts| format!("\"{}\"", parts.concat()));
    let number = prop::sample::select(vec![
        "7",
        "1e2",
        "4539148803436467",
        "-4539148803436467",
        "true",
        "null",
    ]);
    let leaf = prop_oneof![3 => string, 1 => number.prop_map(str::to_owned)];
    leaf.prop_recursive(3, 16, 4, |inner| {
        let names = vec![
            "id",
            "name",
            "api_key",
            "tok\\u0065n",
            "card_number",
            "pass\u{200b}word",
            "note",
        ];
        let member = (prop::sample::select(names), inner.clone());
        prop_oneof![
            vec(inner, 0..4).prop_map(|elements| format!("[{}]", elements.join(", "))),
            vec(member, 0..4).prop_map(|members| {
                let members: Vec<_> = members
                    .iter()
                    .map(|(name, value)| format!("\"{name}\":{value}"))
                    .collect();
                format!("{{\n{}\r\n}}", members.join(",\t"))
            }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    // The comparison is made by `told`.
    #[test]
    fn passing_over_makes_no_difference(structured in value(), content in part(), which in 0..4_usize) {
        let raw = format!(
            r#"{{"content":[{{"type":"text","text":"{content}"}}],"structuredContent":{structured}}}"#
        );
        let mut stripping = rules();
        stripping.sanitisation.strip = Classes::ALL;
        let rules = [everything(), blocking(), redacting(), stripping];
        told(&raw, &UNTRUSTED, &rules[which]);
    }
}
