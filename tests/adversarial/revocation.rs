//! Requests that were begun while they were allowed and end when they no longer are.

use serde_json::json;

use crate::support::agent::call_body;
use crate::support::{Act, Agent, Town, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_held_back_is_judged_by_the_rules_in_force_when_it_is_whole() {
    // R115, R119
    let town = Town::with(&["read"], |setup| setup).await;
    let agent = town.agent("ann").await;
    agent.call("read", json!({})).await.result();
    let ask = agent.ask(call_body("read", "{}"));
    let bytes = ask.bytes(town.gateway.mcp.address);
    let (sent, held) = bytes.split_at(bytes.len() - 5);
    let mut wire = agent.door().open().await.unwrap();
    wire.send(sent).await.unwrap();
    // Whatever was read so far was read under the old rules.
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    std::fs::write(town.gateway.home.path("policies/main.cedar"), "").unwrap();
    eventually("the policies are gone", 15, async || agent.names().await.is_empty()).await;
    let before = town.files.calls().len();
    wire.send(held).await.unwrap();
    let reply = wire.reply().await.unwrap();
    assert_eq!(reply.json()["error"]["code"], -32602, "{}", reply.text());
    assert_eq!(town.files.calls().len(), before, "nothing arrived");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_member_of_a_batch_is_judged_by_the_rules_in_force_when_its_turn_comes() {
    // R115, R119
    let town = Town::with(&["slow", "read"], |setup| setup).await;
    town.files.on("slow", Act::Wait(std::time::Duration::from_secs(4)));
    let old = json!({"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
    let token = town.issuer.token("ann");
    let agent = Agent::declaring(&town.gateway, "/mcp/files", &token, old).await;
    let watcher = town.agent("ann").await;
    assert_eq!(watcher.names().await.len(), 2);
    let batch = format!("[{},{}]", call_body("slow", "{}"), call_body("read", "{}"));
    let sent = tokio::spawn(async move { agent.send(batch).await });
    eventually("the first is at work", 10, async || !town.files.calls().is_empty()).await;
    std::fs::write(town.gateway.home.path("policies/main.cedar"), "").unwrap();
    eventually("the policies are gone", 3, async || watcher.names().await.is_empty()).await;
    let answer = sent.await.unwrap();
    assert!(answer.text().contains("-32602"), "{}", answer.text());
    assert_eq!(town.files.calls().len(), 1, "the second did not arrive");
}
