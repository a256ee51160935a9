//! Sessions with servers that forget them.

use serde_json::json;

use crate::support::{Agent, Harbour, Modern, Speaks, Turn};

#[tokio::test(flavor = "multi_thread")]
async fn twenty_calls_after_the_server_forgot_its_sessions_open_one_new_session() {
    // R164
    let harbour = Harbour::with(Speaks::Legacy, &["read"], |setup| setup).await;
    let (ann, bob) = (harbour.agent("ann").await, harbour.modern("bob"));
    assert_eq!(ann.call("read", json!({})).await.status, 200);
    assert_eq!(bob.call("read", json!({})).await.status, 200);
    for forgotten in 1..=2 {
        let opened = harbour.peer.asked("initialize").len();
        harbour.peer.forget_sessions();
        let calls = |agent: &Agent, modern: &Modern| {
            let (agent, modern) = (agent.clone(), modern.clone());
            (0..20).map(move |n| {
                let (agent, modern) = (agent.clone(), modern.clone());
                async move {
                    if n % 2 == 0 {
                        agent.call("read", json!({})).await
                    } else {
                        modern.call("read", json!({})).await
                    }
                }
            })
        };
        let mut all = tokio::task::JoinSet::new();
        for call in calls(&ann, &bob) {
            all.spawn(call);
        }
        for answer in all.join_all().await {
            assert_eq!(answer.result()["content"][0]["text"], "read ran");
        }
        let reopened = harbour.peer.asked("initialize").len() - opened;
        assert_eq!(reopened, 2, "one for each of the two, the {forgotten}. time");
    }
    let sessions = |sub: &str| {
        let all = crate::support::records::all(&harbour.gateway.home);
        let of = all.iter().filter(|record| record["principal"]["sub"] == sub);
        of.filter(|record| record["outcome"]["status"] == "success").count()
    };
    assert!(sessions("ann") >= 21 && sessions("bob") >= 21);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_forgets_at_once_is_tried_once_more_and_no_more() {
    let harbour = Harbour::with(Speaks::Legacy, &["read", "gone"], |setup| setup).await;
    harbour.peer.always("gone", Turn::Status(404));
    let ann = harbour.agent("ann").await;
    assert_eq!(ann.call("read", json!({})).await.status, 200);
    let answer = ann.call("gone", json!({})).await;
    assert_eq!(answer.error_code(), -32603, "{}", answer.text());
    let receipt = harbour.gateway.receipt_named_by(&answer);
    assert_eq!(receipt["outcome"]["executed"], false, "404 proves that nothing ran");
    let tried = harbour.peer.asked("tools/call");
    let tried = tried.iter().filter(|call| call.json()["params"]["name"] == "gone");
    assert_eq!(tried.count(), 2);
    assert_eq!(ann.call("read", json!({})).await.status, 200, "the session goes on");
    harbour.serves_others("read").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_of_servers_are_never_shared_between_principals_or_capabilities() {
    // R108
    let harbour = Harbour::with(Speaks::Legacy, &["read"], |setup| setup).await;
    let (ann, bob) = (harbour.modern("ann"), harbour.modern("bob"));
    let able = ann.clone().able(json!({"roots": {}}));
    for client in [&ann, &ann, &bob, &able, &able] {
        assert_eq!(client.call("read", json!({})).await.status, 200);
    }
    let agent = harbour.agent("ann").await;
    agent.call("read", json!({})).await;
    let calls = harbour.peer.asked("tools/call");
    let used: Vec<_> = calls
        .iter()
        .map(|call| call.headers.get("mcp-session-id").unwrap())
        .collect();
    assert_eq!(used[0], used[1]);
    assert_eq!(used[3], used[4]);
    let distinct: std::collections::BTreeSet<_> = used.iter().collect();
    assert_eq!(distinct.len(), 4, "{used:?}");
    // What ends here ends there.
    let ended = agent
        .submit(agent.ask("").instead("Content-Type", None).with_method("DELETE"))
        .await;
    assert_eq!(ended.status, 204);
    crate::support::eventually("the server is told", 5, async || {
        let seen = harbour.peer.seen();
        let mut deleted = seen.iter().filter(|seen| seen.start.starts_with("DELETE"));
        deleted.any(|seen| seen.headers.get("mcp-session-id") == Some(used[5]))
    })
    .await;
}
