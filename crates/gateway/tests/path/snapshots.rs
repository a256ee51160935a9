//! One snapshot per call: what is put in force while a call is under way does not change its rules, save for screening;
//! and a permit of another epoch is void.

use upstream::EraSetting;

use super::ending::Told;
use super::scripted_server::Act;
use super::setup::{SECRET, Setup, secret_result};

const FORBID_ALL: &str = r#"@id("none") forbid (principal, action, resource);"#;

#[tokio::test]
async fn a_call_at_its_server_ends_by_the_rules_it_began_with() {
    let path = Setup::legacy().start().await;
    let client = path.client().await;
    let before = path.gateway.in_force().policy().policy_set().to_string();
    let replace = path.replacement(Setup {
        policy: FORBID_ALL,
        ..Setup::legacy()
    });
    path.server.on_call_with(move || {
        replace();
        Act::Result(r#"{"content":[]}"#.to_owned())
    });
    let ending = path.end(client.call("read", "{}")).await;
    assert_eq!(
        ending.answer.text(),
        r#"{"jsonrpc":"2.0","id":7,"result":{"content":[]}}"#
    );
    ending.assert_recorded("allow", &["ALLOW_POLICY_MATCH"]);
    assert_eq!(ending.receipt()["decision"]["policy_set"], before);
    let next = path.end(client.call("read", "{}")).await;
    next.assert_told(200, Told::Error(-32602), "deny", &["DENY_TOOL_NOT_FOUND"]);
    assert_ne!(next.receipt()["decision"]["policy_set"], before);
    assert_eq!(path.server.calls().len(), 1);
}

#[tokio::test]
async fn an_answer_is_screened_by_the_rules_in_force_when_it_comes() {
    let path = Setup::legacy().start().await;
    let client = path.client().await;
    path.server.on_call(Act::Result(secret_result()));
    let before = path.end(client.call("read", "{}")).await;
    assert!(before.answer.text().contains(SECRET), "nothing is masked yet");
    let replace = path.replacement(Setup::redacting());
    path.server.on_call_with(move || {
        replace();
        Act::Result(secret_result())
    });
    let ending = path.end(client.call("read", "{}")).await;
    assert!(!ending.answer.text().contains(SECRET), "{}", ending.answer.text());
    assert_eq!(ending.of_type("policy_decision").len(), 1);
    ending.assert_outcome("success", Some(true));
}

// The server is asked for its era between decision and dispatch; meanwhile another epoch begins.
async fn called_over_an_epoch(policy: &'static str) -> (super::setup::Running, super::ending::Ending) {
    let setup = Setup {
        era: EraSetting::Auto,
        ..Setup::legacy()
    };
    let path = setup.start().await;
    let client = path.client().await;
    let replace = path.replacement(Setup {
        epoch: 2,
        policy,
        ..path.setup.clone()
    });
    path.server.on(move |method, _| {
        if method == "server/discover" {
            replace();
        }
        None
    });
    let ending = path.end(client.call("write", "{}")).await;
    (path, ending)
}

#[tokio::test]
async fn a_permit_of_an_epoch_that_is_over_is_void() {
    let (path, ending) = called_over_an_epoch(FORBID_ALL).await;
    ending.assert_told(200, Told::Error(-32003), "deny", &["DENY_NO_PERMISSION"]);
    assert_eq!(ending.receipt()["decision"]["epoch"], 2);
    assert!(path.server.calls().is_empty(), "the server was called");
}

#[tokio::test]
async fn what_the_next_epoch_allows_too_goes_on_with_a_permit_of_that() {
    let (path, ending) = called_over_an_epoch(Setup::legacy().policy).await;
    ending.assert_outcome("success", Some(true));
    assert_eq!(ending.receipt()["decision"]["epoch"], 2);
    assert_eq!(path.server.calls().len(), 1);
}
