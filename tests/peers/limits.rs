//! Limits on lists, subscriptions and completions, with a server as it is published: what is beyond them does not reach its process.

use serde_json::{Value, json};

use super::are_installed;
use super::stdio::Case;
use crate::support::setup::Home;
use crate::support::{Agent, Issuer, Modern, Setup, eventually, records};

/// What counts as a list, each as a client of the server would ask.
fn questions() -> [(&'static str, Value); 6] {
    let reference = json!({"type": "ref/prompt", "name": "completable-prompt"});
    [
        ("prompts/list", json!({})),
        ("resources/list", json!({})),
        ("resources/templates/list", json!({})),
        ("tools/list", json!({})),
        (
            "completion/complete",
            json!({"ref": reference, "argument": {"name": "department", "value": "S"}}),
        ),
        ("resources/subscribe", json!({"uri": "demo://resource/dynamic/text/1"})),
    ]
}

/// What a principal has used of the quota of seven.
fn used(home: &Home, who: &str) -> Vec<u64> {
    let shown = home.cli(&["limits", "show", "--json"]).success();
    let rows = shown.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    rows.filter(|row| row["calls"] == 7 && row.to_string().contains(who))
        .map(|row| row["used"].as_u64().unwrap())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_subscriptions_and_completions_of_a_published_server_have_limits_of_their_own() {
    // R140
    let case = Case::node("server-everything/dist/index.js", &["stdio"]);
    if !are_installed(&[&case.script()]) {
        return;
    }
    let issuer = Issuer::start().await;
    let quota = json!([{"per": "principal", "calls": 7, "window": "1d", "methods": "lists"}]);
    let gateway = Setup::new()
        .issuer(&issuer)
        .set("servers.peer", case.entry("internal"))
        .set("limits.quota", quota)
        .start()
        .await;
    eventually("the server was discovered", 90, async || {
        let listed = gateway.home.cli(&["tool", "list"]).stdout;
        listed.contains("peer/echo") && listed.contains("peer/completable-prompt")
    })
    .await;
    // Opening the session is the first of the seven.
    let ann = Agent::connect(&gateway, "/mcp/peer", &issuer.token("ann")).await;
    for (method, params) in questions() {
        let answer = ann.request(method, params).await;
        assert!(answer.last().get("error").is_none(), "{method} {}", answer.text());
    }
    assert_eq!(used(&gateway.home, "ann"), [7]);
    for (method, params) in questions() {
        let answer = ann.request(method, params).await;
        let told = (answer.error_code(), answer.reason_codes());
        assert_eq!(told, (-32003, vec!["DENY_QUOTA".to_owned()]), "{method}");
        let wait = answer.decision()["retry_after_ms"].as_u64();
        assert!(wait.is_some_and(|wait| wait <= 86_400_000), "{method} {wait:?}");
        let receipt = gateway.receipt_named_by(&answer);
        assert_eq!(
            receipt["outcome"]["executed"], false,
            "{method}: it has not reached the process"
        );
    }
    // What does something has its own allowance, and so has everybody else.
    let echoed = ann.call("echo", json!({"message": "high water"})).await;
    assert!(echoed.text().contains("high water"), "{}", echoed.text());
    let bob = Modern::new(&gateway, "/mcp/peer", &issuer.token("bob"));
    bob.request("prompts/list", json!({})).await.result();
    assert_eq!(used(&gateway.home, "ann"), [7], "a refused one takes nothing");
    // A restart forgets nothing of it.
    let gateway = gateway.restart().await;
    let ann = Modern::new(&gateway, "/mcp/peer", &issuer.token("ann"));
    for (method, params) in questions().into_iter().take(5) {
        let answer = ann.request(method, params).await;
        assert_eq!(answer.reason_codes(), ["DENY_QUOTA"], "{method}");
    }
    let denied = records::list(
        &gateway.home,
        &["--type", "request", "--status", "denied", "--limit", "100"],
    );
    assert_eq!(denied.len(), 11, "each has its receipt");
}
