//! What cannot be carried is answered all the same.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::eras::{command_to, open_session};
use crate::support::stand::{Step, json_answer, result_of, stream_answer};
use crate::support::{Front, Stand};

#[tokio::test(flavor = "multi_thread")]
async fn lines_that_are_no_messages_are_answered_and_skipped() {
    let stand = Stand::start(|heard, _| json_answer(200, "", &result_of(heard, "{}"))).await;
    let mut front = Front::start(&mut command_to(&stand));
    front.say("");
    front.say("what is this?");
    front.say(&format!("\"{}\"", "x".repeat(5 << 20)));
    front.say(r#"{"jsonrpc":"2.0","id":3,"method":"ping","params":[]}"#);
    for (id, code) in [(Value::Null, -32700), (Value::Null, -32600), (json!(3), -32600)] {
        let answer = front.hear().await;
        assert_eq!(
            (&answer["id"], &answer["error"]["code"]),
            (&id, &json!(code)),
            "{answer}"
        );
    }
    assert_eq!(front.exchange(1, "ping", json!({})).await["result"], json!({}));
    assert_eq!(stand.heard().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_by_status_become_errors_with_the_requests_id() {
    let stand = Stand::start(|heard, _| match heard.method() {
        "own" => json_answer(
            400,
            "",
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32022,"message":"no","data":{"a":1e2}}}"#,
        ),
        "gone" => vec![Step::Close],
        "cut" => vec![stream_answer("data: {\"jsonrpc\""), Step::Close],
        "empty" => json_answer(202, "", "").into_iter().chain([Step::Close]).collect(),
        status => json_answer(status.parse().unwrap(), "", "<html>"),
    })
    .await;
    let mut front = Front::start(&mut command_to(&stand));
    front.ask("i", "own", json!({}));
    assert_eq!(
        front.line().await,
        r#"{"jsonrpc":"2.0","id":"i","error":{"code":-32022,"message":"no","data":{"a":1e2}}}"#
    );
    for (method, says) in [
        ("401", "token"),
        ("403", "allowed_hosts"),
        ("404", "--server"),
        ("413", "max_bytes"),
        ("503", "later"),
        ("502", "log"),
        ("gone", "unknown"),
        ("cut", "unknown"),
        ("empty", "no answer"),
    ] {
        let answer = front.exchange(1.5, method, json!({})).await;
        assert_eq!(answer["error"]["code"], -32603, "{method}: {answer}");
        assert!(
            answer["error"]["message"].as_str().unwrap().contains(says),
            "{method}: {answer}"
        );
    }
    let left = front.leave().await;
    assert!(left.lines.is_empty() && !left.stderr.contains("secret"), "{left:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_does_not_come_is_given_up_after_a_while() {
    // Bound and not listening: nobody answers there, and nobody else can take it meanwhile.
    let reserved = tokio::net::TcpSocket::new_v4().unwrap();
    reserved.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let nobody = reserved.local_addr().unwrap();
    let mut command = Front::command();
    command
        .env("PORTREEVE_URL", format!("http://{nobody}/mcp"))
        .env("PORTREEVE_TOKEN", "secret");
    let mut front = Front::start(&mut command);
    let began = Instant::now();
    let answer = front.exchange(1, "ping", json!({})).await;
    assert_eq!(answer["error"]["code"], -32603);
    assert!(
        answer["error"]["message"].as_str().unwrap().contains("portreeve serve"),
        "{answer}"
    );
    let waited = began.elapsed();
    assert!(
        (Duration::from_secs(4)..Duration::from_secs(10)).contains(&waited),
        "{waited:?}"
    );
    assert_eq!(front.leave().await.code, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_call_that_gets_no_answer_stays_without_one() {
    let stand = Stand::start(|heard, number| match (heard.verb.as_str(), heard.method()) {
        ("POST", "initialize") => open_session(heard, number),
        ("POST", "tools/call") => vec![
            stream_answer(": begun\n\n"),
            Step::Wait(Duration::from_millis(800)),
            Step::Close,
        ],
        ("GET", _) => json_answer(405, "", ""),
        _ => json_answer(202, "", ""),
    })
    .await;
    let mut front = Front::start(&mut command_to(&stand));
    front.open().await;
    front.ask(1, "tools/call", json!({"name": "x"}));
    front.tell("notifications/cancelled", json!({"requestId": 1}));
    let left = front.leave().await;
    assert_eq!((left.code, left.lines.len()), (Some(0), 0), "{left:?}");
    assert_eq!(stand.heard_of("notifications/cancelled").len(), 1);
}
