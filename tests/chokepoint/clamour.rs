//! A server that keeps saying what cannot be passed on as it came: the call or the subscription ends, and the log stays
//! short.

use std::time::Duration;

use serde_json::{Value, json};

use super::scene::{TOKEN, contained, decisions, harbour};
use crate::support::harbour::everything;
use crate::support::peer::ran;
use crate::support::records::{all, receipts};
use crate::support::{Answer, Beat, Harbour, Speaks, Turn, tool};

/// More than anybody is heard for.
const MANY: usize = 400;
/// What one call may leave on record: a budget of a hundred, twice where each leaves two, and its own.
const FEW: usize = 230;

fn flood(method: &str, params: &Value) -> Beat {
    let id = if method.starts_with("notifications/") {
        ""
    } else {
        r#""id":$n,"#
    };
    Beat::Flood(
        MANY,
        format!(r#"{{"jsonrpc":"2.0",{id}"method":"{method}","params":{params}}}"#),
    )
}

fn noisy(harbour: &Harbour, method: &str, params: &Value) {
    let beats = vec![
        flood(method, params),
        Beat::Wait(Duration::from_secs(5)),
        Beat::result(&ran("work")),
    ];
    harbour.peer.always("work", Turn::Stream(beats));
}

/// The call ended with an error, one record says why, and there are few others.
fn is_ended(case: &str, harbour: &Harbour, answer: &Answer, before: usize) {
    assert_eq!(answer.error_code(), -32603, "{case}: {}", answer.text());
    assert_eq!(answer.reason_codes(), ["ERROR_UPSTREAM"], "{case}");
    let home = &harbour.gateway.home;
    let left = all(home).len() - before;
    assert!(left <= FEW, "{case}: {left} records");
    assert_eq!(endings(harbour).len(), 1, "{case}: one record says why");
}

fn endings(harbour: &Harbour) -> Vec<Value> {
    let mut blocked = decisions(&harbour.gateway.home, &["--status", "blocked"]);
    blocked.retain(|record| record["guard"] == "messages");
    blocked
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_ends_when_too_much_beside_its_answer_has_to_be_decided_about() {
    let sampling = json!({"messages": [{"role": "user", "content": {"type": "text", "text": TOKEN}}], "maxTokens": 1});
    for (case, method, params) in [
        ("questions that are masked", "sampling/createMessage", &sampling),
        ("questions that nobody may be asked", "evil/question", &json!({})),
    ] {
        let harbour = harbour(Speaks::Legacy, &[tool("work")], contained).await;
        noisy(&harbour, method, params);
        let (ann, before) = (harbour.able("ann").await, all(&harbour.gateway.home).len());
        let answer = ann.call("work", json!({})).await;
        is_ended(case, &harbour, &answer, before);
        let receipt = receipts(&all(&harbour.gateway.home));
        let of_call = |record: &&Value| record["mcp"]["method"] == "tools/call";
        assert_eq!(receipt.iter().filter(of_call).count(), 1, "{case}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn notifications_that_have_to_be_changed_are_heard_for_a_while_and_the_call_goes_on() {
    let harbour = harbour(Speaks::Legacy, &[tool("work")], contained).await;
    noisy(
        &harbour,
        "notifications/message",
        &json!({"level": "error", "data": TOKEN}),
    );
    let (ann, before) = (harbour.able("ann").await, all(&harbour.gateway.home).len());
    let answer = ann.call("work", json!({})).await;
    assert!(answer.result()["content"].is_array(), "{}", answer.text());
    assert_eq!(answer.messages().len(), 101 + 1);
    assert!(all(&harbour.gateway.home).len() - before <= FEW);
    assert_eq!(endings(&harbour).len(), 1, "one record says why the rest was not heard");
}

#[tokio::test(flavor = "multi_thread")]
async fn so_does_one_that_waits_for_its_client() {
    let sampling = json!({"messages": [{"role": "user", "content": {"type": "text", "text": TOKEN}}], "maxTokens": 1});
    for (case, method, params) in [
        ("masked", "sampling/createMessage", &sampling),
        ("refused", "evil/question", &json!({})),
    ] {
        let harbour = harbour(Speaks::Legacy, &[tool("work")], contained).await;
        noisy(&harbour, method, params);
        let before = all(&harbour.gateway.home).len();
        let modern = harbour.modern("ann").able(everything());
        let answer = modern.call("work", json!({})).await;
        if case == "refused" {
            is_ended(case, &harbour, &answer, before);
        }
        // What was asked may have reached the client before the rest came.
        crate::support::eventually("the call has ended", 10, async || endings(&harbour).len() == 1).await;
        assert!(all(&harbour.gateway.home).len() - before <= FEW, "{case}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_and_a_standing_stream_end_the_same_way() {
    for server in [Speaks::Legacy, Speaks::Modern] {
        let harbour = harbour(server, &[tool("read")], contained).await;
        let update = json!({"uri": "a:mine", "title": TOKEN});
        harbour.peer.on_own_stream(vec![
            Beat::Wait(Duration::from_millis(300)),
            flood("notifications/resources/updated", &update),
            Beat::Hold,
        ]);
        let before = all(&harbour.gateway.home).len();
        let wanted = json!({"notifications": {"resourceSubscriptions": ["a:mine"]}});
        let mut subscription = harbour.modern("bob").follow("subscriptions/listen", wanted).await;
        let mut heard = 0;
        while let Some(message) = subscription.next().await {
            heard += usize::from(message["method"] == "notifications/resources/updated");
        }
        assert!(heard <= 101, "{server:?}: {heard} updates");
        assert_eq!(endings(&harbour).len(), 1, "{server:?}");
        let ann = harbour.agent("ann").await;
        let _own = ann.listen(None).await;
        ann.request("resources/subscribe", json!({"uri": "a:mine"})).await;
        crate::support::eventually("nobody listens any more", 15, async || endings(&harbour).len() == 2).await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        let left = all(&harbour.gateway.home).len() - before;
        assert!(left <= 2 * FEW, "{server:?}: {left} records");
        assert_eq!(endings(&harbour).len(), 2, "{server:?}: it is not begun again");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_can_be_passed_on_as_it_came_is_heard_to_the_end() {
    let harbour = harbour(Speaks::Legacy, &[tool("work")], contained).await;
    noisy(
        &harbour,
        "notifications/message",
        &json!({"level": "error", "data": "fine"}),
    );
    let answer = harbour.able("ann").await.call("work", json!({})).await;
    assert_eq!(answer.messages().len(), MANY + 1, "{:?}", answer.last());
    assert!(answer.result()["content"].is_array());
    assert_eq!(decisions(&harbour.gateway.home, &[]).len(), 0);
    // All of it counts.
    let size = harbour.gateway.receipt_of(&answer)["outcome"]["size_bytes_out"].as_u64();
    let messages = answer.messages();
    let told: usize = messages.iter().map(|message| message.to_string().len()).sum();
    assert_eq!(size, Some(told as u64));
}
