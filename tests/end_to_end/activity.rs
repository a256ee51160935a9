//! `activity`: the log as an operator asks for it.

use std::collections::BTreeSet;
use std::fs::File;

use serde_json::{Value, json};

use crate::support::environment::{command, portreeve};
use crate::support::records::{all, lines_on_disk, list, receipts};
use crate::support::{Act, Setup, Town, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn the_table_says_which_host_a_server_tried_to_reach() {
    let reach = "import urllib.request; urllib.request.urlopen('http://elsewhere.example/')";
    let gateway = Setup::new()
        .set(
            "servers.web",
            json!({"command": ["/usr/bin/python3", "-c", reach], "trust": "internal"}),
        )
        .start()
        .await;
    let table = || gateway.home.cli(&["activity", "list", "--type", "egress"]).success();
    eventually("the attempt is listed with its host", 60, async || {
        table().lines().any(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            words.contains(&"web") && words.contains(&"elsewhere.example:53") && words.contains(&"blocked")
        })
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn activity_finds_records_by_what_they_say() {
    let town = Town::with(&["read", "write"], |setup| setup).await;
    let (ann, bob) = (town.agent("ann").await, town.agent("bob").await);
    town.files.on("write", Act::Close);
    let allowed = ann.call("read", json!({})).await;
    ann.call("write", json!({})).await;
    let denied = bob.call("none", json!({})).await;
    let home = &town.gateway.home;
    let finals = |options: &[&str]| receipts(&list(home, options));
    assert_eq!(finals(&["--status", "error"]).len(), 1);
    assert_eq!(finals(&["--status", "denied"]).len(), 1);
    assert_eq!(
        finals(&["--status", "denied"])[0]["receipt_id"],
        denied.decision()["receipt_id"]
    );
    assert_eq!(finals(&["--tool", "read"]).len(), 1);
    assert_eq!(finals(&["--principal", "bob"]).len(), 2, "initialize and the call");
    assert_eq!(
        finals(&["--server", "files", "--principal", "ann", "--tool", "write"]).len(),
        1
    );
    assert_eq!(finals(&["--type", "egress"]).len(), 0);
    assert_eq!(finals(&["--until", "2020-01-01T00:00:00Z"]).len(), 0);
    assert_eq!(list(home, &["--limit", "2"]).len(), 2);
    let seqs: Vec<_> = all(home).iter().map(|record| record["seq"].as_u64().unwrap()).collect();
    assert!(seqs.is_sorted_by(|newer, older| newer > older), "newest first");
    let receipt = town.gateway.receipt_of(&allowed);
    for key in [
        receipt["receipt_id"].as_str().unwrap().to_owned(),
        receipt["seq"].to_string(),
    ] {
        let shown = home.cli(&["activity", "show", &key, "--json"]).success();
        assert!(
            lines_on_disk(home)
                .iter()
                .any(|line| shown.trim_end().ends_with(line.as_str())),
            "exactly as stored: {shown}"
        );
    }
    assert_eq!(home.cli(&["activity", "show", "rcp_none"]).code, Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn activity_is_exported_as_lines_and_as_a_table() {
    let town = Town::with(&["read"], |setup| setup).await;
    town.agent("ann").await.call("read", json!({})).await;
    let home = &town.gateway.home;
    let stored: BTreeSet<String> = lines_on_disk(home).into_iter().collect();
    let exported: BTreeSet<String> = home
        .cli(&["activity", "export", "--format", "jsonl"])
        .success()
        .lines()
        .map(str::to_owned)
        .collect();
    assert_eq!(exported, stored);
    let table = home.cli(&["activity", "export", "--format", "csv"]).success();
    assert!(
        table.lines().count() > 2 && table.lines().next().unwrap().contains("receipt_id"),
        "{table}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn activity_can_be_watched() {
    let town = Town::with(&["read"], |setup| setup).await;
    let seen = town.gateway.home.path("watched");
    let mut watch = command(portreeve());
    watch
        .args(["activity", "watch", "--json", "--config"])
        .arg(town.gateway.home.config());
    let mut watching = watch.stdout(File::create(&seen).unwrap()).spawn().unwrap();
    let agent = town.agent("ann").await;
    let shows_a_call = || {
        let text = std::fs::read_to_string(&seen).unwrap();
        let mut lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.any(|record| record["mcp"]["tool_name"] == "read")
    };
    eventually("a call shows", 15, async || {
        agent.call("read", json!({})).await;
        shows_a_call()
    })
    .await;
    watching.kill().unwrap();
    watching.wait().unwrap();
}
