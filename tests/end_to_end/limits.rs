//! Rates, concurrency and time; [`super::quotas`] has the rest.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Act, Answer, Town, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn the_call_after_the_last_is_refused_per_principal() {
    // R120
    let rate = json!([{"per": "principal", "calls": 5, "window": "1h"}]);
    let town = Town::with(&["read", "write"], |setup| setup.set("limits.rate", rate)).await;
    let agent = town.agent("ann").await;
    for number in 0..5 {
        let name = if number % 2 == 0 { "read" } else { "write" };
        assert_eq!(agent.call(name, json!({})).await.result()["isError"], false);
    }
    over_limit(&town, &agent.call("read", json!({})).await, "DENY_RATE_LIMIT");
    assert_eq!(town.files.calls().len(), 5);
    assert_eq!(
        town.agent("bob").await.call("read", json!({})).await.result()["isError"],
        false
    );
    assert_eq!(agent.names().await, ["read", "write"], "lists are not calls");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_call_after_the_last_is_refused_per_tool() {
    let rate = json!([{"per": "tool", "calls": 2, "window": "1h"}]);
    let town = Town::with(&["read", "write"], |setup| setup.set("limits.rate", rate)).await;
    let (ann, bob) = (town.agent("ann").await, town.agent("bob").await);
    assert_eq!(ann.call("read", json!({})).await.result()["isError"], false);
    assert_eq!(bob.call("read", json!({})).await.result()["isError"], false);
    over_limit(&town, &ann.call("read", json!({})).await, "DENY_RATE_LIMIT");
    assert_eq!(ann.call("write", json!({})).await.result()["isError"], false);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_window_opens_again() {
    let rate = json!([{"per": "principal", "calls": 1, "window": "2s"}]);
    let town = Town::with(&["read"], |setup| setup.set("limits.rate", rate)).await;
    let agent = town.agent("ann").await;
    agent.call("read", json!({})).await.result();
    let refused = agent.call("read", json!({})).await;
    over_limit(&town, &refused, "DENY_RATE_LIMIT");
    let wait = refused.decision()["retry_after_ms"].as_u64().unwrap();
    assert!(wait > 0 && wait <= 2000, "{wait}");
    tokio::time::sleep(Duration::from_millis(wait + 200)).await;
    assert_eq!(agent.call("read", json!({})).await.result()["isError"], false);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_so_many_calls_run_at_once() {
    let limits = json!({"per_principal": 2, "per_server": 64});
    let town = Town::with(&["slow"], |setup| setup.set("limits.concurrency", limits)).await;
    town.files.on("slow", Act::Wait(Duration::from_secs(2)));
    let agent = town.agent("ann").await;
    let busy =
        [agent.clone(), agent.clone()].map(|agent| tokio::spawn(async move { agent.call("slow", json!({})).await }));
    eventually("both are under way", 10, async || town.files.calls().len() == 2).await;
    over_limit(&town, &agent.call("slow", json!({})).await, "DENY_CONCURRENCY");
    for call in busy {
        assert!(call.await.unwrap().result()["content"].is_array());
    }
    assert!(
        agent.call("slow", json!({})).await.result()["content"].is_array(),
        "the places are free again"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_hangs_is_given_up_in_time() {
    let town = Town::with(&["hang"], |setup| setup.set("limits.timeout", "3s")).await;
    town.files.on("hang", Act::Hang);
    let agent = town.agent("ann").await;
    let answer = agent.call("hang", json!({})).await;
    assert_eq!(
        (answer.status, answer.error_code(), answer.reason_codes()),
        (200, -32603, vec!["ERROR_TIMEOUT".to_owned()])
    );
    let receipt = town.gateway.receipt_named_by(&answer);
    assert_eq!(receipt["outcome"]["status"], "timeout");
    assert_eq!(
        receipt["outcome"]["executed"],
        Value::Null,
        "nobody knows whether it ran"
    );
    assert!(receipt["outcome"]["duration_us"].as_u64().unwrap() >= 3_000_000);
}

pub(super) fn over_limit(town: &Town, answer: &Answer, code: &str) {
    assert_eq!((answer.status, answer.error_code()), (200, -32003), "{}", answer.text());
    assert_eq!(answer.reason_codes(), [code]);
    let receipt = town.gateway.receipt_named_by(answer);
    assert_eq!(receipt["decision"]["policy_id"], "builtin:limits");
    assert_eq!(receipt["decision"]["reason_codes"], json!([code]));
    assert_eq!(receipt["outcome"]["executed"], false);
}
