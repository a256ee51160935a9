//! Which tool is meant: one answer for every tool that is out of sight, and the true reason in the log.

use super::client::{ask, call, message, modern_call};
use super::ending::Told;
use super::setup::Setup;

const UNKNOWN: Told = Told::Error(-32602);

#[tokio::test]
async fn unknown_hidden_and_quarantined_tools_get_one_answer_and_three_records() {
    let path = Setup::legacy().start().await;
    let client = path.client().await;
    for (tool, reason) in [
        ("nothing", "DENY_TOOL_NOT_FOUND"),
        ("hidden", "DENY_NO_PERMISSION"),
        ("waiting", "DENY_TOOL_QUARANTINED"),
    ] {
        let ending = path.end(client.call(tool, r#"{"text":"x"}"#)).await;
        ending.assert_told(200, UNKNOWN, "deny", &["DENY_TOOL_NOT_FOUND"]);
        assert_eq!(
            ending.answer.json()["error"]["message"],
            format!("Unknown tool: {tool}")
        );
        ending.assert_recorded("deny", &[reason]);
        let receipt = ending.receipt();
        assert_eq!(ending.answer.decision()["receipt_id"], receipt["receipt_id"]);
        assert_eq!(receipt["mcp"]["tool_name"], tool);
        assert!(receipt["request"]["args_hash"].is_string(), "{receipt}");
    }
    assert!(path.server.seen().is_empty());
}

#[tokio::test]
async fn a_modern_client_learns_no_more() {
    let path = Setup::modern().start().await;
    let ending = path.end(modern_call("waiting", "{}")).await;
    ending.assert_told(200, UNKNOWN, "deny", &["DENY_TOOL_NOT_FOUND"]);
    ending.assert_recorded("deny", &["DENY_TOOL_QUARANTINED"]);
    assert!(path.server.seen().is_empty());
}

#[tokio::test]
async fn a_name_without_a_server_is_none_on_the_federated_route() {
    let path = Setup::legacy().start().await;
    let client = path.client().await;
    for tool in ["read", "elsewhere__read"] {
        let request = client.within(ask(http::Method::POST, "/mcp", call(tool, "{}")));
        path.end(request)
            .await
            .assert_refused(200, UNKNOWN, "DENY_TOOL_NOT_FOUND");
    }
}

#[tokio::test]
async fn a_call_that_names_nothing_is_malformed() {
    let path = Setup::legacy().start().await;
    let client = path.client().await;
    let ending = path.end(client.post(message("tools/call", r#"{"name":7}"#))).await;
    ending.assert_refused(200, UNKNOWN, "DENY_MALFORMED");
}
