//! What servers ask of clients: only those who can be asked, only the one whose call it is.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::harbour::everything;
use crate::support::peer::ran;
use crate::support::records::{all, receipts};
use crate::support::{Beat, Harbour, Setup, Speaks, Turn};

fn sampling() -> Value {
    json!({"messages": [], "maxTokens": 5})
}

/// The receipts of a server's question.
fn asked(harbour: &Harbour, method: &str) -> Vec<Value> {
    let mut found = receipts(&all(&harbour.gateway.home));
    found.retain(|receipt| receipt["mcp"]["method"] == method);
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_without_the_capability_is_asked_nothing_and_the_server_is_told() {
    let harbour = Harbour::with(Speaks::Legacy, &["ask", "read"], |setup| setup).await;
    let question = |id: &str| Beat::ask(id, "sampling/createMessage", sampling());
    for (id, legacy) in [("with-session", true), ("without", false)] {
        let beats = vec![question(id), Beat::result(&ran("ask"))];
        harbour.peer.always("ask", Turn::Stream(beats));
        let answer = if legacy {
            let ann = harbour.declaring("ann", json!({"capabilities": {"roots": {}}})).await;
            ann.call("ask", json!({})).await
        } else {
            harbour
                .modern("ann")
                .able(json!({"roots": {}}))
                .call("ask", json!({}))
                .await
        };
        assert_eq!(
            answer.messages().len(),
            1,
            "the client hears of nothing: {}",
            answer.text()
        );
        assert_eq!(answer.result()["content"][0]["text"], "ask ran");
        let told = harbour.peer.answer_to(id).unwrap();
        assert!(told["error"]["code"].is_i64(), "{told}");
    }
    let receipts = asked(&harbour, "sampling/createMessage");
    assert_eq!(receipts.len(), 2, "{receipts:?}");
    assert!(receipts.iter().all(|receipt| receipt["decision"]["result"] == "deny"));
    // The twin can be asked, and is.
    harbour
        .peer
        .always("ask", Turn::Stream(vec![question("twin"), Beat::result(&ran("ask"))]));
    let bob = harbour.able("bob").await;
    let mut stream = bob.follow("tools/call", json!({"name": "ask"})).await;
    let put = stream.next().await.unwrap();
    assert_eq!(
        (&put["method"], &put["params"]),
        (&json!("sampling/createMessage"), &sampling())
    );
    bob.answer(&put["id"], json!({"role": "assistant", "content": [], "model": "m"}))
        .await;
    stream.answer().await;
    assert_eq!(harbour.peer.answer_to("twin").unwrap()["result"]["model"], "m");
    harbour.serves_others("read").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_client_may_be_asked_is_refused() {
    let harbour = Harbour::with(Speaks::Legacy, &["ask"], |setup| setup).await;
    let form = json!({"message": "m", "requestedSchema": {"type": "object", "properties": {}}});
    let page = |url: &str| json!({"mode": "url", "message": "m", "url": url, "elicitationId": "e"});
    let cases = [
        ("tools/list", json!({}), false),
        ("vendor/thing", json!({}), false),
        ("elicitation/create", page("http://plain.example/"), false),
        ("elicitation/create", page("javascript:alert(1)"), false),
        ("elicitation/create", json!({"mode": "novel", "message": "m"}), false),
        ("elicitation/create", page("https://safe.example/"), true),
        ("elicitation/create", form, true),
    ];
    for (place, (method, params, put)) in cases.into_iter().enumerate() {
        let beats = vec![Beat::ask(place, method, params.clone()), Beat::result(&ran("ask"))];
        harbour.peer.always("ask", Turn::Stream(beats));
        let ann = harbour.able("ann").await;
        let mut stream = ann.follow("tools/call", json!({"name": "ask"})).await;
        let first = stream.next().await.unwrap();
        if put {
            assert_eq!(first["params"], params);
            ann.answer(&first["id"], json!({"action": "decline"})).await;
            stream.answer().await;
        } else {
            assert!(first.get("result").is_some(), "{method}: {first}");
        }
        assert_eq!(
            harbour.peer.answer_to(place).unwrap().get("result").is_some(),
            put,
            "{method}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ping_of_the_server_is_answered_by_the_gateway() {
    let harbour = Harbour::with(Speaks::Legacy, &["ask"], |setup| setup).await;
    let beats = vec![Beat::ask("p", "ping", json!({})), Beat::result(&ran("ask"))];
    harbour.peer.always("ask", Turn::Stream(beats));
    let answer = harbour.agent("ann").await.call("ask", json!({})).await;
    assert_eq!(answer.messages().len(), 1);
    assert_eq!(harbour.peer.answer_to("p").unwrap()["result"], json!({}));
}

#[tokio::test(flavor = "multi_thread")]
async fn two_sessions_of_one_principal_are_each_asked_by_their_own_call() {
    // R108
    let harbour = Harbour::with(Speaks::Legacy, &["one", "two"], |setup| setup).await;
    for tool in ["one", "two"] {
        // The server's own id is the same as the client's: the two directions do not mix.
        let id = if tool == "one" { json!(1) } else { json!("1") };
        let beats = vec![Beat::ask(id, "roots/list", json!({})), Beat::result(&ran(tool))];
        harbour.peer.always(tool, Turn::Stream(beats));
    }
    let (first, second) = (harbour.able("ann").await, harbour.able("ann").await);
    let mut one = first.follow("tools/call", json!({"name": "one"})).await;
    let mut two = second.follow("tools/call", json!({"name": "two"})).await;
    let (of_one, of_two) = (one.next().await.unwrap(), two.next().await.unwrap());
    let roots = |of: &str| json!({"roots": [{"uri": format!("file:///{of}")}]});
    assert_eq!(second.answer(&of_two["id"], roots("two")).await.status, 202);
    assert_eq!(first.answer(&of_one["id"], roots("one")).await.status, 202);
    assert_eq!(one.answer().await["result"]["content"][0]["text"], "one ran");
    assert_eq!(two.answer().await["result"]["content"][0]["text"], "two ran");
    assert_eq!(harbour.peer.answer_to(1).unwrap()["result"], roots("one"));
    assert_eq!(harbour.peer.answer_to("1").unwrap()["result"], roots("two"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_a_shared_session_can_ask_nobody() {
    let shared = |setup: Setup| setup.set("servers.peer.isolation", "shared");
    for server in [Speaks::Legacy, Speaks::Modern] {
        let harbour = Harbour::with(server, &["ask", "read"], shared).await;
        let inputs = json!({"resultType": "input_required", "inputRequests": {"q": {"method": "roots/list"}}});
        match server {
            Speaks::Legacy => {
                let beats = vec![Beat::ask("q", "roots/list", json!({})), Beat::result(&ran("ask"))];
                harbour.peer.always("ask", Turn::Stream(beats));
            }
            Speaks::Modern => harbour.peer.always("ask", Turn::Result(inputs.to_string())),
        }
        let legacy = harbour.able("ann").await.call("ask", json!({})).await;
        let modern = harbour.modern("bob").able(everything()).call("ask", json!({})).await;
        for answer in [legacy, modern] {
            assert_eq!(answer.messages().len(), 1, "{}", answer.text());
            let result = answer.result();
            assert_eq!(result.get("inputRequests"), None, "{result}");
            assert_eq!(result["isError"] == true, server == Speaks::Modern, "{result}");
        }
        if server == Speaks::Legacy {
            let told = harbour.peer.answer_to("q").unwrap();
            assert!(told["error"]["code"].is_i64(), "{told}");
            assert_eq!(
                harbour.peer.asked("initialize").len(),
                2,
                "the inventory's and the shared one"
            );
        }
        let offered = harbour
            .peer
            .seen()
            .iter()
            .any(|seen| String::from_utf8_lossy(&seen.body).contains("sampling"));
        assert!(!offered, "it is told of no capabilities");
        assert!(!asked(&harbour, "roots/list").is_empty());
        harbour.serves_others("read").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_on_the_stream_of_a_session_reaches_that_session_alone() {
    // R108
    let harbour = Harbour::with(Speaks::Legacy, &["read"], |setup| setup).await;
    let (ann, bob) = (harbour.able("ann").await, harbour.able("bob").await);
    for agent in [&ann, &bob] {
        assert_eq!(agent.call("read", json!({})).await.status, 200, "discovered");
    }
    let mut of_bob = bob.listen(None).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    harbour
        .peer
        .on_own_stream(vec![Beat::ask("own", "roots/list", json!({})), Beat::Hold]);
    let mut of_ann = ann.listen(None).await;
    let question = of_ann.until("roots/list").await;
    assert!(of_bob.is_silent_for(Duration::from_millis(300)).await);
    assert_eq!(bob.answer(&question["id"], json!({"roots": []})).await.status, 400);
    assert_eq!(ann.answer(&question["id"], json!({"roots": []})).await.status, 202);
    crate::support::eventually("the server has its answer", 5, async || {
        harbour
            .peer
            .answer_to("own")
            .is_some_and(|answer| answer["result"]["roots"].is_array())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_asks_without_end_is_refused_in_time() {
    let harbour = Harbour::with(Speaks::Legacy, &["ask", "read"], |setup| setup).await;
    let question = json!({"jsonrpc": "2.0", "id": "$n", "method": "roots/list"});
    let beats = vec![Beat::Flood(200, question.to_string()), Beat::result(&ran("ask"))];
    harbour.peer.always("ask", Turn::Stream(beats));
    let ann = harbour.able("ann").await;
    let mut stream = ann.follow("tools/call", json!({"name": "ask"})).await;
    let mut put = 0;
    loop {
        let message = stream.next().await.unwrap();
        if message.get("method").is_none() {
            assert!(message.get("result").is_some(), "{message}");
            break;
        }
        put += 1;
    }
    assert!((1..=16).contains(&put), "{put}");
    assert!(harbour.peer.answer_to("199").unwrap()["error"]["code"].is_i64());
    harbour.serves_others("read").await;
}
