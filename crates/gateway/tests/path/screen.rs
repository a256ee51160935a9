//! What a server sends is screened before it is released, and every decision about it is on record first.

use serde_json::json;

use super::ending::{Ending, Told};
use super::scripted_server::Act;
use super::setup::{SECRET, Setup, secret_result};

async fn called(setup: Setup, tool: &str, act: Act) -> Ending {
    let path = setup.start().await;
    path.server.on_call(act);
    let client = path.client().await;
    let ending = path.end(client.call(tool, "{}")).await;
    assert_eq!(path.server.calls().len(), 1);
    let said = format!("{}{:?}", ending.answer.text(), ending.records);
    assert!(!said.contains(SECRET), "{said}");
    ending
}

/// The one decision of the chokepoint stands before the receipt it belongs to.
fn assert_decided(ending: &Ending, status: &str) {
    let decided = ending.of_type("policy_decision");
    assert_eq!(decided.len(), 1, "{:?}", ending.records);
    assert_eq!(decided[0]["status"], status);
    assert_eq!(decided[0]["receipt_id"], ending.receipt()["receipt_id"]);
    assert!(decided[0]["seq"].as_u64() < ending.receipt()["seq"].as_u64());
    assert_eq!(ending.receipt()["outcome"]["screening"], json!([status]));
}

fn assert_withheld(ending: &Ending, reason: &str) {
    ending.assert_told(200, Told::Result, "allow", &[reason]);
    ending.assert_recorded("allow", &["ALLOW_POLICY_MATCH", reason]);
    ending.assert_outcome("error", Some(true));
    assert_eq!(ending.answer.decision()["receipt_id"], ending.receipt()["receipt_id"]);
    assert_decided(ending, "blocked");
}

#[tokio::test]
async fn a_result_against_its_schema_is_withheld_where_that_is_strict() {
    let result = r#"{"content":[],"structuredContent":{"n":"never say this aloud"}}"#;
    let ending = called(Setup::strict(), "typed", Act::Result(result.to_owned())).await;
    assert_withheld(&ending, "WITHHELD_SCHEMA");
    assert!(!ending.answer.text().contains("aloud"));
}

#[tokio::test]
async fn a_result_that_fits_its_schema_passes_where_that_is_strict() {
    let result = r#"{"content":[],"structuredContent":{"n":1}}"#;
    let ending = called(Setup::strict(), "typed", Act::Result(result.to_owned())).await;
    assert_eq!(
        ending.answer.text(),
        format!(r#"{{"jsonrpc":"2.0","id":7,"result":{result}}}"#)
    );
    assert_eq!(ending.records.len(), 1);
}

#[tokio::test]
async fn a_secret_withholds_the_result_where_secrets_block() {
    let ending = called(Setup::blocking(), "read", Act::Result(secret_result())).await;
    assert_withheld(&ending, "WITHHELD_SANITISATION");
}

#[tokio::test]
async fn a_secret_is_masked_where_secrets_are_redacted() {
    let ending = called(Setup::redacting(), "read", Act::Result(secret_result())).await;
    let text = ending.answer.json()["result"]["content"][0]["text"].clone();
    assert!(text.as_str().unwrap().starts_with("token [REDACTED"), "{text}");
    ending.assert_recorded("allow", &["ALLOW_POLICY_MATCH"]);
    ending.assert_outcome("success", Some(true));
    assert_decided(&ending, "redacted");
}
