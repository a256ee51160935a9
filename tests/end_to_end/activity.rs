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
async fn requests_are_summed_up_by_what_they_were_and_what_came_of_them() {
    let town = Town::with(&["read", "write"], |setup| setup).await;
    let (ann, bob) = (town.agent("ann").await, town.agent("bob").await);
    town.files.on("write", Act::Close);
    for _ in 0..3 {
        ann.call("read", json!({})).await;
    }
    ann.call("write", json!({})).await;
    bob.call("none", json!({})).await;
    let home = &town.gateway.home;
    let summary = |options: &[&str]| -> Vec<Value> {
        let arguments = [&["activity", "summary", "--json"], options].concat();
        let printed = home.cli(&arguments).success();
        printed
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    };
    let counts = |line: &Value| ["calls", "allowed", "denied", "errors"].map(|name| line[name].as_u64().unwrap());
    let by = |what: &str, key: &str| -> [u64; 4] {
        let lines = summary(&["--by", what]);
        let found: Vec<&Value> = lines.iter().filter(|line| line["key"] == key).collect();
        assert_eq!(found.len(), 1, "{lines:?}");
        assert!(found[0]["p50_us"].as_u64() <= found[0]["p99_us"].as_u64(), "{found:?}");
        counts(found[0])
    };
    assert_eq!(by("tool", "files/read"), [3, 3, 0, 0]);
    assert_eq!(by("tool", "files/write"), [1, 0, 0, 1]);
    assert_eq!(by("principal", "bob"), [2, 1, 1, 0], "initialize and the call");
    assert_eq!(by("reason", "DENY_TOOL_NOT_FOUND"), [1, 0, 1, 0]);
    assert_eq!(by("method", "tools/call"), [5, 3, 1, 1]);

    let all = receipts(&all(home));
    let mut times: Vec<u64> = all
        .iter()
        .map(|record| record["outcome"]["duration_us"].as_u64().unwrap())
        .collect();
    times.sort_unstable();
    let whole = summary(&[]);
    assert_eq!((whole.len(), &whole[0]["key"]), (1, &json!("*")));
    assert_eq!(counts(&whole[0])[0], all.len() as u64);
    assert_eq!(
        whole[0]["p50_us"],
        times[times.len().div_ceil(2) - 1],
        "of a few it is exact"
    );
    let hours = summary(&["--bucket", "1h", "--principal", "ann", "--status", "error"]);
    assert!(
        hours[0]["bucket"].as_str().unwrap().ends_with(":00:00.000000Z"),
        "{hours:?}"
    );
    assert_eq!(counts(&hours[0]), [1, 0, 0, 1]);

    let printed = home.cli(&["activity", "reindex", "--json"]).success();
    let records: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(records["records"], lines_on_disk(home).len());
    assert_eq!(by("tool", "files/read"), [3, 3, 0, 0]);
    assert_eq!(home.cli(&["activity", "summary", "--bucket", "30s"]).code, Some(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn activity_can_be_watched_while_the_gateway_is_restarted_and_killed() {
    let mut town = Town::with(&["read"], |setup| setup).await;
    let seen = town.gateway.home.path("watched");
    let mut watch = command(portreeve());
    watch
        .args(["activity", "watch", "--json", "--config"])
        .arg(town.gateway.home.config());
    let mut watching = watch.stdout(File::create(&seen).unwrap()).spawn().unwrap();
    let shown = || -> Vec<u64> {
        let text = std::fs::read_to_string(&seen).unwrap();
        let whole = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        whole.map(|record| record["seq"].as_u64().unwrap()).collect()
    };
    let agent = town.agent("ann").await;
    eventually("a call shows", 15, async || {
        agent.call("read", json!({})).await;
        !shown().is_empty()
    })
    .await;
    town.gateway = town.gateway.restart().await;
    town.agent("ann").await.call("read", json!({})).await;
    town.gateway = town.gateway.kill().await.serve().await;
    town.agent("ann").await.call("read", json!({})).await;
    let last = town.gateway.last_seq();
    eventually("the last record shows", 30, async || shown().last() == Some(&last)).await;
    watching.kill().unwrap();
    watching.wait().unwrap();
    let shown = shown();
    assert!(
        shown.is_sorted_by(|one, next| one + 1 == *next),
        "each once, none missing: {shown:?}"
    );
}
