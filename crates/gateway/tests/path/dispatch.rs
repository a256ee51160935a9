//! What is allowed goes to its server as it was checked, and what comes back reaches the client as it came.

use serde_json::json;

use super::client::{call, modern_call};
use super::scripted_server::{Act, Speaks};
use super::setup::{Running, Setup, TOKEN};

/// Spelled as nobody would: whoever reads and writes it again gives himself away.
const ARGUMENTS: &str = r#"{ "amount" :2 ,"text" : "\u0041\/é" }"#;
const LEGACY_RESULT: &str = r#"{ "isError" : false,"content":[ {"text":"\u0042\/ö","type":"text"} ] , "x":1.0E+2 }"#;
const MODERN_RESULT: &str =
    r#"{ "content":[ {"text":"\u0042\/ö","type":"text"} ] , "resultType":"complete", "x":1.0E+2 }"#;

fn assert_arguments_arrived(path: &Running) {
    let calls = path.server.calls();
    assert_eq!(calls.len(), 1);
    let sent = calls[0].text();
    assert!(sent.contains(&format!(r#""arguments":{ARGUMENTS}"#)), "{sent}");
    let headers = format!("{:?}", calls[0].headers);
    assert!(
        !headers.contains(TOKEN) && !headers.contains("authorization"),
        "{headers}"
    );
}

#[tokio::test]
async fn between_two_legacy_parties_every_byte_stays() {
    let path = Setup::legacy().start().await;
    path.server.on_call(Act::Result(LEGACY_RESULT.to_owned()));
    let client = path.client().await;
    let odd_id = call("read", ARGUMENTS).replace(r#""id":7"#, r#""id":"\u0061""#);
    let ending = path.end(client.post(odd_id)).await;
    let whole = format!(r#"{{"jsonrpc":"2.0","id":"\u0061","result":{LEGACY_RESULT}}}"#);
    assert_eq!(ending.answer.text(), whole);
    assert_arguments_arrived(&path);
    ending.assert_recorded("allow", &["ALLOW_POLICY_MATCH"]);
    ending.assert_outcome("success", Some(true));
    assert_eq!(ending.records.len(), 1, "low risk leaves no intent");
    assert_eq!(ending.receipt()["mcp"]["era"], "legacy");
    assert_eq!(ending.receipt()["outcome"]["size_bytes_out"], whole.len());
}

#[tokio::test]
async fn between_two_modern_parties_every_byte_stays() {
    let path = Setup::modern().start().await;
    path.server.on_call(Act::Result(MODERN_RESULT.to_owned()));
    let ending = path.end(modern_call("read", ARGUMENTS)).await;
    let whole = format!(r#"{{"jsonrpc":"2.0","id":7,"result":{MODERN_RESULT}}}"#);
    assert_eq!(ending.answer.text(), whole);
    assert_arguments_arrived(&path);
    let headers = &path.server.calls()[0].headers;
    assert_eq!(headers["mcp-method"], "tools/call");
    assert_eq!(headers["mcp-name"], "read");
    ending.assert_recorded("allow", &["ALLOW_POLICY_MATCH"]);
    ending.assert_outcome("success", Some(true));
    assert_eq!(ending.receipt()["mcp"]["era"], "modern");
}

#[tokio::test]
async fn across_eras_a_call_is_answered_in_the_clients_own() {
    let path = Setup::legacy().start().await;
    let ending = path.end(modern_call("read", "{}")).await;
    assert_eq!(ending.answer.json()["result"]["resultType"], "complete");
    ending.assert_outcome("success", Some(true));
    let path = Setup::modern().start().await;
    let client = path.client().await;
    let ending = path.end(client.call("read", "{}")).await;
    assert_eq!(ending.answer.json()["result"]["content"][0]["text"], "done");
    ending.assert_outcome("success", Some(true));
}

// From medium risk on the intent stands in the log before the server hears of the call.
#[tokio::test]
async fn the_intent_of_a_risky_call_is_on_record_when_its_server_gets_it() {
    let path = Setup::legacy().start().await;
    let client = path.client().await;
    let reader = path.reader();
    let written = std::sync::Arc::new(std::sync::Mutex::new(String::new()));
    let kept = written.clone();
    path.server.on_call_with(move || {
        let lines = reader.lines_from(ledger::Position::START).unwrap();
        let last = lines.last().unwrap().unwrap().1;
        *kept.lock().unwrap() = String::from_utf8(last).unwrap();
        Act::Result(super::scripted_server::honest_result(Speaks::Legacy))
    });
    let ending = path.end(client.call("write", r#"{"text":"x"}"#)).await;
    let intent: serde_json::Value = serde_json::from_str(&written.lock().unwrap()).unwrap();
    assert_eq!(
        (&intent["phase"], &intent["mcp"]["tool_name"]),
        (&json!("intent"), &json!("write"))
    );
    assert_eq!(intent["receipt_id"], ending.receipt()["receipt_id"]);
    assert_eq!(intent["request"], ending.receipt()["request"]);
    assert_eq!(ending.records.len(), 2);
    assert_eq!(path.server.calls().len(), 1);
}
