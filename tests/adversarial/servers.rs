//! Servers that are down, lie, hang or talk nonsense: a clear error, a receipt, and nothing else happens.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Act, Agent, Issuer, Server, Setup, Town, eventually, tool};

#[tokio::test(flavor = "multi_thread")]
async fn every_way_of_failing_is_one_clear_error_with_a_receipt() {
    // R120
    let acts = [
        ("close", Act::Close),
        ("promise-more", Act::PromiseMore),
        ("redirect", Act::Redirect("https://evil.example/mcp".to_owned())),
        ("status-500", Act::Status(500)),
        ("status-401", Act::Status(401)),
        ("noise", Act::Noise),
        ("not-json", Act::Body("<html>hello</html>".to_owned())),
        ("half-json", Act::Body(r#"{"jsonrpc":"2.0","id":1,"resu"#.to_owned())),
        ("empty", Act::Body(String::new())),
        ("no-result", Act::Body(r#"{"jsonrpc":"2.0","id":1}"#.to_owned())),
        (
            "batch",
            Act::Body(r#"[{"jsonrpc":"2.0","id":1,"result":{}}]"#.to_owned()),
        ),
        ("wrong-id", Act::WrongId),
        ("result-is-text", Act::Answer("\"hello\"".to_owned())),
    ];
    let names: Vec<&str> = acts.iter().map(|(name, _)| *name).chain(["fine"]).collect();
    let town = Town::with(&names, |setup| setup.set("limits.timeout", "5s")).await;
    let agent = town.agent("ann").await;
    for (name, act) in acts {
        town.files.on(name, act);
        let answer = agent.call(name, json!({})).await;
        assert_eq!(
            (answer.status, answer.error_code()),
            (200, -32603),
            "{name}: {}",
            answer.text()
        );
        assert_eq!(answer.reason_codes(), ["ERROR_UPSTREAM"], "{name}");
        assert_eq!(answer.decision()["decision"], "allow", "{name}");
        assert!(
            !answer.text().contains("evil") && !answer.text().contains("html"),
            "{name}: {}",
            answer.text()
        );
        let receipt = town.gateway.receipt_named_by(&answer);
        assert_eq!(
            (&receipt["decision"]["result"], &receipt["outcome"]["status"]),
            (&json!("allow"), &json!("error")),
            "{name}"
        );
        assert_eq!(receipt["outcome"]["size_bytes_out"], answer.body.len(), "{name}");
        assert_eq!(
            agent.call("fine", json!({})).await.result()["isError"],
            false,
            "after {name}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_sends_more_than_it_promised_gives_no_surplus_away() {
    let town = Town::with(&["less", "fine"], |setup| setup).await;
    town.files.on("less", Act::PromiseLess);
    let agent = town.agent("ann").await;
    assert_eq!(agent.call("less", json!({})).await.error_code(), -32603);
    for _ in 0..5 {
        let answer = agent.call("fine", json!({})).await;
        assert_eq!(answer.result()["content"][0]["text"], "fine ran");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_goes_down_is_an_error_and_nothing_is_repeated() {
    let town = Town::with(&["read"], |setup| setup).await;
    let agent = town.agent("ann").await;
    agent.call("read", json!({})).await.result();
    town.files.go_down().await;
    let answer = agent.call("read", json!({})).await;
    assert_eq!(
        (answer.error_code(), answer.reason_codes()),
        (-32603, vec!["ERROR_UPSTREAM".to_owned()])
    );
    assert_eq!(agent.names().await, ["read"], "the list is still there");
    assert_eq!(town.files.calls().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_connection_is_not_tried_again() {
    // R120
    let town = Town::with(&["close"], |setup| setup).await;
    town.files.on("close", Act::Close);
    let agent = town.agent("ann").await;
    let answer = agent.call("close", json!({})).await;
    assert_eq!(
        town.gateway.receipt_named_by(&answer)["outcome"]["executed"],
        Value::Null,
        "the outcome is unknown"
    );
    assert_eq!(town.files.calls().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_session_is_opened_again_once() {
    // R171
    let town = Town::with(&["read"], |setup| setup).await;
    let agent = town.agent("ann").await;
    agent.call("read", json!({})).await.result();
    town.files.forget_sessions();
    assert_eq!(agent.call("read", json!({})).await.result()["isError"], false);
    assert_eq!(agent.call("read", json!({})).await.result()["isError"], false);
    town.files.on("read", Act::Status(404));
    let before = town.files.calls().len();
    assert_eq!(agent.call("read", json!({})).await.error_code(), -32603);
    assert!(town.files.calls().len() - before <= 2, "one retry at most");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_without_end_is_ended() {
    // R099
    let (issuer, endless, files) = (
        Issuer::start().await,
        Server::start(&[]).await,
        Server::start(&[tool("read")]).await,
    );
    endless.list_without_end();
    let gateway = Setup::with(&issuer, &files).server("endless", &endless).start().await;
    let agent = Agent::connect(&gateway, "/mcp", &issuer.token("ann")).await;
    let names = agent.names().await;
    assert!(
        names.contains(&"files__read".to_owned()) && names.len() <= 10_001,
        "{} names",
        names.len()
    );
    let asked = endless
        .seen()
        .iter()
        .filter(|seen| seen.method() == "tools/list")
        .count();
    assert!(asked <= 100, "{asked} pages");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_hangs_from_the_start_does_not_hold_up_the_others() {
    // R099
    let (issuer, files) = (Issuer::start().await, Server::start(&[tool("read")]).await);
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", silent.local_addr().unwrap());
    let setup = Setup::with(&issuer, &files)
        .set("servers.silent.url", url)
        .set("servers.silent.trust", "internal");
    let gateway = setup.set("limits.timeout", "5s").start().await;
    let agent = Agent::connect(&gateway, "/mcp", &issuer.token("ann")).await;
    assert_eq!(agent.names().await, ["files__read"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_does_not_stop_the_call_nor_its_receipt() {
    // R152
    let town = Town::with(&["slow"], |setup| setup).await;
    town.files.on("slow", Act::Wait(Duration::from_millis(500)));
    let agent = town.agent("ann").await;
    let seq = town.gateway.last_seq();
    let mut wire = town.gateway.mcp.open().await.unwrap();
    wire.send(
        &agent
            .ask(crate::support::agent::call_body("slow", "{}"))
            .bytes(town.gateway.mcp.address),
    )
    .await
    .unwrap();
    eventually("the call is under way", 10, async || !town.files.calls().is_empty()).await;
    drop(wire);
    eventually("the receipt", 10, async || town.gateway.receipts_after(seq).len() == 1).await;
    assert_eq!(town.gateway.receipts_after(seq)[0]["outcome"]["executed"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_server_holds_up_nobody_elses_calls() {
    let (issuer, files) = (Issuer::start().await, Server::start(&[tool("read")]).await);
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", silent.local_addr().unwrap());
    let setup = Setup::with(&issuer, &files).set("servers.silent.url", url);
    let gateway = setup.set("servers.silent.trust", "internal").start().await;
    let agent = Agent::connect(&gateway, "/mcp", &issuer.token("ann")).await;
    let began = std::time::Instant::now();
    assert_eq!(agent.call("files__read", json!({})).await.result()["isError"], false);
    assert!(
        began.elapsed() < Duration::from_secs(8),
        "a list would wait ten seconds, a call of another server must not"
    );
}
