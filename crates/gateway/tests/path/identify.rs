//! Who calls: found out before anything else, and told apart in the log only.

use http::{Method, StatusCode};

use super::client::{ask, message, post, with};
use super::ending::Told;
use super::setup::{REVOKED, Setup, TOKEN};

#[tokio::test]
async fn a_request_without_a_credential_is_challenged_and_recorded() {
    let path = Setup::legacy().start().await;
    let ending = path.end(with(post(message("ping", "{}")), "authorization", None)).await;
    ending.assert_refused(401, Told::Error(-32600), "DENY_NO_AUTHN");
    assert_eq!(ending.receipt()["principal"]["sub"], "unauthenticated");
    let challenge = ending.answer.headers["www-authenticate"].to_str().unwrap();
    let document = "https://gateway.test/.well-known/oauth-protected-resource/mcp/files";
    assert_eq!(challenge, format!(r#"Bearer resource_metadata="{document}""#));
}

#[tokio::test]
async fn a_token_that_is_not_good_is_refused_for_what_it_is() {
    let path = Setup::legacy().start().await;
    for (credential, reason) in [
        ("Bearer ptr_agt_0000".to_owned(), "DENY_INVALID_TOKEN"),
        (format!("Basic {TOKEN}"), "DENY_INVALID_TOKEN"),
        ("Bearer ptr_adm_0000".to_owned(), "DENY_INVALID_TOKEN"),
        (format!("Bearer {REVOKED}"), "DENY_TOKEN_REVOKED"),
    ] {
        let ask = with(post(message("ping", "{}")), "authorization", Some(&credential));
        let ending = path.end(ask).await;
        ending.assert_refused(401, Told::Error(-32600), reason);
        let challenge = ending.answer.headers["www-authenticate"].to_str().unwrap();
        assert!(challenge.contains(r#"error="invalid_token""#), "{challenge}");
    }
}

#[tokio::test]
async fn a_token_in_the_query_is_refused_even_beside_a_good_one() {
    let path = Setup::legacy().start().await;
    let ask = ask(Method::POST, "/mcp/files?access_token=x", message("ping", "{}"));
    let ending = path.end(ask).await;
    ending.assert_refused(401, Told::Error(-32600), "DENY_INVALID_TOKEN");
}

#[tokio::test]
async fn a_request_to_another_host_or_from_a_foreign_page_is_refused() {
    let path = Setup::legacy().start().await;
    for (name, value) in [("host", "evil.example"), ("origin", "https://evil.example")] {
        let ending = path.end(with(post(message("ping", "{}")), name, Some(value))).await;
        ending.assert_refused(403, Told::Error(-32600), "DENY_ORIGIN");
    }
}

#[tokio::test]
async fn probes_need_no_credential_and_leave_no_record() {
    let path = Setup::legacy().start().await;
    for probe in ["/healthz", "/readyz"] {
        let ending = path.end(with(ask(Method::GET, probe, ""), "authorization", None)).await;
        assert_eq!(ending.answer.status, StatusCode::OK);
        assert!(ending.records.is_empty());
    }
}
