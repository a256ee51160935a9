//! Sessions: opened by `initialize`, bound to their principal, ended by DELETE, no authority by themselves.

use serde_json::{Value, json};

use crate::support::agent::{VERSION, initialize, initialize_body};
use crate::support::{Ask, Town};

const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

#[tokio::test(flavor = "multi_thread")]
async fn initialize_opens_a_session_in_the_version_asked_for_or_ours() {
    // R170
    let town = Town::with(&["read"], |setup| setup).await;
    for (asked, given) in [
        (VERSION, VERSION),
        ("2020-01-01", VERSION),
        ("2025-06-18", "2025-06-18"),
        ("2025-03-26", "2025-03-26"),
    ] {
        let mut params = initialize();
        params["protocolVersion"] = json!(asked);
        let body = json!({"jsonrpc": "2.0", "id": "first", "method": "initialize", "params": params}).to_string();
        let reply = town
            .gateway
            .ask(Ask::post("/mcp", body).bearer(&town.issuer.token("ann")))
            .await;
        let json = reply.json();
        assert_eq!((reply.status, &json["id"]), (200, &json!("first")));
        assert_eq!(json["result"]["protocolVersion"], given);
        // Nothing is announced that does not come: the server behind has tools alone.
        assert_eq!(json["result"]["capabilities"], json!({"tools": {"listChanged": true}}));
        assert_eq!(json["result"]["serverInfo"]["name"], "portreeve");
        let session = reply.headers.get("mcp-session-id").unwrap();
        assert!(
            session.len() >= 43 && session.bytes().all(|byte| byte.is_ascii_graphic()),
            "{session}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_answers_ping_and_refuses_what_it_does_not_know() {
    // R170
    let town = Town::with(&["read"], |setup| setup).await;
    let agent = town.agent("ann").await;
    let pong = agent.request("ping", json!({})).await;
    assert_eq!(pong.result(), json!({}));
    assert_eq!(town.gateway.receipt_of(&pong)["mcp"]["method"], "ping");
    for method in ["no/such", "prompts/list", "resources/read", "Tools/call", "tools/call "] {
        let answer = agent.request(method, json!({})).await;
        assert_eq!((answer.status, answer.error_code()), (200, -32601), "{method}");
        assert_eq!(town.gateway.receipt_named_by(&answer)["decision"]["result"], "deny");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_missing_unknown_or_ended() {
    // R170
    let town = Town::with(&["read"], |setup| setup).await;
    let agent = town.agent("ann").await;
    assert_eq!(
        agent
            .submit(agent.ask(PING).instead("Mcp-Session-Id", None))
            .await
            .status,
        400
    );
    assert_eq!(
        agent
            .submit(agent.ask(PING).instead("Mcp-Session-Id", Some("made-up")))
            .await
            .status,
        404
    );
    assert_eq!(agent.send(PING).await.status, 200);
    let end = agent
        .submit(agent.ask("").instead("Content-Type", None).with_method("DELETE"))
        .await;
    assert_eq!(end.status, 204);
    assert_eq!(agent.send(PING).await.status, 404);
    assert_eq!(town.agent("ann").await.send(PING).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_belongs_to_its_principal_and_its_route() {
    // R108
    let town = Town::with(&["read"], |setup| setup).await;
    let ann = town.agent("ann").await;
    let mut thief = town.agent("bob").await;
    thief.session = ann.session.clone();
    let stolen = thief.call("read", json!({})).await;
    assert_eq!(stolen.status, 404);
    let unknown = thief
        .submit(thief.ask(PING).instead("Mcp-Session-Id", Some("made-up")))
        .await;
    assert_eq!(
        without_receipt_id(&stolen.json()),
        without_receipt_id(&unknown.json()),
        "nothing tells them apart"
    );
    let end = thief
        .submit(thief.ask("").instead("Content-Type", None).with_method("DELETE"))
        .await;
    assert_eq!(end.status, 404);
    assert_eq!(ann.send(PING).await.status, 200);
    assert_eq!(town.files.calls().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_version_header_is_one_we_speak_or_absent() {
    // R170
    let town = Town::with(&["read"], |setup| setup).await;
    let agent = town.agent("ann").await;
    for (header, status) in [
        (None, 200),
        (Some(VERSION), 200),
        (Some("2025-06-18"), 200),
        (Some("2026-07-28"), 400),
        (Some("1999-01-01"), 400),
    ] {
        let answer = agent
            .submit(agent.ask(PING).instead("MCP-Protocol-Version", header))
            .await;
        assert_eq!(answer.status, status, "{header:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_end_with_the_process() {
    let town = Town::with(&["read"], |setup| setup).await;
    let agent = town.agent("ann").await;
    let town = town.restarted().await;
    let mut again = town.agent("ann").await;
    again.session = agent.session;
    assert_eq!(again.send(PING).await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn notifications_get_202_and_no_record() {
    // R152
    let town = Town::with(&["read"], |setup| setup).await;
    let agent = town.agent("ann").await;
    let seq = town.gateway.last_seq();
    for method in [
        "notifications/initialized",
        "notifications/cancelled",
        "notifications/unheard_of",
    ] {
        let answer = agent
            .send(json!({"jsonrpc": "2.0", "method": method}).to_string())
            .await;
        assert_eq!((answer.status, answer.body.len()), (202, 0), "{method}");
    }
    assert_eq!(town.gateway.last_seq(), seq);
    let lost = agent
        .submit(
            agent
                .ask(r#"{"jsonrpc":"2.0","method":"notifications/x"}"#)
                .instead("Mcp-Session-Id", Some("no")),
        )
        .await;
    assert_eq!(lost.status, 404);
    assert_eq!(town.gateway.receipts_after(seq).len(), 1, "a refused one is recorded");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_principal_may_have_many_sessions_and_each_has_its_own_id() {
    // R164
    let town = Town::with(&["read"], |setup| setup).await;
    let mut ids = std::collections::BTreeSet::new();
    for _ in 0..20 {
        let reply = town
            .gateway
            .ask(Ask::post("/mcp", initialize_body()).bearer(&town.issuer.token("ann")))
            .await;
        ids.insert(reply.headers.get("mcp-session-id").unwrap().to_owned());
    }
    assert_eq!(ids.len(), 20);
}

fn without_receipt_id(error: &Value) -> Value {
    let mut error = error.clone();
    error["error"]["data"]["receipt_id"] = Value::Null;
    error
}
