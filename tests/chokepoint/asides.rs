//! What a server says beside its results: logs, progress, updates, and what it says on streams of its own.

use std::time::Duration;

use serde_json::{Value, json};

use super::scene::{contained, harbour, holds_nothing, hostile, hostile_value, is_tamed};
use crate::support::harbour::everything;
use crate::support::peer::ran;
use crate::support::{Beat, Harbour, Speaks, Turn, tool};

fn told(method: &str, params: &str) -> Beat {
    Beat::Tell(format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#))
}

fn forged_meta() -> &'static str {
    super::scene::forged()
}

/// Everything a server may say while it works on a call.
fn chatter() -> Turn {
    let text = hostile();
    let meta = forged_meta();
    let params = |first: &str| format!(r#"{{{first},"x":"{text}",{meta}}}"#);
    Turn::Stream(vec![
        told(
            "notifications/message",
            &params(&format!(
                r#""level":"error","logger":"{text}","data":{{"a":["{text}"]}}"#
            )),
        ),
        told(
            "notifications/progress",
            &params(&format!(r#""progressToken":$token,"progress":1,"message":"{text}""#)),
        ),
        told("notifications/elicitation/complete", &params(r#""elicitationId":"e""#)),
        told("notifications/tools/list_changed", &params(r#""y":1"#)),
        told("notifications/prompts/list_changed", &params(r#""y":1"#)),
        told("notifications/resources/list_changed", &params(r#""y":1"#)),
        told("notifications/cancelled", &params(r#""requestId":1"#)),
        told("notifications/vendor/thing", &params(r#""y":1"#)),
        Beat::result(&ran("work")),
    ])
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_said_beside_a_result_is_contained_or_not_passed_on() {
    // R071
    // Attack 5
    for server in [Speaks::Legacy, Speaks::Modern] {
        let harbour = harbour(server, &[tool("work")], contained).await;
        harbour.peer.always("work", chatter());
        let params = json!({"name": "work", "arguments": {}, "_meta": {"progressToken": "p"}});
        let legacy = harbour.able("ann").await.request("tools/call", params).await;
        let meta = json!({"io.modelcontextprotocol/logLevel": "debug", "progressToken": "p"});
        let modern = harbour
            .modern("ann")
            .able(everything())
            .saying(meta)
            .call("work", json!({}))
            .await;
        for (client, answer) in [("with a session", legacy), ("without", modern)] {
            let case = format!("{server:?} server, client {client}");
            let messages = answer.messages();
            holds_nothing(&case, &messages);
            for method in ["notifications/message", "notifications/progress"] {
                let passed: Vec<Value> = messages.iter().filter(|one| one["method"] == method).cloned().collect();
                assert_eq!(passed.len(), 1, "{case}: {messages:?}");
                is_tamed(&format!("{case} {method}"), &passed);
                assert_eq!(passed[0]["params"]["_meta"], json!({"x/y": "kept"}), "{case}");
            }
            let allowed = [
                "notifications/message",
                "notifications/progress",
                "notifications/elicitation/complete",
            ];
            for method in messages.iter().filter_map(|one| one["method"].as_str()) {
                assert!(allowed.contains(&method), "{case}: {method}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_completed_elicitation_is_contained() {
    // R071
    // Attack 5
    let harbour = harbour(Speaks::Legacy, &[tool("work")], contained).await;
    harbour.peer.always("work", chatter());
    let answer = harbour.able("ann").await.call("work", json!({})).await;
    let messages = answer.messages();
    let completed: Vec<Value> = messages
        .into_iter()
        .filter(|one| one["method"] == "notifications/elicitation/complete")
        .collect();
    assert_eq!(completed.len(), 1);
    is_tamed("completed", &completed);
}

fn updates() -> Vec<Beat> {
    let text = hostile();
    let params = format!(r#"{{"uri":"a:mine","title":"{text}",{}}}"#, forged_meta());
    vec![
        Beat::Wait(Duration::from_millis(400)),
        Beat::notify(
            "notifications/message",
            &json!({"level": "error", "data": hostile_value()}),
        ),
        told("notifications/resources/updated", &params),
        Beat::Hold,
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_said_on_a_stream_of_its_own_is_contained() {
    // R071
    // Attack 1
    // Attack 5
    for server in [Speaks::Legacy, Speaks::Modern] {
        let harbour: Harbour = harbour(server, &[tool("read")], contained).await;
        let ann = harbour.agent("ann").await;
        ann.call("read", json!({})).await;
        harbour.peer.on_own_stream(updates());
        let mut own = ann.listen(None).await;
        ann.request("resources/subscribe", json!({"uri": "a:mine"})).await;
        let mut heard = Vec::new();
        loop {
            let message = own.next().await.unwrap();
            heard.push(message.clone());
            if message["method"] == "notifications/resources/updated" {
                is_tamed("an update", std::slice::from_ref(&message));
                assert_eq!(message["params"]["_meta"]["x/y"], "kept", "{message}");
                break;
            }
        }
        holds_nothing(&format!("{server:?}: on the stream of a session"), &heard);
        let wanted = json!({"notifications": {"resourceSubscriptions": ["a:mine"]}});
        let mut subscription = harbour.modern("bob").follow("subscriptions/listen", wanted).await;
        let update = subscription.until("notifications/resources/updated").await;
        is_tamed(&format!("{server:?}: on a subscription"), std::slice::from_ref(&update));
        assert_eq!(update["params"]["_meta"]["x/y"], "kept");
    }
}
