//! What the gateway answers or refuses by itself: sessions, lists, batches, notifications, both eras.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::client::{META, ask, call, message, modern, modern_call, post, with};
use super::ending::Told;
use super::setup::{Running, Setup};

fn assert_untouched(path: &Running) {
    assert!(path.server.seen().is_empty(), "the server got {:?}", path.server.seen());
}

#[tokio::test]
async fn ping_is_answered_here() {
    let path = Setup::legacy().start().await;
    let client = path.client().await;
    let ending = path.end(client.post(message("ping", "{}"))).await;
    assert_eq!(ending.answer.text(), r#"{"jsonrpc":"2.0","id":7,"result":{}}"#);
    ending.assert_recorded("allow", &["ALLOW_BUILTIN"]);
    assert_eq!(ending.receipt()["outcome"]["size_bytes_out"], ending.answer.body.len());
    assert_untouched(&path);
}

#[tokio::test]
async fn a_list_shows_what_may_be_called_and_its_receipt_says_what_was_shown() {
    let path = Setup::legacy().start().await;
    let client = path.client().await;
    let ending = path.end(client.post(message("tools/list", "{}"))).await;
    let tools = &ending.answer.json()["result"]["tools"];
    let names: Vec<&Value> = tools.as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names, ["guarded", "read", "typed", "write"]);
    ending.assert_recorded("allow", &["ALLOW_BUILTIN"]);
    assert!(
        ending.receipt()["catalog_hash"]
            .as_str()
            .unwrap()
            .starts_with("sha256:")
    );
    assert_untouched(&path);
}

#[tokio::test]
async fn a_modern_list_is_the_same_list_under_federated_names() {
    let path = Setup::modern().start().await;
    let mut request = modern("tools/list", &format!("{{{META}}}"));
    *request.uri_mut() = "/mcp".parse().unwrap();
    let ending = path.end(request).await;
    let result = &ending.answer.json()["result"];
    assert_eq!(result["tools"][0]["name"], "files__guarded");
    assert_eq!(
        (&result["resultType"], &result["cacheScope"]),
        (&json!("complete"), &json!("private"))
    );
    assert_eq!(ending.receipt()["mcp"]["server_id"], "*");
}

#[tokio::test]
async fn a_request_outside_any_session_is_refused() {
    let path = Setup::legacy().start().await;
    let ending = path.end(post(call("read", "{}"))).await;
    ending.assert_refused(400, Told::Error(-32600), "DENY_MALFORMED");
    assert_eq!(ending.answer.json()["id"], 7);
    let stale = with(post(call("read", "{}")), "mcp-session-id", Some("unknown"));
    path.end(stale)
        .await
        .assert_refused(404, Told::Error(-32600), "DENY_MALFORMED");
    assert_untouched(&path);
}

#[tokio::test]
async fn a_modern_request_that_says_too_little_or_two_things_is_refused() {
    let path = Setup::modern().start().await;
    let silent = modern("tools/list", "{}");
    path.end(silent)
        .await
        .assert_refused(400, Told::Error(-32602), "DENY_MALFORMED");
    let disguised = with(modern_call("read", "{}"), "mcp-name", Some("write"));
    path.end(disguised)
        .await
        .assert_refused(400, Told::Error(-32020), "DENY_MALFORMED");
    let meta = META.replace("2026-07-28", "2031-01-01");
    let future = with(
        modern("tools/list", &format!("{{{meta}}}")),
        "mcp-protocol-version",
        Some("2031-01-01"),
    );
    let ending = path.end(future).await;
    ending.assert_refused(400, Told::Error(-32022), "DENY_MALFORMED");
    assert_eq!(ending.answer.decision()["supported"], json!(["2026-07-28"]));
    assert_untouched(&path);
}

#[tokio::test]
async fn a_method_that_is_not_offered_is_refused_in_the_manner_of_its_era() {
    let path = Setup::legacy().start().await;
    let client = path.client().await;
    let ending = path.end(client.post(message("no/such", "{}"))).await;
    ending.assert_refused(200, Told::Error(-32601), "DENY_MALFORMED");
    assert_eq!(ending.receipt()["mcp"]["method"], "no/such");
    let ending = path.end(modern("no/such", &format!("{{{META}}}"))).await;
    ending.assert_refused(404, Told::Error(-32601), "DENY_MALFORMED");
    assert_untouched(&path);
}

#[tokio::test]
async fn a_notification_is_taken_without_a_record_and_refused_with_one() {
    let path = Setup::legacy().start().await;
    let client = path.client().await;
    let notification = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    let ending = path.end(client.post(notification)).await;
    assert_eq!((ending.answer.status, ending.answer.text()), (StatusCode::ACCEPTED, ""));
    assert_eq!(ending.records, Vec::<Value>::new());
    let ending = path.end(post(notification)).await;
    ending.assert_refused(400, Told::Error(-32600), "DENY_MALFORMED");
    assert_eq!(ending.receipt()["mcp"]["method"], "notifications/initialized");
}

#[tokio::test]
async fn an_answer_to_nothing_is_refused() {
    let path = Setup::legacy().start().await;
    let client = path.client().await;
    let ending = path.end(client.post(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#)).await;
    ending.assert_refused(400, Told::Error(-32600), "DENY_MALFORMED");
}

#[tokio::test]
async fn delete_ends_the_session_once() {
    let path = Setup::legacy().start().await;
    let client = path.client().await;
    let delete = || client.within(ask(Method::DELETE, "/mcp/files", ""));
    let ending = path.end(delete()).await;
    assert_eq!(
        (ending.answer.status, ending.answer.text()),
        (StatusCode::NO_CONTENT, "")
    );
    ending.assert_recorded("allow", &["ALLOW_BUILTIN"]);
    path.end(delete())
        .await
        .assert_refused(404, Told::Error(-32600), "DENY_MALFORMED");
    path.end(client.post(message("ping", "{}")))
        .await
        .assert_refused(404, Told::Error(-32600), "DENY_MALFORMED");
}

#[tokio::test]
async fn each_request_of_a_batch_has_a_record_and_an_answer_of_its_own() {
    let path = Setup::legacy().start().await;
    let client = path.client_speaking("2025-03-26").await;
    let notification = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    let members = [
        call("read", "{}"),
        notification.to_owned(),
        call("hidden", "{}"),
        message("ping", "{}"),
    ];
    let ending = path.end(client.post(format!("[{}]", members.join(",")))).await;
    let answers = ending.answer.json();
    assert_eq!(answers[0]["result"]["content"][0]["text"], "done", "{answers}");
    assert_eq!(answers[1]["error"]["code"], -32602);
    assert_eq!(answers[2]["result"], json!({}));
    assert_eq!(answers.as_array().unwrap().len(), 3);
    let decided = ending
        .records
        .iter()
        .map(|record| &record["decision"]["reason_codes"][0]);
    assert_eq!(
        decided.collect::<Vec<_>>(),
        ["ALLOW_POLICY_MATCH", "DENY_NO_PERMISSION", "ALLOW_BUILTIN"]
    );
    assert_eq!(
        answers[1]["error"]["data"]["receipt_id"],
        ending.records[1]["receipt_id"]
    );
    assert_eq!(path.server.calls().len(), 1);
}

#[tokio::test]
async fn a_batch_is_no_message_of_any_other_version() {
    let path = Setup::legacy().start().await;
    let client = path.client().await;
    let ending = path.end(client.post(format!("[{}]", message("ping", "{}")))).await;
    ending.assert_refused(400, Told::Error(-32600), "DENY_MALFORMED");
}
