//! Servers that flood, never end, break off, or answer what they were not asked.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::peer::ran;
use crate::support::{Answer, Beat, Harbour, Setup, Speaks, Turn};

const ERAS: [Speaks; 2] = [Speaks::Legacy, Speaks::Modern];

/// One of each era calls a tool.
async fn both(harbour: &Harbour, tool: &str) -> [Answer; 2] {
    let agent = harbour.agent("ann").await;
    let modern = harbour.modern("ann");
    tokio::join!(agent.call(tool, json!({})), modern.call(tool, json!({}))).into()
}

/// The gateway says that the server failed, and records it.
fn failed(harbour: &Harbour, answer: &Answer, code: &str) -> Value {
    assert_eq!((answer.status, answer.error_code()), (200, -32603), "{}", answer.text());
    assert_eq!(answer.reason_codes(), [code], "{}", answer.text());
    let receipt = harbour.gateway.receipt_named_by(answer);
    assert_eq!(receipt["outcome"]["executed"], Value::Null, "nobody can know");
    receipt
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_notifications_neither_fills_the_memory_nor_stops_the_call() {
    // R202
    let harbour = Harbour::with(Speaks::Legacy, &["flood", "read"], |setup| setup).await;
    harbour.serves_others("read").await;
    let log = json!({"jsonrpc": "2.0", "method": "notifications/message",
        "params": {"level": "info", "data": format!("$n {}", "x".repeat(500))}});
    let unasked = json!({"jsonrpc": "2.0", "method": "notifications/progress",
        "params": {"progressToken": 1, "progress": 1}});
    let unheard = json!({"jsonrpc": "2.0", "method": "notifications/unheard_of", "params": {"n": "$n"}});
    let beats = vec![
        Beat::Flood(33_000, log.to_string()),
        Beat::Flood(33_000, unasked.to_string()),
        Beat::Flood(34_000, unheard.to_string()),
        Beat::result(&ran("flood")),
    ];
    harbour.peer.always("flood", Turn::Stream(beats));
    let before = harbour.gateway.peak_memory();
    let agent = harbour.agent("ann").await;
    let modern = harbour.modern("ann");
    let mut stream = agent.follow("tools/call", json!({"name": "flood"})).await;
    let (heard, quiet) = tokio::join!(
        async {
            let mut heard = 0;
            loop {
                let message = stream.next().await.expect("an answer");
                if message.get("method").is_none() {
                    assert_eq!(message["result"]["content"][0]["text"], "flood ran");
                    return heard;
                }
                assert_eq!(message["method"], "notifications/message", "progress was not asked for");
                heard += 1;
            }
        },
        modern.call("flood", json!({})),
    );
    assert_eq!(heard, 33_000, "a client that reads hears everything");
    assert_eq!(quiet.messages().len(), 1, "a modern client asked for no logs");
    let grown = harbour.gateway.peak_memory().saturating_sub(before);
    assert!(grown < 48 * 1024 * 1024, "{grown} bytes more");
    harbour.gateway.receipt_of(&quiet);
    harbour.serves_others("read").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_read_holds_up_nobody_else_and_no_memory() {
    // R202
    let harbour = Harbour::with(Speaks::Legacy, &["flood", "read"], |setup| setup).await;
    harbour.serves_others("read").await;
    let log = json!({"jsonrpc": "2.0", "method": "notifications/message",
        "params": {"level": "info", "data": "x".repeat(5_000)}});
    let beats = vec![Beat::Flood(20_000, log.to_string()), Beat::result(&ran("flood"))];
    harbour.peer.always("flood", Turn::Stream(beats));
    let before = harbour.gateway.peak_memory();
    let agent = harbour.agent("ann").await;
    let mut stream = agent.follow("tools/call", json!({"name": "flood"})).await;
    assert_eq!(stream.next().await.unwrap()["method"], "notifications/message");
    // The rest of 100 MB waits at the server.
    for _ in 0..20 {
        harbour.serves_others("read").await;
        let answer = agent.call("read", json!({})).await;
        assert_eq!(answer.status, 200, "the session goes on: {}", answer.text());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let grown = harbour.gateway.peak_memory().saturating_sub(before);
    assert!(grown < 48 * 1024 * 1024, "{grown} bytes more");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_never_answers_times_out_and_one_that_answered_need_not_end() {
    // R164
    for server in ERAS {
        let short = |setup: Setup| setup.set("limits.timeout", "3s");
        let harbour = Harbour::with(server, &["endless", "open", "chatty"], short).await;
        let comments = Beat::Flood(50, String::new());
        harbour.peer.always("endless", Turn::Stream(vec![comments, Beat::Hold]));
        // Were each comment a reason to wait on, the stream would end after twelve seconds, and that is another error.
        let chatter = (0..120).flat_map(|_| {
            [
                Beat::Raw(": still here\n\n".into()),
                Beat::Wait(Duration::from_millis(100)),
            ]
        });
        harbour.peer.always("chatty", Turn::Stream(chatter.collect()));
        harbour
            .peer
            .always("open", Turn::Stream(vec![Beat::result(&ran("open")), Beat::Hold]));
        for answer in both(&harbour, "open").await {
            assert_eq!(answer.result()["content"][0]["text"], "open ran");
        }
        for tool in ["endless", "chatty"] {
            for answer in both(&harbour, tool).await {
                assert_eq!(
                    failed(&harbour, &answer, "ERROR_TIMEOUT")["outcome"]["status"],
                    "timeout"
                );
            }
        }
        harbour.serves_others("open").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_breaks_off_in_the_middle_is_an_error_with_an_unknown_outcome() {
    for server in ERAS {
        let harbour = Harbour::with(server, &["event", "between", "letter", "read"], |setup| setup).await;
        let note = Beat::notify("notifications/message", &json!({"level": "info", "data": "d"}));
        let half = Beat::Raw(r#"data: {"jsonrpc":"2.0","id":$id,"result":{"content":["#.to_owned());
        harbour
            .peer
            .always("event", Turn::Stream(vec![half.clone(), Beat::Break]));
        harbour.peer.always("letter", Turn::Stream(vec![half]));
        harbour.peer.always("between", Turn::Stream(vec![note, Beat::Break]));
        for tool in ["event", "between", "letter"] {
            let before = harbour.peer.asked("tools/call").len();
            for answer in both(&harbour, tool).await {
                failed(&harbour, &answer, "ERROR_UPSTREAM");
            }
            assert_eq!(
                harbour.peer.asked("tools/call").len(),
                before + 2,
                "{tool} is not tried again"
            );
        }
        harbour.serves_others("read").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_answer_to_another_call_is_no_answer_to_this_one() {
    // R108
    for server in ERAS {
        let harbour = Harbour::with(server, &["wrong", "twice", "read"], |setup| setup).await;
        let stray = Beat::Tell(format!(
            r#"{{"jsonrpc":"2.0","id":987654321,"result":{}}}"#,
            ran("STRAY")
        ));
        let own = Beat::result(&ran("own"));
        harbour
            .peer
            .always("wrong", Turn::Stream(vec![stray.clone(), own.clone()]));
        harbour
            .peer
            .always("twice", Turn::Stream(vec![own, Beat::result(&ran("SECOND")), stray]));
        for answer in both(&harbour, "wrong").await {
            assert!(!answer.text().contains("STRAY"), "{}", answer.text());
            failed(&harbour, &answer, "ERROR_UPSTREAM");
        }
        for answer in both(&harbour, "twice").await {
            assert_eq!(answer.result()["content"][0]["text"], "own ran");
            assert_eq!(answer.messages().len(), 1, "nothing after the result");
        }
        harbour.serves_others("read").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_modern_server_asks_on_its_stream_is_not_put() {
    let harbour = Harbour::with(Speaks::Modern, &["ask"], |setup| setup).await;
    let question = json!({"jsonrpc": "2.0", "id": 1, "method": "roots/list"}).to_string();
    let beats = vec![Beat::Tell(question), Beat::result(&ran("ask"))];
    harbour.peer.always("ask", Turn::Stream(beats));
    let able = harbour.able("ann").await.call("ask", json!({})).await;
    assert_eq!((able.messages().len(), able.result()["content"].is_array()), (1, true));
}
