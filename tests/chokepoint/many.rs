//! Many results, one after the other and at once: each judged, each on record exactly once.

use std::sync::Arc;

use serde_json::{Value, json};

use super::scene::{Draw, SCHEMA, counted, decisions, declaring, is_verbatim, is_withheld};
use crate::support::agent::call_body;
use crate::support::{Harbour, Peer, Setup, Speaks, Turn};

/// A schema with something to break in every place.
fn schema() -> Value {
    json!({"type": "object", "required": ["id", "state"], "additionalProperties": false, "properties": {
        "id": {"type": "integer", "minimum": 0}, "state": {"enum": ["open", "closed"]},
        "tags": {"type": "array", "maxItems": 3, "items": {"type": "string", "maxLength": 5}},
        "more": {"type": "object", "properties": {"x": {"type": "number"}}, "additionalProperties": false}}})
}

/// Conforming output, oddly spelled.
fn conforming(draw: &mut Draw) -> String {
    let id = draw.of(&["0", "7", "1.0", "1e2", "9007199254740993", "12345678901234567890"]);
    let state = draw.of(&[r#""open""#, r#""closed""#, r#""o\u0070en""#]);
    let tags = draw.of(&["[]", "[ ]", r#"["a","b"]"#, r#"[ "é\u00e9" , "\ud83d\ude00" ]"#]);
    let more = draw.of(&["{}", r#"{"x":-0}"#, r#"{"x":1E-7}"#, r#"{ "x" :0.10 }"#]);
    let space = draw.of(&["", " ", "  ", "\t"]);
    let members = [
        format!(r#""id":{space}{id}"#),
        format!(r#"{space}"state":{state}"#),
        format!(r#""tags":{tags}"#),
        format!(r#""more"{space}:{more}"#),
    ];
    let first = draw.below(4);
    let members: Vec<_> = (0..4).map(|n| members[(first + n) % 4].clone()).collect();
    format!("{{{}{space}}}", members.join(","))
}

/// The same with one thing broken.
fn violating(draw: &mut Draw) -> String {
    let broken = [
        r#"{"id":-1,"state":"open"}"#,
        r#"{"id":"VIOLATION","state":"open"}"#,
        r#"{"id":1}"#,
        r#"{"state":"open"}"#,
        r#"{"id":1,"state":"VIOLATION"}"#,
        r#"{"id":1,"state":"open","VIOLATION":1}"#,
        r#"{"id":1,"state":"open","tags":["VIOLATION"]}"#,
        r#"{"id":1,"state":"open","tags":["a","b","c","VIOLATION"]}"#,
        r#"{"id":1,"state":"open","more":{"x":"VIOLATION"}}"#,
        r#"{"id":1,"state":"open","more":{"VIOLATION":1}}"#,
        r#"{"id":1,"id":2,"state":"open","more":{"x":1}}"#,
        r#"["VIOLATION"]"#,
        r#""VIOLATION""#,
        "null",
        "1.5",
    ];
    let pad = " ".repeat(draw.below(9));
    format!("{pad}{}", draw.of(&broken))
}

fn result(structured: &str) -> String {
    format!(r#"{{"content":[{{"type":"text","text":"VIOLATION"}}],"structuredContent":{structured}}}"#)
}

/// The result of a call by its number. Of each `few` one is wrong, at random which.
fn numbered(number: u64, few: usize) -> (String, bool) {
    let mut draw = Draw(SEED + number);
    let few_of = u64::try_from(few).unwrap();
    let drawn = Draw(SEED + number / few_of).below(few);
    let wrong = number % few_of == u64::try_from(drawn).unwrap();
    let structured = if wrong {
        violating(&mut draw)
    } else {
        conforming(&mut draw)
    };
    (result(&structured), wrong)
}

const SEED: u64 = 20_261_116;

async fn numbering(mode: &str, few: usize) -> Arc<Harbour> {
    let peer = Peer::start(Speaks::Legacy, &[]).await;
    peer.list("tools", &[declaring("work", &schema())]);
    peer.on("work", move |seen| {
        let number = seen.json()["params"]["arguments"]["amount"].as_u64().unwrap();
        Turn::Result(numbered(number, few).0)
    });
    Arc::new(Harbour::before(peer, |setup: Setup| setup.set("output_validation.mode", mode)).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn five_hundred_violations_are_stopped_or_told_in_each_mode_and_as_many_honest_results_are_untouched() {
    // R048, R052
    println!("seed {SEED}");
    for (mode, status) in [("strict", "blocked"), ("warn", "warning")] {
        let harbour = numbering(mode, 2).await;
        let mut calling = tokio::task::JoinSet::new();
        for caller in 0..10_u64 {
            let harbour = Arc::clone(&harbour);
            calling.spawn(async move {
                let agent = harbour.agent(&format!("caller-{caller}")).await;
                for number in caller * 100..(caller + 1) * 100 {
                    let answer = agent.call("work", json!({"amount": number})).await;
                    let (sent, wrong) = numbered(number, 2);
                    match wrong && mode == "strict" {
                        true => is_withheld(&sent, &answer.last(), SCHEMA),
                        false => assert!(is_verbatim(&answer, &sent), "{number}: {sent}: {}", answer.text()),
                    }
                }
            });
        }
        calling.join_all().await;
        let records = decisions(&harbour.gateway.home, &[]);
        assert_eq!(records.len(), 500, "{mode}");
        assert!(records.iter().all(|record| record["status"] == status), "{mode}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_at_once_are_as_many_records() {
    // R052
    let peer = Peer::start(Speaks::Legacy, &[]).await;
    peer.list("tools", &[declaring("work", &counted())]);
    peer.on("work", |seen| {
        match seen.json()["params"]["arguments"]["amount"].as_u64().unwrap_or(0) % 3 {
            0 => Turn::Result(result(r#"{"n":1}"#)),
            1 => Turn::Result(result(r#"{"n":"VIOLATION"}"#)),
            // Breaks the guard and the schema at once.
            _ => Turn::Result(result(&format!(r#"{{"n":"{}"}}"#, "VIOLATION".repeat(100)))),
        }
    });
    let setup = |setup: Setup| setup.set("output_validation", json!({"mode": "strict", "max_bytes": 200}));
    let harbour = Arc::new(Harbour::before(peer, setup).await);
    let mut calling = tokio::task::JoinSet::new();
    for caller in 0..12_u64 {
        let harbour = Arc::clone(&harbour);
        calling.spawn(async move {
            let agent = harbour.agent(&format!("caller-{caller}")).await;
            let mut withheld = 0;
            for number in 0..50 {
                let answer = agent.call("work", json!({"amount": caller * 50 + number})).await;
                withheld += usize::from(answer.result()["isError"] == true);
            }
            withheld
        });
    }
    let withheld: usize = calling.join_all().await.into_iter().sum();
    let records = decisions(&harbour.gateway.home, &["--status", "blocked"]);
    assert_eq!((withheld, records.len()), (400, 400));
    let guards = records.iter().filter(|record| record["guard"] == "max_bytes").count();
    assert_eq!(guards, 200, "one record where two things are wrong");
    let receipts: std::collections::BTreeSet<String> =
        records.iter().map(|record| record["receipt_id"].to_string()).collect();
    assert_eq!(receipts.len(), 400, "each of its own call");
}

/// As many callers at once, and as many calls of each.
const CALLERS: u64 = 25;
const CALLS: u64 = 500;
/// One of so many is wrong.
const FEW: usize = 5;

#[tokio::test(flavor = "multi_thread")]
async fn twelve_thousand_results_at_random_and_in_bursts_leave_one_record_for_each_failure() {
    // R037, R049
    println!("seed {SEED}");
    let harbour = numbering("strict", FEW).await;
    let mut calling = tokio::task::JoinSet::new();
    for caller in 0..CALLERS {
        let harbour = Arc::clone(&harbour);
        calling.spawn(async move {
            let (agent, door) = (
                harbour.agent(&format!("caller-{caller}")).await,
                harbour.gateway.mcp.clone(),
            );
            let mut wire = door.open().await.unwrap();
            let mut failures = 0;
            for number in caller * CALLS..(caller + 1) * CALLS {
                let ask = agent.ask(call_body("work", &json!({ "amount": number }).to_string()));
                let ask = ask.header("Connection", "keep-alive");
                wire.send(&ask.bytes(door.address)).await.unwrap();
                let reply = wire.reply().await.unwrap();
                let (sent, wrong) = numbered(number, FEW);
                match wrong {
                    true => is_withheld(&sent, &reply.json(), SCHEMA),
                    false => assert_eq!(reply.text(), format!(r#"{{"jsonrpc":"2.0","id":1,"result":{sent}}}"#)),
                }
                failures += usize::from(wrong);
            }
            failures
        });
    }
    let failures: usize = calling.join_all().await.into_iter().sum();
    let honest = usize::try_from(CALLERS * CALLS).unwrap() - failures;
    assert_eq!((failures, honest), (2_500, 10_000));
    let records = decisions(&harbour.gateway.home, &[]);
    assert_eq!(records.len(), failures);
    let receipts: std::collections::BTreeSet<String> =
        records.iter().map(|record| record["receipt_id"].to_string()).collect();
    assert_eq!(receipts.len(), failures, "each of its own call");
    for record in &records {
        let facts = ["server_id", "tool_name", "mode"].map(|name| record[name].clone());
        assert_eq!(facts, [json!("peer"), json!("work"), json!("strict")], "{record}");
        assert!(!record["message"].as_str().unwrap().is_empty(), "{record}");
    }
}
