//! The inventory: what exists, how dangerous it is, whom it comes from, and that it stays what it was.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::support::environment;
use crate::support::records::canonical_hash;
use crate::support::{Agent, Issuer, Server, Setup, Town, tool};

#[tokio::test(flavor = "multi_thread")]
async fn every_tool_has_a_risk_and_a_trust() {
    // R099, R100, R101
    let hinted = |name: &str, hints: Value| {
        let mut definition = tool(name);
        definition["annotations"] = hints;
        definition
    };
    let definitions = [
        tool("plain"),
        hinted("reads", json!({"readOnlyHint": true, "openWorldHint": false})),
        hinted("mends", json!({"destructiveHint": false})),
        hinted("destroys", json!({"destructiveHint": true, "openWorldHint": true})),
        tool("lowered"),
        hinted("raised", json!({"readOnlyHint": true})),
    ];
    // A trusted server's word lowers a risk, a stranger's does not; the operator's stands above both.
    let trusted = ["high", "low", "medium", "high", "low", "critical"];
    let strange = ["high", "high", "high", "high", "low", "critical"];
    let issuer = Issuer::start().await;
    let (mut setup, mut expected) = (Setup::new().issuer(&issuer), Vec::new());
    let mut servers = Vec::new();
    for (trust, risks) in [
        ("internal", trusted),
        ("verified", trusted),
        ("community", strange),
        ("unknown", strange),
    ] {
        let server = Server::start(&definitions).await;
        setup = setup
            .server(trust, &server)
            .set(&format!("servers.{trust}.trust"), trust)
            .risk(&format!("{trust}/lowered"), "low")
            .risk(&format!("{trust}/raised"), "critical");
        for (definition, risk) in definitions.iter().zip(risks) {
            let id = format!("{trust}/{}", definition["name"].as_str().unwrap());
            expected.push((json!(id), json!(risk), json!(trust)));
        }
        servers.push(server);
    }
    let gateway = setup.start().await;
    Agent::connect(&gateway, "/mcp", &issuer.token("ann"))
        .await
        .list()
        .await;
    let found: BTreeSet<String> = entries(&gateway.home)
        .iter()
        .map(|entry| json!([entry["id"], entry["risk"], entry["trust"]]).to_string())
        .collect();
    let expected: BTreeSet<String> = expected.iter().map(|facts| json!(facts).to_string()).collect();
    assert_eq!(found, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_inventory_is_exported_as_its_schema_says() {
    // R104
    let town = Town::with(&["read", "write"], |setup| setup.set("servers.files.trust", "verified")).await;
    town.files.instruct("Read before you write.");
    town.agent("ann").await.list().await;
    town.files.forget_sessions();
    town.gateway.home.cli(&["server", "refresh", "files"]).success();
    town.gateway.home.cli(&["tool", "disable", "files/write"]).success();
    let exported = town.gateway.home.cli(&["tool", "list", "--json"]).success();
    let kept = environment::target().join("artefacts");
    std::fs::create_dir_all(&kept).unwrap();
    std::fs::write(kept.join("inventory.jsonl"), &exported).unwrap();
    let published = environment::repository().join("docs/schemas/inventory.schema.json");
    let published: Value = serde_json::from_str(&std::fs::read_to_string(published).unwrap()).unwrap();
    let schema = jsonschema::validator_for(&published).unwrap();
    let entries = entries(&town.gateway.home);
    assert_eq!(exported.lines().count(), entries.len());
    let ids: Vec<&Value> = entries.iter().map(|entry| &entry["id"]).collect();
    assert_eq!(ids, ["files/read", "files/write", "files"]);
    let facts = |entry: &Value| json!([entry["kind"], entry["standing"]]);
    assert_eq!(
        entries.iter().map(facts).collect::<Vec<_>>(),
        [
            json!(["tool", "approved"]),
            json!(["tool", "disabled"]),
            json!(["instructions", "approved"]),
        ]
    );
    for entry in entries {
        assert!(
            schema.is_valid(&entry),
            "{:?}",
            schema.iter_errors(&entry).map(|e| e.to_string()).collect::<Vec<_>>()
        );
        assert_eq!(entry["trust"], "verified");
        for (member, wrong) in [
            ("trust", json!("friendly")),
            ("risk", json!(null)),
            ("kind", json!("thing")),
            ("standing", json!("fine")),
        ] {
            let mut bad = entry.clone();
            bad[member] = wrong;
            assert!(!schema.is_valid(&bad), "the schema takes anything for {member}");
            bad.as_object_mut().unwrap().remove(member);
            assert!(!schema.is_valid(&bad), "the schema does without {member}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trust_or_risk_nobody_knows_stops_the_start() {
    // R101, R103
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
    // R101
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
    // R063
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
async fn a_tool_that_a_stranger_adds_while_it_runs_waits_for_approval() {
    // R102
    for (trust, waits) in [
        ("community", true),
        ("unknown", true),
        ("internal", false),
        ("verified", false),
    ] {
        let town = Town::with(&["read"], |setup| setup.set("servers.files.trust", trust)).await;
        let agent = town.agent("ann").await;
        agent.list().await;
        let home = &town.gateway.home;
        if trust == "unknown" {
            home.cli(&["tool", "approve", "files/read"]).success();
        }
        assert_eq!(agent.names().await, ["read"], "{trust}");
        town.files.offer(&[tool("read"), tool("surprise")]);
        home.cli(&["server", "refresh", "files"]).success();
        let standing = entry(&entries(home), "files/surprise")["standing"].clone();
        if waits {
            assert_eq!(standing, "quarantined", "{trust}");
            assert_eq!(agent.names().await, ["read"], "{trust}");
            let refused = agent.call("surprise", json!({})).await;
            assert_eq!(refused.error_code(), -32602, "{trust}");
            assert_eq!(
                town.gateway.receipt_named_by(&refused)["decision"]["reason_codes"],
                json!(["DENY_TOOL_QUARANTINED"]),
                "{trust}"
            );
            assert_eq!(town.files.calls().len(), 0, "{trust}");
            home.cli(&["tool", "approve", "files/surprise"]).success();
        }
        assert_eq!(
            entry(&entries(home), "files/surprise")["standing"],
            "approved",
            "{trust}"
        );
        assert_eq!(agent.names().await, ["read", "surprise"], "{trust}");
        assert_eq!(
            agent.call("surprise", json!({})).await.result()["isError"],
            false,
            "{trust}"
        );
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
    assert_eq!(names, ["write"]);
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

pub(super) fn entries(home: &crate::support::setup::Home) -> Vec<Value> {
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
