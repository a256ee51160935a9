//! Arguments are checked before any policy is asked; what is wrong is told in a way that a model can act on.

use super::client::message;
use super::ending::Told;
use super::setup::{Running, SECRET, Setup};

async fn assert_arguments_refused(path: &Running, arguments: &str, reason: &str) {
    let client = path.client().await;
    let ending = path.end(client.call("read", arguments)).await;
    ending.assert_refused(200, Told::Result, reason);
    let receipt = ending.receipt();
    assert_eq!(receipt["decision"]["policy_id"], "builtin:preflight");
    assert_eq!(receipt["mcp"]["tool_name"], "read");
    assert!(path.server.seen().is_empty(), "the server got something");
}

#[tokio::test]
async fn arguments_against_the_schema_are_refused() {
    let path = Setup::legacy().start().await;
    assert_arguments_refused(&path, r#"{"text":1}"#, "DENY_SCHEMA_VIOLATION").await;
}

#[tokio::test]
async fn arguments_the_schema_does_not_know_are_refused() {
    let path = Setup::legacy().start().await;
    assert_arguments_refused(&path, r#"{"other":1}"#, "DENY_UNKNOWN_FIELDS").await;
}

#[tokio::test]
async fn arguments_beyond_the_limits_are_refused() {
    let path = Setup::legacy().start().await;
    let long = format!(r#"{{"text":"{}"}}"#, "x".repeat(3_000));
    assert_arguments_refused(&path, &long, "DENY_PAYLOAD_TOO_LARGE").await;
}

#[tokio::test]
async fn arguments_with_one_name_twice_are_refused() {
    let path = Setup::legacy().start().await;
    assert_arguments_refused(&path, r#"{"text":"a","text":"b"}"#, "DENY_DUPLICATE_KEY").await;
}

#[tokio::test]
async fn what_stands_beside_the_arguments_keeps_to_the_same_limits() {
    let path = Setup::legacy().start().await;
    let client = path.client().await;
    let params = format!(r#"{{"name":"read","arguments":{{}},"beside":"{}"}}"#, "x".repeat(3_000));
    let ending = path.end(client.post(message("tools/call", &params))).await;
    ending.assert_refused(200, Told::Error(-32602), "DENY_MALFORMED");
    assert!(path.server.seen().is_empty());
}

#[tokio::test]
async fn a_secret_in_arguments_is_recorded_and_refused_and_stands_nowhere() {
    let path = Setup::refusing_secrets().start().await;
    let client = path.client().await;
    let ending = path
        .end(client.call("read", &format!(r#"{{"text":"{SECRET}"}}"#)))
        .await;
    ending.assert_told(200, Told::Result, "deny", &["DENY_SECRET_IN_ARGUMENTS"]);
    ending.assert_recorded("deny", &["DENY_SECRET_IN_ARGUMENTS"]);
    let screening = ending.of_type("policy_decision");
    assert_eq!(screening.len(), 1, "{:?}", ending.records);
    assert_eq!(screening[0]["receipt_id"], ending.receipt()["receipt_id"]);
    assert!(
        screening[0]["seq"].as_u64() < ending.receipt()["seq"].as_u64(),
        "recorded first"
    );
    let said = format!("{:?}{}", ending.records, ending.answer.text());
    assert!(!said.contains(SECRET), "{said}");
    assert!(path.server.seen().is_empty());
}
