//! Arguments and answers that are kept: encrypted, for operators, and erasable without breaking the log.

use std::fs;

use serde_json::{Value, json};

use super::evidence::{second, verified};
use crate::support::records::{all, sha256};
use crate::support::setup::Home;
use crate::support::{Act, Setup, Town};

fn keeping(setup: Setup) -> Setup {
    setup
        .set("audit.record_arguments", true)
        .set("audit.record_results", true)
}

fn shown(home: &Home, id: &Value, what: &str) -> Value {
    let told = home
        .cli(&["activity", "show", id.as_str().unwrap(), what, "--json"])
        .success();
    serde_json::from_str(&told).unwrap()
}

fn refused(home: &Home, id: &Value, what: &str) -> String {
    let finished = home.cli(&["activity", "show", id.as_str().unwrap(), what]);
    assert_ne!(finished.code, Some(0), "{finished:?}");
    finished.stderr
}

/// Whether a text stands anywhere below the state directory.
fn lies_there(home: &Home, text: &str) -> bool {
    home.state_files().iter().any(|file| {
        let bytes = fs::read(file).unwrap_or_default();
        memchr::memmem::find(&bytes, text.as_bytes()).is_some()
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_and_answers_are_kept_encrypted_shown_to_operators_and_erased_one_by_one() {
    // R174
    let town = Town::with(&["read", "write"], |setup| keeping(setup).risk("files/write", "high")).await;
    let agent = town.agent("ann").await;
    let arguments = json!({"text": "Mallory's é", "path": "a\"b", "amount": 2});
    let answer = agent.call("write", arguments.clone()).await;
    let receipt = town.gateway.receipt_of(&answer);
    let other = town
        .gateway
        .receipt_of(&agent.call("read", json!({"text": "harmless"})).await);
    let id = &receipt["receipt_id"];
    let home = &town.gateway.home;
    assert_eq!(shown(home, id, "--arguments"), arguments);
    assert_eq!(shown(home, id, "--result"), answer.json());
    // Byte for byte the form that the record's hash is of.
    let spelled = home
        .cli(&["activity", "show", id.as_str().unwrap(), "--arguments", "--json"])
        .success();
    assert_eq!(receipt["request"]["args_hash"], sha256(spelled.trim_end().as_bytes()));
    let intent = all(home)
        .into_iter()
        .find(|record| record["phase"] == "intent" && record["receipt_id"] == *id)
        .unwrap();
    assert_eq!(intent["request"]["args_ref"], receipt["request"]["args_ref"]);
    assert!(!lies_there(home, "Mallory"));

    let viewer = home
        .cli(&["admin", "create", "--name", "vera", "--role", "viewer", "--json"])
        .success();
    let viewer: Value = serde_json::from_str(&viewer).unwrap();
    for (verb, end) in [("GET", "arguments"), ("GET", "result"), ("POST", "erase")] {
        let path = format!("/api/v1/activity/{}/{end}", id.as_str().unwrap());
        let ask = crate::support::Ask::new(verb, &path).bearer(viewer["token"].as_str().unwrap());
        assert_eq!(town.gateway.admin.ask(&ask).await.status, 403, "{end}");
    }

    home.cli(&[
        "activity",
        "erase",
        id.as_str().unwrap(),
        "--reason",
        "Mallory asked for it",
    ])
    .success();
    for what in ["--arguments", "--result"] {
        assert!(refused(home, id, what).contains("erased"));
    }
    assert_eq!(
        shown(home, &other["receipt_id"], "--arguments"),
        json!({"text": "harmless"})
    );
    let erasure = all(home)
        .into_iter()
        .find(|record| record["action"] == "activity.erase")
        .unwrap();
    assert_eq!(
        (&erasure["subject"], &erasure["message"]),
        (id, &json!("Mallory asked for it"))
    );
    assert_ne!(erasure["actor"], Value::Null);
    assert!(
        home.cli(&["activity", "show", id.as_str().unwrap()])
            .success()
            .contains("args_ref")
    );

    let home = town.gateway.stop().await;
    let state = home.state();
    assert_eq!(verified(&state, &[]).0, Some(0));
    assert_eq!(second(std::slice::from_ref(&state))[0]["ok"], true);
    // Without a gateway, too.
    assert!(refused(&home, id, "--result").contains("erased"));
    assert_eq!(
        shown(&home, &other["receipt_id"], "--arguments"),
        json!({"text": "harmless"})
    );
    fs::remove_file(state.join("payload.key")).unwrap();
    let checked = home.cli(&["token", "create", "--sub", "bob"]);
    assert_ne!(checked.code, Some(0), "{checked:?}");
    assert!(checked.stderr.contains("payload.key"), "{checked:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_redacted_is_kept_nowhere_and_what_is_denied_is_kept_too() {
    let town = Town::with(&["read", "hidden", "secret"], |setup| {
        let redact = json!({"spotlight_untrusted": true, "response_action": "redact", "strip_control_chars": true});
        keeping(setup).set("output_sanitisation", redact).policy(
            r#"@id("few") permit (principal, action, resource); @id("none") forbid (principal, action, resource) when { context.args has amount };"#,
        )
    })
    .await;
    let agent = town.agent("ann").await;
    let key = concat!("gh", "p_R7kT2mQ9vX4bN8cL1wZ6yH3jF5dS0gAaPpEe");
    let said = json!({"content": [{"type": "text", "text": format!("key {key} end")}]});
    town.files.on("secret", Act::Answer(said.to_string()));
    let answer = agent.call("secret", json!({})).await;
    let receipt = town.gateway.receipt_of(&answer);
    let home = &town.gateway.home;
    assert_eq!(shown(home, &receipt["receipt_id"], "--result"), answer.json());
    assert!(answer.text().contains("[REDACTED:api_token]"), "{}", answer.text());
    assert!(!answer.text().contains(key), "{}", answer.text());
    let denied = town
        .gateway
        .receipt_of(&agent.call("read", json!({"amount": 17})).await);
    assert_eq!(denied["decision"]["result"], "deny");
    assert_eq!(shown(home, &denied["receipt_id"], "--arguments"), json!({"amount": 17}));
    assert!(refused(home, &denied["receipt_id"], "--result").contains("record_results"));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_kept_unless_it_is_asked_for_and_what_cannot_be_kept_goes_no_further() {
    let town = Town::with(&["read"], |setup| setup).await;
    let receipt = town
        .gateway
        .receipt_of(&town.agent("ann").await.call("read", json!({"text": "x"})).await);
    assert_eq!(
        (&receipt["request"]["args_ref"], &receipt["outcome"]["result_ref"]),
        (&Value::Null, &Value::Null)
    );
    let home = &town.gateway.home;
    assert!(refused(home, &receipt["receipt_id"], "--arguments").contains("record_arguments"));
    assert!(!home.state().join("payload.key").exists() && !home.state().join("payloads").exists());
    let erased = home.cli(&[
        "activity",
        "erase",
        receipt["receipt_id"].as_str().unwrap(),
        "--reason",
        "x",
    ]);
    assert_ne!(erased.code, Some(0));

    let town = Town::with(&["read"], keeping).await;
    // Nobody can make a file in a file.
    fs::write(town.gateway.home.state().join("payloads"), "in the way").unwrap();
    let agent = town.agent("ann").await;
    let called = town.files.calls().len();
    let answer = agent.call("read", json!({"text": "x"})).await;
    assert!(answer.text().contains("DENY_RECEIPT_UNAVAILABLE"), "{}", answer.text());
    assert_eq!(town.files.calls().len(), called, "nothing left");
    fs::remove_file(town.gateway.home.state().join("payloads")).unwrap();
    let answer = agent.call("read", json!({"text": "x"})).await;
    let receipt = town.gateway.receipt_of(&answer);
    assert_eq!(
        shown(&town.gateway.home, &receipt["receipt_id"], "--arguments"),
        json!({"text": "x"})
    );
}
