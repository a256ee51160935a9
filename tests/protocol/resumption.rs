//! Streams of sessions that broke are taken up where they broke, by their owner, and only there.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::sync::Notify;

use crate::support::peer::ran;
use crate::support::{Beat, Harbour, Speaks, Turn};

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_stream_gives_its_rest_and_nothing_of_another() {
    // R108
    for server in [Speaks::Legacy, Speaks::Modern] {
        let harbour = Harbour::with(server, &["one", "two"], |setup| setup).await;
        let go_on = Arc::new(Notify::new());
        for tool in ["one", "two"] {
            let log = |n: usize| {
                Beat::notify(
                    "notifications/message",
                    &json!({"level": "error", "data": format!("{tool} {n}")}),
                )
            };
            let beats = vec![
                log(1),
                Beat::Until(Arc::clone(&go_on)),
                log(2),
                log(3),
                Beat::result(&ran(tool)),
            ];
            harbour.peer.always(tool, Turn::Stream(beats));
        }
        let (ann, bob) = (harbour.agent("ann").await, harbour.agent("bob").await);
        let mut one = ann.follow("tools/call", json!({"name": "one"})).await;
        let mut two = ann.follow("tools/call", json!({"name": "two"})).await;
        assert_eq!(one.next().await.unwrap()["params"]["data"], "one 1");
        assert_eq!(two.next().await.unwrap()["params"]["data"], "two 1");
        let broken_at = one.last_id.clone().expect("an event id");
        assert_ne!(Some(&broken_at), two.last_id.as_ref(), "ids are unique in the session");
        drop(one);
        tokio::time::sleep(Duration::from_millis(100)).await;
        go_on.notify_waiters();
        // Two goes on as if nothing had happened.
        assert_eq!(two.next().await.unwrap()["params"]["data"], "two 2");
        let mut again = ann.listen(Some(&broken_at)).await;
        assert!(again.is_stream(), "{}", again.status);
        let mut rest = Vec::new();
        while let Some(message) = again.next().await {
            rest.push(message);
        }
        assert_eq!(rest.len(), 3, "{rest:?}");
        assert_eq!(
            (&rest[0]["params"]["data"], &rest[1]["params"]["data"]),
            (&json!("one 2"), &json!("one 3"))
        );
        assert_eq!(rest[2]["result"]["content"][0]["text"], "one ran");
        assert_eq!(two.answer().await["result"]["content"][0]["text"], "two ran");
        // To anybody else, and under any other id, there is no such stream.
        assert_eq!(bob.listen(Some(&broken_at)).await.status, 404, "Bob's session has none");
        let mut thief = bob.clone();
        thief.session = ann.session.clone();
        assert_eq!(
            thief.listen(Some(&broken_at)).await.status,
            404,
            "Ann's session is not Bob's"
        );
        for unknown in ["99.1", "made-up", "1", "-1.2", "1.2.3", "18446744073709551616.0"] {
            assert_eq!(ann.listen(Some(unknown)).await.status, 404, "{unknown}");
        }
        let seq = harbour.gateway.last_seq();
        assert_eq!(ann.listen(Some("98.7")).await.status, 404);
        assert_eq!(harbour.gateway.receipts_after(seq).len(), 1, "a refusal is recorded");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_can_be_taken_up_again_and_again() {
    let harbour = Harbour::with(Speaks::Legacy, &["one"], |setup| setup).await;
    let log = |n: usize| Beat::notify("notifications/message", &json!({"level": "error", "data": n}));
    let beats = vec![log(1), log(2), log(3), Beat::result(&ran("one"))];
    harbour.peer.always("one", Turn::Stream(beats));
    let ann = harbour.agent("ann").await;
    let mut one = ann.follow("tools/call", json!({"name": "one"})).await;
    one.next().await.unwrap();
    let mut at = one.last_id.clone().unwrap();
    drop(one);
    for expected in [json!(2), json!(3)] {
        let mut again = ann.listen(Some(&at)).await;
        assert_eq!(again.next().await.unwrap()["params"]["data"], expected);
        at = again.last_id.clone().unwrap();
    }
    let mut last = ann.listen(Some(&at)).await;
    assert_eq!(last.next().await.unwrap()["result"]["content"][0]["text"], "one ran");
    assert!(last.next().await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_the_server_closes_is_taken_up_there() {
    // The server ends its stream before the answer and gives an event id to come back with.
    let harbour = Harbour::with(Speaks::Legacy, &["poll", "read"], |setup| setup).await;
    let opening = Beat::Raw("id: server-event-1\nretry: 1500\ndata:\n\n".to_owned());
    harbour.peer.always("poll", Turn::Stream(vec![opening]));
    let ann = harbour.agent("ann").await;
    let (answer, ()) = tokio::join!(ann.call("poll", json!({})), async {
        crate::support::eventually("the call is under way", 5, async || {
            !harbour.peer.asked("tools/call").is_empty()
        })
        .await;
        let id = harbour.peer.asked("tools/call")[0].json()["id"].to_string();
        let result = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{}}}"#, ran("poll"));
        harbour.peer.on_own_stream(vec![Beat::Tell(result)]);
    });
    assert_eq!(answer.result()["content"][0]["text"], "poll ran");
    let resumed = |seen: &crate::support::server::Seen| {
        seen.start.starts_with("GET") && seen.headers.get("last-event-id") == Some("server-event-1")
    };
    assert!(harbour.peer.seen().iter().any(resumed));
    assert_eq!(harbour.peer.asked("tools/call").len(), 1, "nothing is sent twice");
    harbour.gateway.receipt_of(&answer);
    harbour.serves_others("read").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_whose_stream_cannot_be_taken_up_is_not_sent_again() {
    // The server took the call, closed its stream, and forgot the session before we came back: it may have run.
    let harbour = Harbour::with(Speaks::Legacy, &["poll", "read"], |setup| setup).await;
    let opening = Beat::Raw("id: server-event-1\nretry: 1500\ndata:\n\n".to_owned());
    harbour.peer.always("poll", Turn::Stream(vec![opening]));
    let ann = harbour.agent("ann").await;
    let (answer, ()) = tokio::join!(ann.call("poll", json!({})), async {
        crate::support::eventually("the call is under way", 5, async || {
            !harbour.peer.asked("tools/call").is_empty()
        })
        .await;
        harbour.peer.forget_sessions();
    });
    assert_eq!(answer.error_code(), -32603, "{}", answer.text());
    assert_eq!(harbour.peer.asked("tools/call").len(), 1, "nothing is sent twice");
    let receipt = harbour.gateway.receipt_named_by(&answer);
    assert!(receipt["outcome"]["executed"].is_null(), "{receipt}");
    harbour.serves_others("read").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_of_a_server_is_not_opened_for_who_may_not_use_it() {
    // R108
    let policy = r#"permit (principal == User::"ann", action, resource);"#;
    let harbour = Harbour::with(Speaks::Legacy, &["read"], |setup| setup.policy(policy)).await;
    let log = json!({"level": "error", "data": "not for Bob"});
    harbour
        .peer
        .on_own_stream(vec![Beat::notify("notifications/message", &log), Beat::Hold]);
    // Ann's session waits for the first discovery, which is not Bob's doing.
    let ann = harbour.agent("ann").await;
    let opened = || harbour.peer.asked("initialize").len();
    let before = opened();
    let mut of_bob = harbour.agent("bob").await.listen(None).await;
    assert!(of_bob.is_stream());
    assert!(of_bob.is_silent_for(Duration::from_millis(800)).await);
    assert_eq!(opened(), before, "the server is not even contacted");
    let mut of_ann = ann.listen(None).await;
    let heard = of_ann.until("notifications/message").await;
    assert_eq!(heard["params"]["data"], "not for Bob");
}
