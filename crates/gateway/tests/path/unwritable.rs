//! The log cannot be written: at each place where that is found out, nothing is done or released that is not on record.

use http::Method;
use serde_json::{Value, json};

use super::client::{ask, message, modern_call, post, with};
use super::ending::Told;
use super::scripted_server::{Act, Speaks, honest_result};
use super::setup::{Running, SECRET, Setup, secret_result};

const UNAVAILABLE: &str = "DENY_RECEIPT_UNAVAILABLE";

/// The disk becomes full while the call is at its server, which then answers.
fn fill_disk_at_call(path: &Running, result: &str) {
    let (limit, act) = (path.disk.limit(), Act::Result(result.to_owned()));
    path.server.on_call_with(move || {
        limit.fill();
        act.clone()
    });
}

#[tokio::test]
async fn a_call_is_not_sent_while_the_log_is_known_to_be_down() {
    let path = Setup::legacy().start().await;
    let client = path.client().await;
    path.disk.fill();
    path.end(client.post(message("ping", "{}")))
        .await
        .assert_withheld_without_receipt(200);
    for tool in ["read", "write"] {
        let ending = path.end(client.call(tool, "{}")).await;
        ending.assert_withheld_without_receipt(200);
        assert_eq!(ending.answer.json()["id"], 7);
    }
    path.end(modern_call("read", "{}"))
        .await
        .assert_withheld_without_receipt(200);
    assert!(path.server.seen().is_empty(), "the server got something");
}

#[tokio::test]
async fn a_risky_call_is_not_sent_when_its_intent_cannot_be_written() {
    let path = Setup::legacy().start().await;
    let client = path.client().await;
    path.disk.fill();
    assert!(path.ledger.is_healthy(), "nobody knows yet");
    path.end(client.call("write", "{}"))
        .await
        .assert_withheld_without_receipt(200);
    assert!(path.server.seen().is_empty(), "the server got something");
}

#[tokio::test]
async fn the_refusal_for_an_unwritten_intent_is_recorded_when_there_is_room_again() {
    let path = Setup::legacy().start().await;
    let client = path.client().await;
    path.disk.fill();
    path.disk.free_at_failure();
    let ending = path.end(client.call("write", "{}")).await;
    ending.assert_told(200, Told::Error(-32603), "deny", &[UNAVAILABLE]);
    ending.assert_recorded("deny", &[UNAVAILABLE]);
    ending.assert_outcome("error", Some(false));
    assert_eq!(ending.answer.decision()["receipt_id"], ending.receipt()["receipt_id"]);
    assert_eq!(ending.of_type("admin")[0]["action"], "ledger.resume");
    assert!(path.server.seen().is_empty(), "the server got something");
    path.assert_log_verifies();
}

#[tokio::test]
async fn an_answer_is_withheld_when_its_record_cannot_be_written() {
    let path = Setup::legacy().start().await;
    let client = path.client().await;
    fill_disk_at_call(&path, r#"{"content":[{"type":"text","text":"never say this aloud"}]}"#);
    let ending = path.end(client.call("read", "{}")).await;
    ending.assert_withheld_without_receipt(200);
    assert!(!ending.answer.text().contains("aloud"));
    assert_eq!(path.server.calls().len(), 1);
}

#[tokio::test]
async fn a_modern_answer_is_withheld_when_its_record_cannot_be_written() {
    let path = Setup::modern().start().await;
    fill_disk_at_call(&path, &honest_result(Speaks::Modern));
    path.end(modern_call("read", "{}"))
        .await
        .assert_withheld_without_receipt(200);
    assert_eq!(path.server.calls().len(), 1);
}

#[tokio::test]
async fn a_risky_answer_that_was_withheld_is_told_in_the_log_when_there_is_room_again() {
    let path = Setup::legacy().start().await;
    let client = path.client().await;
    fill_disk_at_call(&path, &honest_result(Speaks::Legacy));
    let ending = path.end(client.call("write", "{}")).await;
    ending.assert_told(200, Told::Error(-32603), "deny", &[UNAVAILABLE]);
    assert_eq!(ending.answer.decision()["receipt_id"], Value::Null);
    let [intent] = ending.records.as_slice() else {
        panic!("not the intent alone: {:?}", ending.records)
    };
    path.disk.free();
    path.end(client.post(message("ping", "{}"))).await;
    let is_owed = |record: &&Value| record["receipt_id"] == intent["receipt_id"] && record["phase"] == "final";
    let records = path.records();
    let owed = records.iter().find(is_owed).unwrap();
    assert_eq!(
        owed["decision"]["reason_codes"],
        json!(["ALLOW_POLICY_MATCH", UNAVAILABLE])
    );
    assert_eq!(
        (&owed["outcome"]["status"], &owed["outcome"]["executed"]),
        (&json!("error"), &json!(true))
    );
    assert_eq!(owed["outcome"]["size_bytes_out"], 0);
    path.assert_log_verifies();
}

#[tokio::test]
async fn a_result_is_withheld_when_what_was_decided_about_it_cannot_be_recorded() {
    let path = Setup::redacting().start().await;
    let client = path.client().await;
    fill_disk_at_call(&path, &secret_result());
    path.end(client.call("read", "{}"))
        .await
        .assert_withheld_without_receipt(200);
}

// Here everything but the decision can be recorded: that alone is reason enough.
#[tokio::test]
async fn a_result_is_withheld_although_its_receipt_can_be_written() {
    let path = Setup::redacting().start().await;
    let client = path.client().await;
    fill_disk_at_call(&path, &secret_result());
    path.disk.free_at_failure();
    let ending = path.end(client.call("read", "{}")).await;
    ending.assert_told(200, Told::Result, "allow", &[UNAVAILABLE]);
    assert!(!ending.answer.text().contains("REDACTED"), "{}", ending.answer.text());
    ending.assert_recorded("allow", &["ALLOW_POLICY_MATCH", UNAVAILABLE]);
    ending.assert_outcome("error", Some(true));
    assert!(ending.of_type("policy_decision").is_empty());
    path.assert_log_verifies();
}

#[tokio::test]
async fn a_call_with_a_secret_is_refused_when_that_cannot_be_recorded() {
    let path = Setup::refusing_secrets().start().await;
    let client = path.client().await;
    path.disk.fill();
    let with_secret = client.call("read", &format!(r#"{{"text":"{SECRET}"}}"#));
    path.end(with_secret).await.assert_withheld_without_receipt(200);
    assert!(path.server.seen().is_empty(), "the server got something");
}

// A call that would be let through, with a record of the secret: without the record it is not.
#[tokio::test]
async fn a_call_whose_secret_is_only_to_be_recorded_is_refused_without_the_record() {
    let path = Setup::recording_secrets().start().await;
    let client = path.client().await;
    let with_secret = || client.call("write", &format!(r#"{{"text":"{SECRET}"}}"#));
    let ending = path.end(with_secret()).await;
    assert_eq!(ending.of_type("policy_decision").len(), 1);
    ending.assert_outcome("success", Some(true));
    let before = path.server.calls().len();
    path.disk.fill();
    path.disk.free_at_failure();
    let ending = path.end(with_secret()).await;
    ending.assert_told(200, Told::Error(-32603), "deny", &[UNAVAILABLE]);
    ending.assert_recorded("deny", &[UNAVAILABLE]);
    assert_eq!(path.server.calls().len(), before, "the server was called");
}

#[tokio::test]
async fn a_refusal_that_cannot_be_recorded_says_nothing_of_its_reason() {
    let path = Setup::legacy().start().await;
    let client = path.client().await;
    path.disk.fill();
    for (request, status) in [
        (client.call("nothing", "{}"), 200),
        (client.call("read", r#"{"other":1}"#), 200),
        (client.call("read", r#"{"amount":9}"#), 200),
        (post(r#"{"jsonrpc":"#), 400),
        (ask(Method::POST, "/nowhere", "{}"), 404),
        (with(post("{}"), "authorization", None), 401),
    ] {
        path.end(request).await.assert_withheld_without_receipt(status);
    }
}

#[tokio::test]
async fn a_list_and_a_session_are_not_given_out_without_a_record() {
    let path = Setup::legacy().start().await;
    let client = path.client().await;
    path.disk.fill();
    let ending = path.end(client.post(message("tools/list", "{}"))).await;
    ending.assert_withheld_without_receipt(200);
    let initialize = r#"{"protocolVersion":"2025-11-25","capabilities":{}}"#;
    let ending = path.end(post(message("initialize", initialize))).await;
    ending.assert_withheld_without_receipt(200);
    assert!(!ending.answer.headers.contains_key("mcp-session-id"));
}

#[tokio::test]
async fn no_success_is_told_and_no_head_is_bent_while_nothing_can_be_recorded() {
    let path = Setup::legacy().start().await;
    let client = path.client().await;
    path.disk.fill();
    let ending = path.end(client.within(ask(Method::DELETE, "/mcp", ""))).await;
    ending.assert_withheld_without_receipt(503);
    let ending = path.end(with(post("{}"), "authorization", None)).await;
    ending.assert_withheld_without_receipt(401);
    assert!(ending.answer.headers.contains_key("www-authenticate"));
    let ending = path.end(client.within(ask(Method::HEAD, "/mcp", ""))).await;
    assert_eq!((ending.answer.status.as_u16(), ending.answer.text()), (405, ""));
}
