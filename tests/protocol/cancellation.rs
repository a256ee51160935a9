//! Who no longer waits: a legacy client says so, a modern one hangs up, and the server hears of it.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::peer::ran;
use crate::support::records::{all, receipts};
use crate::support::{Ask, Beat, Harbour, Speaks, Turn, eventually};

fn held() -> Turn {
    let note = Beat::notify("notifications/message", &json!({"level": "error", "data": "begun"}));
    Turn::Stream(vec![note, Beat::Hold])
}

/// The server is no longer asked: by a notification with its own id, or by a stream that closes.
async fn is_told(harbour: &Harbour, server: Speaks, tool: &str) {
    eventually("the server hears that nobody waits", 5, async || {
        harbour.peer.hung_up().contains(&tool.to_owned())
    })
    .await;
    let cancelled = || harbour.peer.asked("notifications/cancelled");
    if server == Speaks::Modern {
        assert_eq!(cancelled().len(), 0, "the stream that closes says it all");
        return;
    }
    eventually("the server is told", 5, async || !cancelled().is_empty()).await;
    let called = harbour.peer.asked("tools/call");
    let of_tool = called.iter().filter(|call| call.json()["params"]["name"] == tool);
    let ids: Vec<Value> = of_tool.map(|call| call.json()["id"].clone()).collect();
    let named = cancelled().last().unwrap().json()["params"]["requestId"].clone();
    assert!(ids.contains(&named), "{named} is none of {ids:?}");
}

/// The last receipt of a call to this tool.
async fn receipt(harbour: &Harbour, tool: &str) -> Value {
    let find = || {
        let found = receipts(&all(&harbour.gateway.home)).into_iter();
        let mut found = found.filter(|receipt| receipt["mcp"]["tool_name"] == tool);
        found.next()
    };
    eventually("the call is on record", 10, async || find().is_some()).await;
    find().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_call_of_a_session_reaches_the_server_and_no_other_call() {
    // R164
    for server in [Speaks::Legacy, Speaks::Modern] {
        let harbour = Harbour::with(server, &["held", "other", "read"], |setup| setup).await;
        harbour.peer.always("held", held());
        let beats = vec![Beat::Wait(Duration::from_millis(1500)), Beat::result(&ran("other"))];
        harbour.peer.always("other", Turn::Stream(beats));
        let (ann, bob) = (harbour.agent("ann").await, harbour.agent("bob").await);
        let body = |id: Value, tool: &str| {
            json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool}}).to_string()
        };
        let cancel = async |agent: &crate::support::Agent, id: Value| {
            let params = json!({"requestId": id, "reason": "SECRET"});
            let told = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
            assert_eq!(agent.send(told.to_string()).await.status, 202);
        };
        let (cancelled, other, of_bob, ()) = tokio::join!(
            ann.send(body(json!("7"), "held")),
            ann.send(body(json!(7), "other")),
            bob.send(body(json!("7"), "other")),
            async {
                eventually("all calls are under way", 5, async || {
                    harbour.peer.asked("tools/call").len() == 3
                })
                .await;
                cancel(&bob, json!("8")).await;
                cancel(&ann, json!("nobody's")).await;
                cancel(&ann, json!("7")).await;
            }
        );
        assert_eq!(cancelled.reason_codes(), ["ERROR_CANCELLED"], "{}", cancelled.text());
        assert_eq!(cancelled.last()["id"], "7");
        assert_eq!(other.result()["content"][0]["text"], "other ran", "7 is not \"7\"");
        assert_eq!(of_bob.result()["content"][0]["text"], "other ran");
        is_told(&harbour, server, "held").await;
        let transcript: String = harbour
            .peer
            .seen()
            .iter()
            .map(|seen| String::from_utf8_lossy(&seen.body).into_owned())
            .collect();
        assert!(!transcript.contains("SECRET"));
        let codes = &harbour.gateway.receipt_named_by(&cancelled)["decision"]["reason_codes"];
        assert!(codes.to_string().contains("ERROR_CANCELLED"), "{codes}");
        harbour.serves_others("read").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hanging_up_cancels_a_modern_call_before_and_after_its_stream_began() {
    // R164
    for server in [Speaks::Legacy, Speaks::Modern] {
        for (tool, level) in [("silent", None), ("held", Some("debug"))] {
            let harbour = Harbour::with(server, &["silent", "held", "read"], |setup| setup).await;
            harbour.peer.always("held", held());
            harbour.peer.always("silent", Turn::Silence);
            let meta = level.map_or(json!({}), |level| json!({"io.modelcontextprotocol/logLevel": level}));
            let modern = harbour.modern("ann").saying(meta);
            let ask: Ask = modern.ask(&modern.body("tools/call", json!({"name": tool})));
            let mut wire = modern.door.open().await.unwrap();
            wire.send(&ask.bytes(modern.door.address)).await.unwrap();
            if level.is_some() {
                assert_eq!(wire.begin_reply().await.unwrap().0, 200);
            } else {
                eventually("the call is under way", 5, async || {
                    !harbour.peer.asked("tools/call").is_empty()
                })
                .await;
            }
            drop(wire);
            is_told(&harbour, server, tool).await;
            let codes = receipt(&harbour, tool).await["decision"]["reason_codes"].clone();
            assert!(codes.to_string().contains("ERROR_CANCELLED"), "{tool}: {codes}");
            harbour.serves_others("read").await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hanging_up_does_not_cancel_a_call_of_a_session() {
    // R164
    for server in [Speaks::Legacy, Speaks::Modern] {
        let harbour = Harbour::with(server, &["streamed", "silent"], |setup| setup).await;
        let note = Beat::notify("notifications/message", &json!({"level": "error", "data": "begun"}));
        let wait = Beat::Wait(Duration::from_millis(700));
        let beats = vec![note, wait.clone(), Beat::result(&ran("streamed"))];
        harbour.peer.always("streamed", Turn::Stream(beats));
        let beats = vec![wait, Beat::result(&ran("silent"))];
        harbour.peer.always("silent", Turn::Stream(beats));
        let ann = harbour.agent("ann").await;
        let mut stream = ann.follow("tools/call", json!({"name": "streamed"})).await;
        assert_eq!(stream.next().await.unwrap()["params"]["data"], "begun");
        drop(stream);
        let mut wire = ann.door().open().await.unwrap();
        let ask = ann.ask(crate::support::agent::call_body("silent", "{}"));
        wire.send(&ask.bytes(ann.door().address)).await.unwrap();
        drop(wire);
        for tool in ["streamed", "silent"] {
            let receipt = receipt(&harbour, tool).await;
            assert_eq!(receipt["outcome"]["status"], "success", "{receipt}");
        }
        assert_eq!(harbour.peer.asked("notifications/cancelled").len(), 0);
        assert_eq!(harbour.peer.hung_up(), [""; 0]);
    }
}
