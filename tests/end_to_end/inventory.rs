//! The inventory: what exists, how dangerous it is, whom it comes from, and that it stays what it was.

use serde_json::{Value, json};

use crate::support::records::canonical_hash;
use crate::support::{Agent, Issuer, Server, Setup, Town, tool};

#[tokio::test(flavor = "multi_thread")]
async fn every_tool_has_a_risk_and_a_trust() {
    // R099, R100, R101, R104
    let hinted = |name: &str, hints: Value| {
        let mut definition = tool(name);
        definition["annotations"] = hints;
        definition
    };
    let definitions = [
        tool("plain"),
        hinted("reads", json!({"readOnlyHint": true, "openWorldHint": false})),
        hinted("destroys", json!({"destructiveHint": true})),
        tool("ruled"),
    ];
    let (issuer, ours, theirs) = (
        Issuer::start().await,
        Server::start(&definitions).await,
        Server::start(&definitions).await,
    );
    let setup = Setup::with(&issuer, &ours)
        .server("theirs", &theirs)
        .set("servers.theirs.trust", "community");
    let gateway = setup
        .risk("files/ruled", "low")
        .risk("theirs/ruled", "critical")
        .start()
        .await;
    Agent::connect(&gateway, "/mcp", &issuer.token("ann"))
        .await
        .list()
        .await;
    let entries = entries(&gateway.home);
    assert_eq!(entries.len(), 8);
    let risk = |id: &str| entry(&entries, id)["risk"].as_str().unwrap().to_owned();
    let rank = |id: &str| {
        ["low", "medium", "high", "critical"]
            .iter()
            .position(|one| *one == risk(id))
            .unwrap()
    };
    assert_eq!(risk("files/plain"), "high");
    assert_eq!(risk("theirs/plain"), "high");
    assert_eq!(
        (risk("files/ruled"), risk("theirs/ruled")),
        ("low".to_owned(), "critical".to_owned())
    );
    assert!(
        rank("files/reads") < rank("files/plain"),
        "a trusted server's word may lower a risk"
    );
    assert_eq!(rank("theirs/reads"), rank("theirs/plain"), "another's may not");
    assert!(rank("theirs/destroys") >= rank("theirs/plain"));
    for entry in &entries {
        assert!(
            ["internal", "verified", "community", "unknown"].contains(&entry["trust"].as_str().unwrap()),
            "{entry}"
        );
    }
    assert_eq!(entry(&entries, "theirs/plain")["trust"], "community");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trust_or_risk_nobody_knows_stops_the_start() {
    // R100, R101, R103
    for (path, value) in [
        ("trust", json!("friendly")),
        ("tools.read.risk", json!("harmless")),
        ("url", json!("nonsense")),
    ] {
        let setup = Setup::new().set("servers.odd.url", "https://odd.example/mcp");
        let checked = setup.set(&format!("servers.odd.{path}"), value).home().cli(&["check"]);
        assert_eq!(checked.code, Some(1), "{path}: {checked:?}");
        assert!(
            format!("{}{}", checked.stdout, checked.stderr).contains("odd"),
            "{path}: {checked:?}"
        );
    }
    let named = Setup::new()
        .set("servers.Bad_Name.url", "https://odd.example/mcp")
        .home()
        .cli(&["check"]);
    assert!(
        named.code == Some(1) && format!("{}{}", named.stdout, named.stderr).contains("Bad_Name"),
        "{named:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_a_trust_starts_in_quarantine_until_approved() {
    // R101, R102
    let town = Town::with(&["read"], |setup| setup.unset("servers.files.trust")).await;
    let agent = town.agent("ann").await;
    assert!(agent.names().await.is_empty());
    let entry = entry(&entries(&town.gateway.home), "files/read");
    assert_eq!((&entry["trust"], &entry["risk"]), (&json!("unknown"), &json!("high")));
    assert!(entry["standing"].to_string().contains("quarantined"), "{entry}");
    town.gateway.home.cli(&["tool", "approve", "files/read"]).success();
    assert_eq!(agent.names().await, ["read"]);
    assert_eq!(agent.call("read", json!({})).await.result()["isError"], false);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_tool_is_withdrawn_until_approved() {
    // R063, R102
    let town = Town::with(&["read", "write"], |setup| setup).await;
    assert_eq!(town.agent("ann").await.names().await, ["read", "write"]);
    let mut changed = tool("read");
    changed["annotations"] = json!({"title": "the same, honestly"});
    town.files.offer(&[changed.clone(), tool("write")]);
    let town = town.restarted().await;
    let agent = town.agent("ann").await;
    assert_eq!(agent.names().await, ["write"]);
    let refused = agent.call("read", json!({})).await;
    assert_eq!(
        town.gateway.receipt_named_by(&refused)["decision"]["reason_codes"],
        json!(["DENY_TOOL_QUARANTINED"])
    );
    assert_eq!(town.files.calls().len(), 0);
    town.gateway.home.cli(&["tool", "approve", "files/read"]).success();
    assert_eq!(agent.names().await, ["read", "write"]);
    let receipt = town.gateway.receipt_of(&agent.call("read", json!({})).await);
    assert_eq!(receipt["mcp"]["definition_hash"], canonical_hash(&changed));
    let town = town.restarted().await;
    assert_eq!(
        town.agent("ann").await.names().await,
        ["read", "write"],
        "an approval outlives a restart"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_a_community_server_adds_later_waits_for_approval() {
    // R102
    for (trust, listed) in [("community", vec!["read"]), ("internal", vec!["read", "surprise"])] {
        let town = Town::with(&["read"], |setup| setup.set("servers.files.trust", trust)).await;
        assert_eq!(town.agent("ann").await.names().await, ["read"]);
        town.files.offer(&[tool("read"), tool("surprise")]);
        let town = town.restarted().await;
        assert_eq!(town.agent("ann").await.names().await, listed, "{trust}");
        town.gateway.home.cli(&["tool", "approve", "files/surprise"]);
        assert_eq!(town.agent("ann").await.names().await, ["read", "surprise"], "{trust}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_that_is_none_is_kept_out_and_named() {
    // R103
    let (issuer, files) = (Issuer::start().await, Server::start(&[]).await);
    files.offer_raw(vec![
        tool("good").to_string(),
        r#"{"name":"no-schema"}"#.to_owned(),
        r#"{"name":"bad-schema","inputSchema":{"type":"no such type"}}"#.to_owned(),
        r##"{"name":"far-schema","inputSchema":{"type":"object","properties":{"a":{"$ref":"https://evil.example/x"}}}}"##.to_owned(),
        r#"{"name":"dup","inputSchema":{"type":"object"},"inputSchema":{"type":"object","additionalProperties":true}}"#.to_owned(),
        r#"{"name":"un\u202eseen","inputSchema":{"type":"object"}}"#.to_owned(),
        r#"{"description":"nameless","inputSchema":{"type":"object"}}"#.to_owned(),
        r#""not even an object""#.to_owned(),
    ]);
    let gateway = Setup::with(&issuer, &files).start().await;
    let agent = Agent::connect(&gateway, "/mcp/files", &issuer.token("ann")).await;
    assert_eq!(agent.names().await, ["good"]);
    let listed = gateway.home.cli(&["tool", "list", "--json"]).success();
    assert!(
        listed.contains("bad-schema") && listed.contains("far-schema"),
        "{listed}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn two_tools_of_one_name_are_not_both_there() {
    // R103
    let (issuer, files) = (Issuer::start().await, Server::start(&[]).await);
    let mut twin = tool("read");
    twin["description"] = json!("the other one");
    files.offer(&[tool("read"), twin, tool("write")]);
    let gateway = Setup::with(&issuer, &files).start().await;
    let names = Agent::connect(&gateway, "/mcp/files", &issuer.token("ann"))
        .await
        .names()
        .await;
    assert!(names == ["write"] || names == ["read", "write"], "{names:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_restart_a_server_that_is_down_is_listed_from_the_store() {
    // R099
    let town = Town::with(&["read", "write"], |setup| setup).await;
    let before = town.agent("ann").await.request("tools/list", json!({})).await.text();
    town.files.go_down().await;
    let town = town.restarted().await;
    let agent = town.agent("ann").await;
    assert_eq!(agent.request("tools/list", json!({})).await.text(), before);
    let answer = agent.call("read", json!({"unknown": 1})).await;
    assert_eq!(answer.reason_codes(), ["DENY_UNKNOWN_FIELDS"], "schemas are kept too");
    assert_eq!(agent.call("read", json!({})).await.error_code(), -32603);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_is_gone_is_gone() {
    // R099
    let town = Town::with(&["read", "write"], |setup| setup).await;
    town.agent("ann").await.list().await;
    town.files.offer(&[tool("read")]);
    let town = town.restarted().await;
    let agent = town.agent("ann").await;
    assert_eq!(agent.names().await, ["read"]);
    assert_eq!(agent.call("write", json!({})).await.error_code(), -32602);
}

#[tokio::test(flavor = "multi_thread")]
async fn tool_show_prints_the_definition_and_knows_no_strangers() {
    // R099
    let town = Town::with(&["read"], |setup| setup).await;
    town.agent("ann").await.list().await;
    let shown = town
        .gateway
        .home
        .cli(&["tool", "show", "files/read", "--json"])
        .success();
    assert!(
        shown.contains("inputSchema") && shown.contains(&canonical_hash(&tool("read"))),
        "{shown}"
    );
    assert_eq!(town.gateway.home.cli(&["tool", "show", "files/none"]).code, Some(1));
    assert_ne!(town.gateway.home.cli(&["tool", "approve", "files/none"]).code, Some(0));
}

fn entries(home: &crate::support::setup::Home) -> Vec<Value> {
    let listed = home.cli(&["tool", "list", "--json"]).success();
    listed.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn entry(entries: &[Value], id: &str) -> Value {
    let (server, name) = id.split_once('/').unwrap();
    let found = entries
        .iter()
        .find(|entry| entry["id"] == id || (entry["server"] == server && entry["name"] == name));
    found.unwrap_or_else(|| panic!("no {id} in {entries:?}")).clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_tools_are_listed_and_more_mark_the_server_degraded() {
    // R099
    let definitions: Vec<Value> = (0..10_001).map(|number| tool(&format!("t{number}"))).collect();
    let (issuer, most, more) = (
        Issuer::start().await,
        Server::start(&definitions[..10_000]).await,
        Server::start(&definitions).await,
    );
    let gateway = Setup::with(&issuer, &most).server("more", &more).start().await;
    let shown = async || {
        let listed = gateway.home.cli(&["server", "list", "--json"]).success();
        let lines = listed.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let facts = lines.map(|line| (line["id"].clone(), line["reach"].clone(), line["tools"].clone()));
        facts.collect::<Vec<_>>()
    };
    crate::support::eventually("both are discovered", 120, async || {
        shown().await.iter().all(|(_, reach, _)| reach != "unknown")
    })
    .await;
    assert_eq!(
        shown().await,
        [
            (json!("files"), json!("up"), json!(10_000)),
            (json!("more"), json!("degraded"), json!(10_000))
        ]
    );
    let listed = gateway.home.cli(&["server", "list", "--json"]).success();
    assert!(listed.contains("its list has more than 10,000 entries"), "{listed}");
}
