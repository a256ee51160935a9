//! What nobody sees and what a terminal obeys: taken out of untrusted text by class, in every spelling.

use serde_json::{Value, json};

use super::scene::{harbour, is_verbatim, marked, reconfigure, text_of, texts};
use crate::support::records::{all, receipts};
use crate::support::{Act, Setup, Speaks, Town, Turn, tool};

/// One text of each class: what is taken out of it, and of what class.
const CLASSES: [(&str, &str); 4] = [
    ("ansi", "\u{1b}[31m"),
    ("c0c1", "\u{7f}"),
    ("bidi", "\u{202e}"),
    ("zero_width", "\u{200b}"),
];

fn all_at_once() -> String {
    CLASSES.map(|(class, hidden)| format!("{class}{hidden}.")).concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_choice_of_classes_strips_its_own_and_no_other() {
    // R074, R083, R084, R088
    let tools = [tool("work"), tool("odd"), tool("even")];
    let mut harbour = harbour(Speaks::Legacy, &tools, |setup| {
        setup.set("servers.peer.trust", "community").policy(&marked(0))
    })
    .await;
    let agent = harbour.agent("ann").await;
    harbour.peer.always("work", Turn::Result(texts(&[&all_at_once()])));
    let mut seen = Vec::new();
    for number in 0..16 {
        let chosen: Vec<(&str, &str)> = (0..4)
            .filter(|bit| number >> bit & 1 == 1)
            .map(|bit| CLASSES[bit])
            .collect();
        let names: Vec<&str> = chosen.iter().map(|(class, _)| *class).collect();
        let settings = json!({"strip_control_chars": true, "strip_classes": names});
        reconfigure(&mut harbour.gateway, &agent, number + 1, |setup| {
            setup.set("output_sanitisation", &settings)
        })
        .await;
        let answer = agent.call("work", json!({})).await;
        let mut wanted = all_at_once();
        for (_, hidden) in &chosen {
            // An escape is a control character too.
            wanted = wanted.replace(hidden, "");
        }
        if names.contains(&"c0c1") {
            wanted = wanted.replace('\u{1b}', "");
        }
        assert_eq!(text_of(&answer, 0), wanted, "{names:?}");
        seen.push((answer.trace.clone(), names));
    }
    let records = all(&harbour.gateway.home);
    for (trace, names) in seen {
        let request = receipts(&records)
            .into_iter()
            .find(|record| record["trace_id"] == trace.as_str())
            .unwrap();
        let of_it =
            |record: &&Value| record["type"] == "policy_decision" && record["receipt_id"] == request["receipt_id"];
        let about: Vec<&Value> = records.iter().filter(of_it).collect();
        assert_eq!(about.len(), usize::from(!names.is_empty()), "{names:?}");
        for record in about {
            assert_eq!(record["status"], "stripped");
            let counted = record["stripped"].as_object().unwrap();
            assert_eq!(counted.len(), names.len(), "{record}");
            assert!(names.iter().all(|name| counted.contains_key(*name)), "{record}");
            assert!(!record["message"].as_str().unwrap().is_empty());
        }
    }
}

async fn town() -> Town {
    Town::with(&["work"], |setup: Setup| {
        setup
            .set("output_sanitisation.strip_control_chars", true)
            .set("servers.files.trust", "community")
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn disguises_go_and_pictures_stay() {
    // R074
    // Attack 14
    // Attack 15
    // Attack 16
    // Attack 17
    let town = town().await;
    let agent = town.agent("ann").await;
    let esc = '\u{1b}';
    let cases: Vec<(String, &str)> = vec![
        (format!("a{esc}[38:2:1:2:3mb{esc}[0mc"), "abc"),
        (format!("a{esc}]0;title\u{7}b"), "ab"),
        (
            format!("a{esc}Pq#0{esc}\\b{esc}_x{esc}\\c{esc}^x{esc}\\d{esc}Xx{esc}\\e"),
            "abcde",
        ),
        (format!("a{esc}]8;;http://evil.example\nb"), "a\nb"),
        (format!("a{esc}{esc}[0m[31mb"), "a[31mb"),
        ("a\u{9b}31mb\u{85}c".to_owned(), "abc"),
        (
            "a\u{e0041}\u{e0042}b\u{ad}c\u{3164}d\u{115f}e\u{7f}f".to_owned(),
            "abcdef",
        ),
        (
            "👍\u{fe0f}\u{fe0e}\u{fe0f}\u{e0100}\u{e0101}x".to_owned(),
            "👍\u{fe0f}x",
        ),
        (
            "spelled \\u001b[31m and \\u200b and \\udb40\\udc41 out".to_owned(),
            "spelled  and  and  out",
        ),
        (
            "👩\u{200d}💻 ❤\u{fe0f} 🏴\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f}".to_owned(),
            "👩\u{200d}💻 ❤\u{fe0f} 🏴\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f}",
        ),
        (
            "tab\tline\r\nend é 日本 \u{2028}\u{e000}".to_owned(),
            "tab\tline\r\nend é 日本 \u{2028}\u{e000}",
        ),
    ];
    for (text, left) in &cases {
        // As it is, and with every unit spelled as an escape of JSON.
        let escaped: String = text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
        for result in [
            texts(&[text]),
            format!(r#"{{"content":[{{"type":"text","text":"{escaped}"}}]}}"#),
        ] {
            town.files.on("work", Act::Answer(result.clone()));
            let answer = agent.call("work", json!({})).await;
            assert_eq!(text_of(&answer, 0), *left, "{text:?}");
            if text == left {
                assert!(
                    is_verbatim(&answer, &result),
                    "nothing to do, nothing done: {}",
                    answer.text()
                );
            }
            town.files.on("work", Act::Answer(texts(&[left])));
            assert_eq!(
                text_of(&agent.call("work", json!({})).await, 0),
                *left,
                "stripped once is stripped"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn strings_of_structured_output_and_meta_are_stripped_and_judged_again() {
    // R074
    let schema = json!({"type": "object", "properties": {"s": {"type": "string", "minLength": 3}}});
    let tools = [super::scene::declaring("work", &schema)];
    let town = Town::offering(&tools, |setup: Setup| {
        setup
            .set("output_sanitisation.strip_control_chars", true)
            .set("servers.files.trust", "community")
    })
    .await;
    let agent = town.agent("ann").await;
    let result = |s: &str| {
        format!(
            r#"{{"content":[],"structuredContent":{{ "s":"{s}","n":1.0 }},"_meta":{{"a/b":"x{}y"}}}}"#,
            r"\u200b"
        )
    };
    town.files.on("work", Act::Answer(result(r"ab\u200bc")));
    let answer = agent.call("work", json!({})).await;
    assert!(
        is_verbatim(&answer, &result("abc").replace(r"\u200b", "")),
        "{}",
        answer.text()
    );
    town.files.on("work", Act::Answer(result(r"a\u200bc")));
    super::scene::is_withheld(
        "too short now",
        &agent.call("work", json!({})).await.last(),
        super::scene::SANITISED,
    );
}
