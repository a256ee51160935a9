//! The log recovers: by itself, whole, and calls go on.

use std::time::{Duration, Instant};

use http::StatusCode;

use super::client::message;
use super::setup::{Running, Setup};

async fn until_ready(path: &Running) {
    let began = Instant::now();
    while path.probe("/readyz").await != StatusCode::OK {
        assert!(began.elapsed() < Duration::from_secs(10), "not ready again");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn readiness_follows_the_log_and_calls_work_again_after_it() {
    let path = Setup::legacy().start().await;
    let client = path.client().await;
    assert_eq!(path.probe("/readyz").await, StatusCode::OK);
    path.disk.fill();
    path.end(client.call("write", "{}"))
        .await
        .assert_withheld_without_receipt(200);
    assert_eq!(path.probe("/readyz").await, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(path.probe("/healthz").await, StatusCode::OK, "the process is there");
    path.disk.free();
    until_ready(&path).await;
    for tool in ["read", "write"] {
        let ending = path.end(client.call(tool, "{}")).await;
        assert_eq!(ending.answer.json()["result"]["content"][0]["text"], "done");
        ending.assert_outcome("success", Some(true));
    }
    assert_eq!(path.server.calls().len(), 2);
    let resumed = path.records();
    let resumed = resumed
        .iter()
        .find(|record| record["action"] == "ledger.resume")
        .unwrap();
    assert!(
        resumed["message"]
            .as_str()
            .unwrap()
            .ends_with("2 answers were withheld"),
        "{resumed}"
    );
    path.assert_log_verifies();
}

#[tokio::test]
async fn half_a_record_is_taken_back_and_the_next_one_follows_the_last_whole_one() {
    let path = Setup::legacy().start().await;
    let client = path.client().await;
    let before = path.records();
    path.disk.limit().fill_but(100);
    path.end(client.post(message("ping", "{}")))
        .await
        .assert_withheld_without_receipt(200);
    assert_eq!(path.records(), before);
    path.assert_log_verifies();
    path.disk.free();
    let ending = path.end(client.post(message("ping", "{}"))).await;
    ending.assert_recorded("allow", &["ALLOW_BUILTIN"]);
    path.assert_log_verifies();
}
