//! Further hostile moves whose outcome depends on how the gateway is put together; most attacks stand where their
//! subject does.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};

use super::scene::{CONFORMING, SCHEMA, VIOLATION, counted, declaring, is_verbatim, is_withheld, leak};
use crate::architecture::sources::collect;
use crate::support::environment::repository;
use crate::support::{Act, Beat, Harbour, Setup, Speaks, Town, Turn, tool};

#[test]
fn every_numbered_attack_has_a_test_here() {
    let mut sources = Vec::new();
    collect(&repository().join("tests/chokepoint"), &mut sources);
    let comments = sources
        .iter()
        .flat_map(|(_, text)| text.lines())
        .filter_map(|line| line.trim().strip_prefix("// Attack "));
    let shown: BTreeSet<u32> = comments.filter_map(|number| number.parse().ok()).collect();
    let missing: Vec<u32> = (1..=38).filter(|number| !shown.contains(number)).collect();
    assert_eq!(missing, Vec::<u32>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_huge_schema_and_many_schemas_cost_no_call_anything() {
    // Attack 24
    let wide: Vec<Value> = (0..6_000).map(|n| json!({"const": n})).collect();
    let mut tools = vec![
        declaring("huge", &json!({"anyOf": wide})),
        declaring("work", &counted()),
    ];
    for n in 0..60 {
        let schema = json!({"type": "object", "properties": {format!("p{n}"): {"type": "integer"}}, "required": [format!("p{n}")]});
        tools.push(declaring(&format!("t{n:03}"), &schema));
    }
    let town = Town::offering(&tools, |setup: Setup| setup.set("output_validation.mode", "strict")).await;
    let agent = town.agent("ann").await;
    let free = r#"{"content":[],"structuredContent":"anything"}"#;
    town.files.on("huge", Act::Answer(free.to_owned()));
    let answer = agent.call("huge", json!({})).await;
    assert!(
        is_verbatim(&answer, free),
        "refused at admission, so not judged by: {}",
        answer.text()
    );
    for n in [0, 30, 59] {
        let name = format!("t{n:03}");
        town.files.on(&name, Act::Answer(VIOLATION.to_owned()));
        is_withheld(&name, &agent.call(&name, json!({})).await.last(), SCHEMA);
        let twin = format!(r#"{{"content":[],"structuredContent":{{"p{n}":1}}}}"#);
        town.files.on(&name, Act::Answer(twin.clone()));
        assert!(is_verbatim(&agent.call(&name, json!({})).await, &twin));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_after_cancel_or_timeout_reaches_nobody_and_is_not_replayed() {
    // Attack 35
    let late = || Turn::Stream(vec![Beat::Wait(Duration::from_millis(5000)), Beat::result(&leak())]);
    let harbour = Harbour::with(Speaks::Legacy, &["late", "read"], |setup: Setup| {
        setup.set("limits.timeout", "3s")
    })
    .await;
    harbour.peer.always("late", late());
    let agent = harbour.agent("ann").await;
    let answer = agent.call("late", json!({})).await;
    assert_eq!(
        (answer.error_code(), answer.reason_codes()),
        (-32603, vec!["ERROR_TIMEOUT".to_owned()])
    );
    assert!(!answer.text().contains("before"), "{}", answer.text());
    let calling = tokio::spawn({
        let agent = agent.clone();
        async move { agent.call("late", json!({})).await }
    });
    crate::support::eventually("the call is under way", 10, async || {
        harbour.peer.asked("tools/call").len() == 2
    })
    .await;
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    agent.send(cancel.to_string()).await;
    let cancelled = calling.await.unwrap();
    assert!(!cancelled.text().contains("before"), "{}", cancelled.text());
    tokio::time::sleep(Duration::from_millis(5100)).await;
    let read = agent.call("read", json!({})).await;
    assert_eq!(
        (read.messages().len(), &read.result()["content"][0]["text"]),
        (1, &json!("read ran"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_was_retried_is_judged_like_any_other() {
    // R033, R052
    let town = Town::offering(&[declaring("work", &counted()), tool("plain")], |setup: Setup| {
        setup.set("output_validation.mode", "strict")
    })
    .await;
    let agent = town.agent("ann").await;
    town.files.on("work", Act::Answer(CONFORMING.to_owned()));
    assert!(is_verbatim(&agent.call("work", json!({})).await, CONFORMING));
    town.files.on("work", Act::Answer(VIOLATION.to_owned()));
    town.files.forget_sessions();
    is_withheld(
        "after another session was opened",
        &agent.call("work", json!({})).await.last(),
        SCHEMA,
    );
    assert_eq!(
        super::scene::decisions(&town.gateway.home, &[]).len(),
        1,
        "one failure, one record"
    );
}
