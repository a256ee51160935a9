//! Answers nobody asked for, and answers to somebody else's questions.

use serde_json::json;

use crate::support::peer::ran;
use crate::support::{Ask, Beat, Harbour, Speaks, Turn, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_nobody_asked_for_is_refused_and_recorded() {
    // R152
    let harbour = Harbour::with(Speaks::Legacy, &["read"], |setup| setup).await;
    let agent = harbour.able("ann").await;
    let modern = harbour.modern("ann");
    let seq = harbour.gateway.last_seq();
    let mut refused = 0;
    for id in ["1", "\"1\"", "999", "1.0", "18446744073709551616"] {
        for content in [r#""result":{}"#, r#""error":{"code":1,"message":"no"}"#] {
            let body = format!(r#"{{"jsonrpc":"2.0","id":{id},{content}}}"#);
            let in_session = agent.send(body.clone()).await;
            let without = modern.submit(modern.ask_raw("", body.clone())).await;
            let bare = Ask::post("/mcp/peer", body).bearer(&harbour.issuer.token("ann"));
            assert_eq!(in_session.status, 400, "{id}: {}", in_session.text());
            assert_eq!(without.status, 400, "{id}: {}", without.text());
            assert_eq!(harbour.gateway.ask(bare).await.status, 400, "{id}");
            assert!(in_session.json()["error"]["message"].is_string());
            refused += 3;
        }
    }
    assert_eq!(harbour.gateway.receipts_after(seq).len(), refused);
    assert_eq!(agent.call("read", json!({})).await.status, 200, "the session goes on");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_answered_once_and_by_the_one_who_was_asked() {
    // R108
    let harbour = Harbour::with(Speaks::Legacy, &["ask"], |setup| setup).await;
    let beats = vec![Beat::ask("q", "roots/list", json!({})), Beat::result(&ran("ask"))];
    harbour.peer.always("ask", Turn::Stream(beats));
    let (ann, bob, second) = tokio::join!(harbour.able("ann"), harbour.able("bob"), harbour.able("ann"));
    let mut stream = ann.follow("tools/call", json!({"name": "ask"})).await;
    let question = stream.next().await.unwrap();
    assert_eq!(question["method"], "roots/list");
    // Bob has no such question, and neither has another session of Ann's.
    for stranger in [&bob, &second] {
        let evil = stranger
            .answer(&question["id"], json!({"roots": [{"uri": "file:///evil"}]}))
            .await;
        assert_eq!(evil.status, 400, "{}", evil.text());
    }
    // Bob cannot use Ann's session either.
    let mut thief = bob.clone();
    thief.session = ann.session.clone();
    let stolen = thief.answer(&question["id"], json!({"roots": []})).await;
    assert_eq!(stolen.status, 404);
    assert_eq!(harbour.peer.answer_to("q"), None);
    let mine = json!({"roots": [{"uri": "file:///ann"}]});
    assert_eq!(ann.answer(&question["id"], mine.clone()).await.status, 202);
    assert_eq!(ann.answer(&question["id"], mine.clone()).await.status, 400, "once");
    assert_eq!(stream.answer().await["result"]["content"][0]["text"], "ask ran");
    assert_eq!(harbour.peer.answer_to("q").unwrap()["result"], mine);
    assert!(stream.next().await.is_none(), "the stream ends behind its answer");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_beyond_the_limits_does_not_reach_the_server() {
    // R202
    let small = json!({"max_bytes": 1000});
    let harbour = Harbour::with(Speaks::Legacy, &["ask"], |setup| setup.set("limits.arguments", small)).await;
    let beats = vec![Beat::ask(7, "roots/list", json!({})), Beat::result(&ran("ask"))];
    harbour.peer.always("ask", Turn::Stream(beats));
    let ann = harbour.able("ann").await;
    let mut stream = ann.follow("tools/call", json!({"name": "ask"})).await;
    let question = stream.next().await.unwrap();
    let huge = json!({"roots": [{"uri": format!("file:///{}", "x".repeat(2000))}]});
    assert_eq!(ann.answer(&question["id"], huge).await.status, 202);
    assert_eq!(stream.answer().await["result"]["content"][0]["text"], "ask ran");
    let answered = harbour.peer.answer_to(7).unwrap();
    assert!(answered["error"]["code"].is_i64(), "{answered}");
    eventually("the question is on record", 5, async || {
        let records = crate::support::records::all(&harbour.gateway.home);
        records.iter().any(|record| record["mcp"]["method"] == "roots/list")
    })
    .await;
}
