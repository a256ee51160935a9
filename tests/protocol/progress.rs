//! Progress and logs: to the one who asked, under the token it gave, and to nobody else.

use serde_json::{Value, json};

use crate::support::peer::ran;
use crate::support::{Beat, Harbour, Speaks, Turn};

fn tell(method: &str, params: &str) -> Beat {
    Beat::Tell(format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#))
}

fn working() -> Turn {
    Turn::Stream(vec![
        tell(
            "notifications/progress",
            r#"{"progressToken":$token,"progress":1e0 ,"x":-0}"#,
        ),
        tell(
            "notifications/progress",
            r#"{"progressToken":987654321,"progress":666}"#,
        ),
        Beat::result(&ran("work")),
        tell("notifications/progress", r#"{"progressToken":$token,"progress":668}"#),
    ])
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_comes_back_under_the_clients_own_token_as_it_was_spelled() {
    // R011
    for server in [Speaks::Legacy, Speaks::Modern] {
        let harbour = Harbour::with(server, &["work"], |setup| setup).await;
        harbour.peer.always("work", working());
        let agent = harbour.agent("ann").await;
        let modern = harbour.modern("ann");
        for token in [r#""a\u0062c""#, "7", "1e2", "12345678901234567890123", r#""""#] {
            let params = format!(r#"{{"name":"work","_meta":{{"progressToken":{token}}}}}"#);
            let legacy = agent
                .send(format!(
                    r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#
                ))
                .await;
            let body = modern.body("tools/call", json!({"name": "work"})).to_string();
            let body = body.replacen("\"_meta\":{", &format!("\"_meta\":{{\"progressToken\":{token},"), 1);
            let ask = modern.ask_raw("tools/call", body).header("Mcp-Name", "work");
            let without = modern.submit(ask).await;
            for answer in [legacy, without] {
                let text = answer.text();
                assert!(
                    text.contains(&format!(r#"{{"progressToken":{token},"progress":1e0 ,"x":-0}}"#)),
                    "{text}"
                );
                assert!(!text.contains("66"), "of another token, or after the result: {text}");
                assert_eq!(answer.messages().len(), 2, "{text}");
            }
        }
        let sent = harbour.peer.asked("tools/call");
        let tokens: Vec<Value> = sent
            .iter()
            .map(|call| call.json()["params"]["_meta"]["progressToken"].clone())
            .collect();
        assert!(
            tokens.iter().all(Value::is_u64),
            "the server's tokens are the gateway's own: {tokens:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_progress_is_asked_for_and_none_is_heard_where_the_client_wants_none() {
    for server in [Speaks::Legacy, Speaks::Modern] {
        let harbour = Harbour::with(server, &["work"], |setup| setup).await;
        harbour.peer.always("work", working());
        let legacy = harbour.agent("ann").await.call("work", json!({})).await;
        let modern = harbour.modern("ann").call("work", json!({})).await;
        for answer in [legacy, modern] {
            assert_eq!(answer.messages().len(), 1, "{}", answer.text());
        }
        for call in harbour.peer.asked("tools/call") {
            assert_eq!(call.json()["params"]["_meta"].get("progressToken"), None);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_modern_client_hears_logs_from_the_level_on_that_it_asked_for() {
    for server in [Speaks::Legacy, Speaks::Modern] {
        let harbour = Harbour::with(server, &["work"], |setup| setup).await;
        let log = |level: &str| Beat::notify("notifications/message", &json!({"level": level, "data": level}));
        let beats = vec![log("debug"), log("info"), log("error"), Beat::result(&ran("work"))];
        harbour.peer.always("work", Turn::Stream(beats));
        for (wanted, heard) in [
            (Some("info"), 2),
            (None, 0),
            (Some("debug"), 3),
            (Some("emergency"), 0),
            (None, 0),
        ] {
            let meta = wanted.map_or(json!({}), |level| json!({"io.modelcontextprotocol/logLevel": level}));
            let answer = harbour.modern("ann").saying(meta).call("work", json!({})).await;
            assert_eq!(answer.messages().len(), heard + 1, "{wanted:?}: {}", answer.text());
        }
        let levels = harbour.peer.asked("logging/setLevel");
        assert_eq!(
            levels.is_empty(),
            server == Speaks::Modern,
            "a legacy server has to be told"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_level_of_one_session_is_not_that_of_another() {
    // R108
    let harbour = Harbour::with(Speaks::Legacy, &["work"], |setup| setup).await;
    let log = |level: &str| Beat::notify("notifications/message", &json!({"level": level, "data": level}));
    let beats = vec![log("debug"), log("error"), Beat::result(&ran("work"))];
    harbour.peer.always("work", Turn::Stream(beats));
    let (ann, bob) = (harbour.agent("ann").await, harbour.agent("bob").await);
    assert_eq!(
        ann.request("logging/setLevel", json!({"level": "error"}))
            .await
            .result(),
        json!({})
    );
    assert_eq!(
        ann.request("logging/setLevel", json!({"level": "loud"}))
            .await
            .error_code(),
        -32602
    );
    assert_eq!(ann.call("work", json!({})).await.messages().len(), 2);
    assert_eq!(bob.call("work", json!({})).await.messages().len(), 3);
    let set = harbour.peer.asked("logging/setLevel");
    assert_eq!(set.len(), 1);
    let calls = harbour.peer.asked("tools/call");
    assert_eq!(
        set[0].headers.get("mcp-session-id"),
        calls[0].headers.get("mcp-session-id")
    );
    assert_ne!(
        calls[0].headers.get("mcp-session-id"),
        calls[1].headers.get("mcp-session-id")
    );
}
