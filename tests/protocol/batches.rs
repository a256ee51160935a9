//! Batches where they are forbidden and where they are not, and ids that come twice at a time.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::peer::ran;
use crate::support::{Ask, Beat, Harbour, Speaks, Turn};

fn call(id: impl Into<Value>, tool: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "method": "tools/call", "params": {"name": tool, "arguments": {}}})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_is_refused_in_every_version_but_one() {
    // R152
    let harbour = Harbour::with(Speaks::Legacy, &["read"], |setup| setup).await;
    let batch = json!([call(1, "read"), call(2, "read")]).to_string();
    for version in ["2025-06-18", "2025-11-25"] {
        let agent = harbour.declaring("ann", json!({"protocolVersion": version})).await;
        let refused = agent.send(batch.clone()).await;
        assert_eq!((refused.status, refused.error_code()), (400, -32600), "{version}");
        harbour.gateway.receipt_named_by(&refused);
        assert_eq!(agent.call("read", json!({})).await.status, 200, "the session goes on");
    }
    let modern = harbour.modern("ann");
    let refused = modern.submit(modern.ask_raw("tools/call", batch.clone())).await;
    assert_eq!((refused.status, refused.error_code()), (400, -32600));
    harbour.gateway.receipt_named_by(&refused);
    let sessionless = Ask::post("/mcp/peer", batch).bearer(&harbour.issuer.token("ann"));
    assert_eq!(harbour.gateway.ask(sessionless).await.status, 400);
    assert_eq!(harbour.peer.asked("tools/call").len(), 2, "the twins alone");
    harbour.serves_others("read").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_2025_03_26_every_member_of_a_batch_is_decided_and_recorded() {
    // R152
    let policy = r#"permit (principal, action, resource) unless { resource == Tool::"peer/write" };"#;
    let harbour = Harbour::with(Speaks::Legacy, &["read", "write"], |setup| setup.policy(policy)).await;
    let agent = harbour.declaring("ann", json!({"protocolVersion": "2025-03-26"})).await;
    let seq = harbour.gateway.last_seq();
    let batch = json!([
        call("a", "read"),
        call(2, "write"),
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 3, "method": "ping"},
        {"jsonrpc": "2.0", "id": 4, "method": "initialize", "params": crate::support::agent::initialize()},
        {"jsonrpc": "2.0", "id": 5},
    ]);
    let answer = agent.send(batch.to_string()).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(
        answer.headers.get("mcp-session-id"),
        None,
        "no session is opened in a batch"
    );
    let answers = answer.json();
    let answers = answers.as_array().unwrap();
    assert_eq!(answers.len(), 5, "{answers:?}");
    assert_eq!(
        (&answers[0]["id"], answers[0].get("result").is_some()),
        (&json!("a"), true)
    );
    assert_eq!(
        (&answers[1]["id"], &answers[1]["error"]["code"]),
        (&json!(2), &json!(-32602))
    );
    assert_eq!((&answers[2]["id"], &answers[2]["result"]), (&json!(3), &json!({})));
    assert_eq!(
        (&answers[3]["id"], &answers[3]["error"]["code"]),
        (&json!(4), &json!(-32600))
    );
    assert_eq!(answers[4]["error"]["code"], -32600);
    let receipts = harbour.gateway.receipts_after(seq);
    let ids: std::collections::BTreeSet<_> = receipts.iter().map(|r| r["receipt_id"].to_string()).collect();
    assert_eq!((receipts.len(), ids.len()), (5, 5), "each has its own receipt");
    assert_eq!(harbour.peer.asked("tools/call").len(), 1);
    let told = json!([{"jsonrpc": "2.0", "method": "notifications/initialized"}]).to_string();
    assert_eq!(agent.send(told).await.status, 202);
    assert_eq!(agent.send("[]").await.status, 400);
    let flood: Vec<Value> = (0..101)
        .map(|id| json!({"jsonrpc": "2.0", "id": id, "method": "ping"}))
        .collect();
    assert_eq!(
        agent.send(json!(flood).to_string()).await.status,
        400,
        "more than anybody needs"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_takes_one_seat_and_its_answers_count_while_it_waits() {
    let harbour = Harbour::with(Speaks::Legacy, &["large"], |setup| {
        setup
            .set("limits.concurrency", json!({"per_principal": 2, "per_server": 64}))
            .set("servers.peer.trust", "internal")
    })
    .await;
    let agent = harbour.declaring("ann", json!({"protocolVersion": "2025-03-26"})).await;
    let of = |bytes: usize| json!({"content": [{"type": "text", "text": "x".repeat(bytes)}]}).to_string();
    harbour.peer.always("large", Turn::Result(of(20 << 10)));
    let five: Vec<Value> = (0..5).map(|id| call(id, "large")).collect();
    let answers = agent.send(json!(five).to_string()).await.json();
    let refused = |answers: &Value| -> Vec<Value> {
        let answers = answers.as_array().unwrap().iter();
        answers
            .filter(|answer| answer.get("error").is_some())
            .map(|answer| answer["error"]["data"]["reason_codes"][0].clone())
            .collect()
    };
    assert_eq!(refused(&answers), [] as [Value; 0], "they walk one after the other");
    harbour.peer.always("large", Turn::Result(of(24 << 20)));
    let answers = agent.send(json!(five).to_string()).await.json();
    assert_eq!(
        refused(&answers),
        ["DENY_CONCURRENCY"; 2],
        "three are more than what may be unread"
    );
    assert_eq!(
        agent.call("large", json!({})).await.status,
        200,
        "and all of it is free again"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_cannot_use_the_session_that_takes_batches() {
    let harbour = Harbour::with(Speaks::Legacy, &["read"], |setup| setup).await;
    let ann = harbour.declaring("ann", json!({"protocolVersion": "2025-03-26"})).await;
    let mut thief = harbour.agent("bob").await;
    thief.session = ann.session.clone();
    let batch = json!([call(1, "read")]).to_string();
    assert_eq!(thief.send(batch.clone()).await.error_code(), -32600);
    assert_eq!(harbour.peer.asked("tools/call").len(), 0);
    assert_eq!(
        ann.send(batch).await.json()[0]["result"]["content"][0]["text"],
        "read ran"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_used_twice_at_a_time_answers_each_request_with_its_own_result() {
    // R170
    for server in [Speaks::Legacy, Speaks::Modern] {
        let harbour = Harbour::with(server, &["one", "two"], |setup| setup).await;
        for (tool, wait) in [("one", 400), ("two", 200)] {
            let beats = vec![Beat::Wait(Duration::from_millis(wait)), Beat::result(&ran(tool))];
            harbour.peer.always(tool, Turn::Stream(beats));
        }
        let (agent, modern) = (harbour.agent("ann").await, harbour.modern("ann"));
        let answers = tokio::join!(
            agent.call("one", json!({})),
            agent.call("two", json!({})),
            modern.call("one", json!({})),
            modern.call("two", json!({})),
        );
        for (answer, tool) in [
            (answers.0, "one"),
            (answers.1, "two"),
            (answers.2, "one"),
            (answers.3, "two"),
        ] {
            assert_eq!(answer.json()["id"], 1);
            assert_eq!(answer.result()["content"][0]["text"], format!("{tool} ran"));
            assert_eq!(harbour.gateway.receipt_of(&answer)["mcp"]["tool_name"], tool);
        }
    }
}
