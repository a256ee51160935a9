//! A server that errs, is late, is gone or talks nonsense: the client is told so, and the record says whether the tool ran.

use std::time::Duration;

use serde_json::json;

use super::client::modern_call;
use super::ending::{Ending, Told};
use super::scripted_server::Act;
use super::setup::{Running, Setup};

async fn failed(path: &Running, act: Act) -> Ending {
    path.server.on_call(act);
    let client = path.client().await;
    path.end(client.call("read", "{}")).await
}

fn assert_failed(ending: &Ending, reason: &str, status: &str, executed: Option<bool>) {
    ending.assert_told(200, Told::Error(-32603), "allow", &[reason]);
    ending.assert_recorded("allow", &["ALLOW_POLICY_MATCH", reason]);
    ending.assert_outcome(status, executed);
    assert_eq!(ending.answer.decision()["receipt_id"], ending.receipt()["receipt_id"]);
}

#[tokio::test]
async fn an_error_of_a_server_reaches_the_client_as_it_came() {
    let path = Setup::legacy().start().await;
    let error = r#"{ "code":-32050 , "message":"\u0041 problem","data":{"n":1.0} }"#;
    let ending = failed(&path, Act::Error(error.to_owned())).await;
    assert_eq!(
        ending.answer.text(),
        format!(r#"{{"jsonrpc":"2.0","id":7,"error":{error}}}"#)
    );
    ending.assert_recorded("allow", &["ALLOW_POLICY_MATCH"]);
    ending.assert_outcome("error", Some(true));
}

#[tokio::test]
async fn an_error_result_of_a_tool_is_an_answer() {
    let path = Setup::legacy().start().await;
    let result = r#"{"content":[],"isError":true}"#;
    let ending = failed(&path, Act::Result(result.to_owned())).await;
    assert_eq!(ending.answer.json()["result"], json!({"content": [], "isError": true}));
    ending.assert_outcome("error", Some(true));
}

#[tokio::test]
async fn a_server_that_takes_too_long_is_left_alone() {
    let setup = Setup {
        timeout: Duration::from_millis(150),
        ..Setup::legacy()
    };
    let path = setup.start().await;
    assert_failed(&failed(&path, Act::Hang).await, "ERROR_TIMEOUT", "timeout", None);
}

#[tokio::test]
async fn a_connection_that_breaks_leaves_open_whether_the_tool_ran() {
    let path = Setup::legacy().start().await;
    assert_failed(&failed(&path, Act::HangUp).await, "ERROR_UPSTREAM", "error", None);
    assert_eq!(path.server.calls().len(), 1, "nothing is sent twice");
}

#[tokio::test]
async fn a_server_that_is_gone_ran_nothing() {
    let mut path = Setup::modern().start().await;
    path.server.go_down().await;
    let ending = path.end(modern_call("read", "{}")).await;
    assert_failed(&ending, "ERROR_UPSTREAM", "error", Some(false));
}

#[tokio::test]
async fn nonsense_is_not_passed_on() {
    let path = Setup::legacy().start().await;
    for act in [
        Act::Body("Never say this aloud.".to_owned()),
        Act::Body(r#"{"jsonrpc":"2.0","id":987654321,"result":{}}"#.to_owned()),
        Act::Result("7".to_owned()),
        Act::Status(503),
    ] {
        let ending = failed(&path, act.clone()).await;
        assert!(!ending.answer.text().contains("aloud"), "{act:?}");
        assert_eq!(ending.receipt()["outcome"]["status"], "error", "{act:?}");
        assert_ne!(ending.answer.decision()["receipt_id"], json!(null), "{act:?}");
    }
}
