//! What cannot be read is refused by its head or its first bytes, with one record that names the principal.

use http::{Method, StatusCode};

use super::client::{ask, message, post, with};
use super::ending::Told;
use super::setup::Setup;

#[tokio::test]
async fn a_body_that_is_no_message_is_refused() {
    let path = Setup::legacy().start().await;
    for (body, code, reason) in [
        (r#"{"jsonrpc":"#, -32700, "DENY_MALFORMED"),
        ("\u{feff}{}", -32700, "DENY_MALFORMED"),
        (r#"{"jsonrpc":"2.0","id":1}"#, -32600, "DENY_MALFORMED"),
        (
            r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#,
            -32600,
            "DENY_DUPLICATE_KEY",
        ),
        ("[]", -32600, "DENY_MALFORMED"),
    ] {
        let ending = path.end(post(body)).await;
        ending.assert_refused(400, Told::Error(code), reason);
        let receipt = ending.receipt();
        assert_eq!(receipt["principal"]["sub"], "ann");
        assert_eq!(receipt["request"]["size_bytes_in"], body.len());
    }
}

#[tokio::test]
async fn a_body_that_is_nested_too_deeply_is_refused() {
    let path = Setup::legacy().start().await;
    let body = message("ping", &format!(r#"{{"a":{}{}}}"#, "[".repeat(80), "]".repeat(80)));
    let ending = path.end(post(body)).await;
    ending.assert_refused(400, Told::Error(-32600), "DENY_MALFORMED");
}

#[tokio::test]
async fn a_body_larger_than_the_limit_is_refused() {
    let path = Setup::legacy().start().await;
    let ending = path.end(post(" ".repeat(20_001))).await;
    ending.assert_refused(413, Told::Error(-32600), "DENY_PAYLOAD_TOO_LARGE");
}

#[tokio::test]
async fn a_body_of_another_type_or_for_nobody_is_refused() {
    let path = Setup::legacy().start().await;
    for (name, value, status) in [
        ("content-type", "text/plain", 415),
        ("content-encoding", "gzip", 415),
        ("accept", "text/html", 406),
    ] {
        let ending = path.end(with(post(message("ping", "{}")), name, Some(value))).await;
        ending.assert_refused(status, Told::Error(-32600), "DENY_MALFORMED");
    }
}

#[tokio::test]
async fn another_verb_is_refused_and_told_which_there_are() {
    let path = Setup::legacy().start().await;
    let ending = path.end(ask(Method::PUT, "/mcp/files", message("ping", "{}"))).await;
    ending.assert_refused(405, Told::Error(-32600), "DENY_MALFORMED");
    assert_eq!(ending.answer.headers["allow"], "POST, GET, DELETE");
}

#[tokio::test]
async fn head_gets_the_head_alone_and_a_record() {
    let path = Setup::legacy().start().await;
    let ending = path.end(ask(Method::HEAD, "/mcp/files", "")).await;
    assert_eq!(ending.answer.status, StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(ending.answer.text(), "");
    ending.assert_recorded("deny", &["DENY_MALFORMED"]);
    assert_eq!(ending.receipt()["outcome"]["size_bytes_out"], 0);
}

#[tokio::test]
async fn an_address_with_nothing_at_it_is_refused_to_whoever_is_known() {
    let path = Setup::legacy().start().await;
    let ending = path.end(ask(Method::POST, "/nowhere", message("ping", "{}"))).await;
    ending.assert_refused(404, Told::Error(-32600), "DENY_MALFORMED");
    let stranger = with(ask(Method::POST, "/nowhere", ""), "authorization", None);
    path.end(stranger)
        .await
        .assert_refused(401, Told::Error(-32600), "DENY_NO_AUTHN");
}
