//! Each behaviour by itself and with all others: an effect is there exactly where its switch is on, and blocks that are
//! never edited never are.

use serde_json::{Value, json};

use super::scene::{GRAVE, SANITISED, TOKEN, decisions, harbour, is_verbatim, is_withheld, marked, reconfigure};
use crate::support::records::{all as everything, receipts};
use crate::support::{Act, Answer, Setup, Speaks, Town, Turn, tool};

const LIMIT: usize = 64;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Action {
    Nothing,
    Redact,
    Block,
}

#[derive(Clone, Copy, Debug)]
struct Switches {
    spotlight: bool,
    strip: bool,
    cut: bool,
    action: Action,
}

fn all() -> Vec<Switches> {
    let mut all = Vec::new();
    for action in [Action::Nothing, Action::Redact, Action::Block] {
        for number in 0..8 {
            let on = |bit: usize| number >> bit & 1 == 1;
            all.push(Switches {
                spotlight: on(0),
                strip: on(1),
                cut: on(2),
                action,
            });
        }
    }
    all
}

impl Switches {
    fn set(self, setup: Setup) -> Setup {
        let action = match self.action {
            Action::Nothing => "spotlight",
            Action::Redact => "redact",
            Action::Block => "block",
        };
        setup
            .set(
                "output_sanitisation",
                json!({"spotlight_untrusted": self.spotlight, "strip_control_chars": self.strip, "response_action": action}),
            )
            .set("response.limit_bytes", if self.cut { LIMIT } else { 0 })
    }

    /// What becomes of a text that begins with a secret.
    fn applied(self, text: &str, secret: &str, mask: &str, name: &str) -> String {
        let mut text = text.to_owned();
        if self.action == Action::Redact {
            text = text.replace(secret, mask);
        }
        if self.strip {
            text = text.replace(HIDDEN, "");
        }
        if self.cut {
            text.truncate(LIMIT);
        }
        if self.spotlight {
            text = format!("«untrusted:peer/{name}»\n{text}\n«/untrusted:peer/{name}»");
        }
        text
    }

    /// The decisions about it, oldest first.
    fn recorded(self, critical: bool) -> Vec<&'static str> {
        let found = match (self.action, critical) {
            (Action::Nothing, _) => None,
            (Action::Redact, _) => Some("redacted"),
            (Action::Block, true) => return vec!["blocked"],
            (Action::Block, false) => Some("warning"),
        };
        found.into_iter().chain(self.strip.then_some("stripped")).collect()
    }
}

const HIDDEN: &str = "\u{200b}";
/// Blocks that are never edited, as a server spells them.
const OTHERS: [&str; 5] = [
    r#"{"type":"image", "data":"aGk\u200b=","mimeType":"image/png"}"#,
    r#"{"type":"audio","data":"aG\u001bk=" ,"mimeType":"audio/wav"}"#,
    r#"{"type":"resource","resource":{"uri":"a:b" ,"text":"«plain»","mimeType":"text/plain"}}"#,
    r#"{"type":"resource_link","uri":"a:b", "name":"«link»"}"#,
    r#"{"type":"novel","x":[1.0 , "«»"]}"#,
];

fn result(text: &str) -> String {
    format!(
        r#"{{"content":[{{"type":"text","text":{}}},{}]}}"#,
        Value::from(text),
        OTHERS.join(",")
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn every_combination_does_what_its_switches_say_and_nothing_else() {
    // R077, R078, R081, R083, R087, R088, R095
    // Attack 10
    let tools = [tool("grave"), tool("critical"), tool("odd"), tool("even")];
    let mut harbour = harbour(Speaks::Legacy, &tools, |setup| {
        setup.set("servers.peer.trust", "community").policy(&marked(0))
    })
    .await;
    let agent = harbour.agent("ann").await;
    let text = |secret: &str| format!("{secret} x{HIDDEN}y {}", "z".repeat(100));
    let mut seen = Vec::new();
    for (place, switches) in all().into_iter().enumerate() {
        reconfigure(&mut harbour.gateway, &agent, place + 1, |setup| switches.set(setup)).await;
        for (tool, secret, mask) in [
            ("grave", GRAVE, "[REDACTED:cloud_credentials]"),
            ("critical", TOKEN, "[REDACTED:api_token]"),
        ] {
            let case = format!("{tool} {switches:?}");
            harbour.peer.always(tool, Turn::Result(result(&text(secret))));
            let answer = agent.call(tool, json!({})).await;
            seen.push((
                case.clone(),
                answer.trace.clone(),
                switches.recorded(tool == "critical"),
            ));
            if tool == "critical" && switches.action == Action::Block {
                is_withheld(&case, &answer.last(), SANITISED);
                assert!(
                    !answer.text().contains(secret) && !answer.text().contains("zzz"),
                    "{case}"
                );
                continue;
            }
            shown(
                &case,
                &answer,
                &switches.applied(&text(secret), secret, mask, tool),
                switches,
            );
        }
    }
    recorded(&everything(&harbour.gateway.home), &seen);
}

/// Each call has left the records of what was done, in order, each with a sentence.
fn recorded(records: &[Value], seen: &[(String, String, Vec<&str>)]) {
    let requests = receipts(records);
    for (case, trace, wanted) in seen {
        let request = requests
            .iter()
            .find(|record| record["trace_id"] == trace.as_str())
            .unwrap();
        let of_it =
            |record: &&Value| record["type"] == "policy_decision" && record["receipt_id"] == request["receipt_id"];
        let about: Vec<&Value> = records.iter().rev().filter(of_it).collect();
        let statuses: Vec<&str> = about.iter().filter_map(|record| record["status"].as_str()).collect();
        assert_eq!(statuses, *wanted, "{case}");
        assert!(
            about
                .iter()
                .all(|record| !record["message"].as_str().unwrap_or_default().is_empty())
        );
    }
}

fn shown(case: &str, answer: &Answer, text: &str, switches: Switches) {
    let content = answer.result()["content"].clone();
    assert_eq!(content[0]["text"], text, "{case}");
    for other in OTHERS {
        assert!(
            answer.text().contains(other),
            "{case}: {other} was edited: {}",
            answer.text()
        );
    }
    let notice = content[1]["text"]
        .as_str()
        .unwrap_or_default()
        .starts_with("[portreeve: output truncated");
    assert_eq!(notice, switches.cut, "{case}: {content}");
    let blocks = content.as_array().unwrap().len();
    assert_eq!(blocks, 1 + OTHERS.len() + usize::from(switches.cut), "{case}");
    assert_eq!(
        answer.result()["_meta"]["portreeve/truncated"].is_object(),
        switches.cut,
        "{case}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_word_of_the_operator_every_byte_is_the_servers() {
    // R076, R086
    let hidden = r#"\u001b[31m\u200b\u202e\udb40\udc41 « » &amp; \u0000 é"#;
    let results = [
        format!(
            r#"{{ "content":[{{"type":"text","text":"{TOKEN} {KEY} {hidden}"}}] , "n":1.0}}"#,
            KEY = super::scene::KEY_ID
        ),
        format!(
            r#"{{"content":[{}],"structuredContent":{{"{TOKEN}":"{hidden}"}},"isError":true}}"#,
            OTHERS.join(" , ")
        ),
        format!(
            r#"{{"content":[{{"type":"text","text":"{}"}}],"_meta":{{"a/b":"{TOKEN}"}}}}"#,
            "long ".repeat(60_000)
        ),
        r#"{"content":[]}"#.to_owned(),
    ];
    let defaults = json!({"spotlight_untrusted": false, "response_action": "spotlight", "strip_control_chars": false,
        "strip_classes": ["ansi", "c0c1", "bidi", "zero_width"], "max_redactions": 100});
    let setups: [Box<dyn FnOnce(Setup) -> Setup>; 3] = [
        Box::new(|setup| setup),
        Box::new(|setup: Setup| {
            setup
                .set("output_sanitisation", json!({}))
                .set("response", json!({}))
                .set("detection", json!({}))
        }),
        Box::new(move |setup: Setup| {
            setup
                .set("output_sanitisation", defaults)
                .set("response", json!({"limit_bytes": 0, "cache_ttl": "2h"}))
                .set("detection", json!({"packs": [], "arguments": "off"}))
        }),
    ];
    for (number, set) in setups.into_iter().enumerate() {
        let town = Town::with(&["work"], |setup| set(setup).set("servers.files.trust", "community")).await;
        let agent = town.agent("ann").await;
        for result in &results {
            town.files.on("work", Act::Answer(result.clone()));
            let answer = agent.call("work", json!({})).await;
            assert!(is_verbatim(&answer, result), "{number}: {}", answer.text());
        }
        assert_eq!(decisions(&town.gateway.home, &[]), Vec::<Value>::new());
        assert_eq!(agent.names().await, ["work"], "no tool of ours is offered");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn validation_and_sanitising_decide_in_their_order_with_one_record_each() {
    // R096
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}, "s": {"type": "string"}}});
    let tools = [super::scene::declaring("work", &schema)];
    let violating = format!(
        r#"{{"content":[{{"type":"text","text":"{TOKEN} \u200b{}"}}],"structuredContent":{{"n":"no","s":"{TOKEN}"}}}}"#,
        "z".repeat(200)
    );
    let all = json!({"spotlight_untrusted": true, "response_action": "redact", "strip_control_chars": true});
    for (mode, wanted) in [
        ("strict", vec!["blocked"]),
        ("warn", vec!["warning", "redacted", "stripped"]),
    ] {
        let town = Town::offering(&tools, |setup: Setup| {
            setup
                .set("servers.files.trust", "community")
                .set("output_validation.mode", mode)
                .set("output_sanitisation", &all)
                .set("response.limit_bytes", LIMIT)
        })
        .await;
        town.files.on("work", Act::Answer(violating.clone()));
        let answer = town.agent("ann").await.call("work", json!({})).await;
        assert_eq!(super::scene::statuses(&town.gateway.home), wanted, "{mode}");
        assert!(!answer.text().contains(TOKEN), "{mode}: {}", answer.text());
        if mode == "strict" {
            // Validation saw the original, and nothing else was looked at.
            is_withheld(mode, &answer.last(), super::scene::SCHEMA);
            continue;
        }
        let shown = format!("[REDACTED:api_token] {}", "z".repeat(LIMIT - 21));
        assert_eq!(
            answer.result()["content"][0]["text"],
            format!("«untrusted:files/work»\n{shown}\n«/untrusted:files/work»")
        );
        assert_eq!(
            answer.result()["structuredContent"],
            json!({"n": "no", "s": "[REDACTED:api_token]"})
        );
        let receipt = town.gateway.receipt_of(&answer);
        assert_eq!(receipt["decision"]["result"], "allow");
    }
}
