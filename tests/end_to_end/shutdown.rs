//! Going down: what has begun is finished, what has not is refused.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;

use crate::support::records::{all, receipts};
use crate::support::{Act, Ask, Town, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn a_call_in_flight_is_answered_before_the_end() {
    // R152
    let mut town = Town::with(&["slow"], |setup| setup).await;
    town.files.on("slow", Act::Wait(Duration::from_secs(2)));
    let agent = town.agent("ann").await;
    let call = tokio::spawn(async move { agent.call("slow", json!({})).await });
    eventually("the call is under way", 10, async || !town.files.calls().is_empty()).await;
    town.gateway.signal(Signal::TERM);
    let answer = call.await.unwrap();
    assert_eq!(answer.result()["content"][0]["text"], "fine");
    assert_eq!(town.gateway.ended().await, Some(0));
    assert!(town.gateway.mcp.try_ask(&Ask::new("GET", "/healthz")).await.is_err());
    let home = &town.gateway.home;
    let found = receipts(&all(home))
        .into_iter()
        .filter(|record| record["trace_id"] == answer.trace.as_str())
        .count();
    assert_eq!(found, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_gateway_ends_at_once_even_with_open_connections() {
    // R152
    let town = Town::with(&["read"], |setup| setup).await;
    let agent = town.agent("ann").await;
    let mut idle = town.gateway.mcp.open().await.unwrap();
    idle.send(
        &agent
            .ask(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#)
            .header("Connection", "keep-alive")
            .bytes(town.gateway.mcp.address),
    )
    .await
    .unwrap();
    assert_eq!(idle.reply().await.unwrap().status, 200);
    let began = std::time::Instant::now();
    town.gateway.stop().await;
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
}
