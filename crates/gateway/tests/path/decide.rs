//! Limits, then policies: whatever they do not allow ends here.

use serde_json::Value;

use super::ending::Told;
use super::setup::{Running, Setup};

fn assert_not_called(path: &Running) {
    assert!(path.server.calls().is_empty(), "the server was called");
}

#[tokio::test]
async fn a_call_over_the_rate_is_refused_with_the_time_to_wait() {
    let path = Setup::one_call().start().await;
    let client = path.client().await;
    let first = path.end(client.call("read", "{}")).await;
    first.assert_recorded("allow", &["ALLOW_POLICY_MATCH"]);
    let ending = path.end(client.call("read", "{}")).await;
    ending.assert_refused(200, Told::Error(-32003), "DENY_RATE_LIMIT");
    let wait = ending.answer.decision()["retry_after_ms"].as_u64().unwrap();
    assert!((1..=3_600_000).contains(&wait), "{wait}");
    assert_eq!(ending.receipt()["decision"]["policy_id"], "builtin:limits");
    assert_eq!(path.server.calls().len(), 1);
}

#[tokio::test]
async fn a_call_beyond_what_may_run_at_once_is_refused_without_a_time() {
    let mut setup = Setup::legacy();
    setup.limits.per_principal = 0;
    let path = setup.start().await;
    let client = path.client().await;
    let ending = path.end(client.call("read", "{}")).await;
    ending.assert_refused(200, Told::Error(-32003), "DENY_CONCURRENCY");
    assert_eq!(ending.answer.decision()["retry_after_ms"], Value::Null);
    assert_not_called(&path);
}

#[tokio::test]
async fn a_policy_that_forbids_names_itself_in_the_record_alone() {
    let path = Setup::legacy().start().await;
    let client = path.client().await;
    let ending = path.end(client.call("read", r#"{"amount":9}"#)).await;
    ending.assert_refused(200, Told::Error(-32003), "DENY_NO_PERMISSION");
    let decision = &ending.receipt()["decision"];
    assert_eq!(decision["policy_id"], "amounts");
    assert!(decision["policy_set"].is_string());
    assert!(!ending.answer.text().contains("amounts"));
    assert_not_called(&path);
}

#[tokio::test]
async fn what_a_person_must_approve_is_not_sent() {
    let path = Setup::legacy().start().await;
    let client = path.client().await;
    let ending = path.end(client.call("guarded", "{}")).await;
    ending.assert_told(200, Told::Error(-32003), "require_approval", &["REQUIRE_APPROVAL"]);
    ending.assert_recorded("require_approval", &["REQUIRE_APPROVAL"]);
    ending.assert_outcome("error", Some(false));
    assert_eq!(ending.receipt()["approval"]["required"], true);
    assert_not_called(&path);
}
