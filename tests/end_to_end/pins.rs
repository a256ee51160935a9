//! The operator's word on single things, and pins of everything a server says of itself.

use serde_json::{Value, json};

use super::inventory::entries;
use crate::support::records;
use crate::support::setup::Home;
use crate::support::{Town, tool};

/// One line of the inventory.
fn entry(home: &Home, id: &str) -> Value {
    let entries = entries(home);
    let found = entries.iter().find(|entry| entry["id"] == id);
    found.unwrap_or_else(|| panic!("no {id} in {entries:?}")).clone()
}

/// What the log says of the inventory: action, actor and subject.
fn told(home: &Home) -> Vec<[String; 3]> {
    let records = records::list(home, &["--type", "inventory", "--limit", "100000"]);
    let text = |record: &Value, name: &str| record[name].as_str().unwrap_or_default().to_owned();
    let row = |record: &Value| ["action", "actor", "subject"].map(|name| text(record, name));
    records.iter().map(row).collect()
}

fn is_told(home: &Home, action: &str, subject: &str) -> bool {
    told(home)
        .iter()
        .any(|[known, actor, about]| known == action && about == subject && !actor.is_empty() && actor != "system")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disabled_tool_is_not_there_until_it_is_enabled_and_a_restart_changes_nothing() {
    let town = Town::with(&["read", "write"], |setup| setup).await;
    let agent = town.agent("ann").await;
    assert_eq!(agent.names().await, ["read", "write"]);
    town.gateway.home.cli(&["tool", "disable", "files/read"]).success();
    assert_eq!(agent.names().await, ["write"]);
    let town = town.restarted().await;
    let (agent, home) = (town.agent("ann").await, &town.gateway.home);
    assert_eq!(agent.names().await, ["write"], "a word outlives a restart");
    let (refused, unknown) = (agent.call("read", json!({})).await, agent.call("none", json!({})).await);
    assert_eq!(refused.error_code(), unknown.error_code());
    assert_eq!(
        refused.reason_codes(),
        unknown.reason_codes(),
        "a caller cannot tell the two apart"
    );
    assert_eq!(
        town.gateway.receipt_named_by(&refused)["decision"]["reason_codes"],
        json!(["DENY_TOOL_DISABLED"])
    );
    assert_eq!(town.files.calls().len(), 0);
    // What is disabled stays so when it changes and is approved as it is.
    let mut changed = tool("read");
    changed["title"] = json!("another");
    town.files.offer(&[changed, tool("write")]);
    home.cli(&["server", "refresh", "files"]).success();
    home.cli(&["tool", "approve", "files/read"]).success();
    let shown = entry(home, "files/read");
    assert_eq!(
        (&shown["standing"], &shown["kind"]),
        (&json!("disabled"), &json!("tool"))
    );
    assert!(
        shown["disabled"]["by"].is_string() && shown["disabled"]["at"].is_string(),
        "{shown}"
    );
    assert_eq!(agent.names().await, ["write"]);
    home.cli(&["tool", "enable", "files/read"]).success();
    assert_eq!(agent.names().await, ["read", "write"]);
    assert_eq!(agent.call("read", json!({})).await.result()["isError"], false);
    assert!(is_told(home, "tool_disabled", "files/read") && is_told(home, "tool_enabled", "files/read"));
    for order in ["disable", "enable"] {
        assert_eq!(home.cli(&["tool", order, "files/none"]).code, Some(1), "{order}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_is_as_dangerous_as_the_operator_says_while_it_runs_and_the_file_says_more() {
    let town = Town::with(&["read", "write", "delete_repository"], |setup| {
        setup.risk("files/write", "medium")
    })
    .await;
    town.agent("ann").await.list().await;
    let home = &town.gateway.home;
    home.cli(&["tool", "classify", "files/read", "--risk", "low"]).success();
    let town = town.restarted().await;
    town.agent("ann").await.list().await;
    let home = &town.gateway.home;
    let read = entry(home, "files/read");
    assert_eq!(
        (&read["risk"], &read["risk_source"]),
        (&json!("low"), &json!("operator"))
    );
    assert!(
        read["classified"]["by"].is_string() && read["classified"]["at"].is_string(),
        "{read}"
    );
    assert!(is_told(home, "tool_classified", "files/read"));
    let by_the_file = home.cli(&["tool", "classify", "files/write", "--risk", "low"]);
    assert_eq!(by_the_file.code, Some(1));
    assert!(by_the_file.stderr.contains("configuration file"), "{by_the_file:?}");
    assert_eq!(entry(home, "files/write")["risk"], "medium");
    let critical = home.cli(&["tool", "classify", "files/delete_repository", "--risk", "low"]);
    assert_eq!(critical.code, Some(1));
    assert!(critical.stderr.contains("never lowered"), "{critical:?}");
    assert_eq!(entry(home, "files/delete_repository")["risk"], "critical");
    assert!(!is_told(home, "tool_classified", "files/delete_repository"));
    assert_eq!(
        home.cli(&["tool", "classify", "files/read", "--risk", "mild"]).code,
        Some(2)
    );
    assert_eq!(home.cli(&["tool", "classify", "files/read"]).code, Some(2));
}
