//! Output schemas that cannot be used, definitions that a person is to look at, and secrets on their way out.

use serde_json::{Value, json};

use super::scene::{SCHEMA, TOKEN, decisions, declaring, is_verbatim, is_withheld};
use crate::support::setup::Home;
use crate::support::{Act, Setup, Town, eventually, tool};

const STRUCTURED: &str = r#"{"content":[],"structuredContent":{"n":"anything"}}"#;

/// Schemas that nobody can use, each for a reason of its own.
fn broken() -> [Value; 5] {
    let mut doubling = serde_json::Map::new();
    for link in 0..26 {
        let next = json!({"$ref": format!("#/$defs/d{}", link + 1)});
        doubling.insert(format!("d{link}"), json!({"allOf": [next, next]}));
    }
    doubling.insert("d26".to_owned(), json!({"type": "integer"}));
    [
        json!({"type": 7}),
        json!({"$schema": "https://example.com/no-such-dialect", "type": "object"}),
        json!({"$ref": "http://127.0.0.1:9/schema.json"}),
        json!({"$ref": "file:///etc/passwd"}),
        json!({"$defs": doubling, "$ref": "#/$defs/d0"}),
    ]
}

fn warnings(home: &Home) -> Vec<(Value, Value)> {
    let all = decisions(home, &["--status", "warning"]);
    let about = |record: &Value| (record["tool_name"].clone(), record["keyword"].clone());
    all.iter().map(about).collect()
}

fn tools(home: &Home, options: &[&str]) -> Vec<Value> {
    let command = [&["tool", "list", "--json"], options].concat();
    let listed = home.cli(&command).success();
    listed.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn output_of(home: &Home, tool: &str) -> Value {
    let found = tools(home, &[]).into_iter().find(|shown| shown["name"] == tool);
    found.unwrap_or_default()["output_schema"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_that_cannot_be_used_warns_once_and_stops_nothing() {
    // R029, R041
    let tools: Vec<Value> = broken()
        .iter()
        .enumerate()
        .map(|(index, schema)| declaring(&format!("broken{index}"), schema))
        .collect();
    let mut offered = tools.clone();
    offered.push(declaring("vacuous", &json!({})));
    offered.push(declaring("honest", &json!({"type": "object"})));
    let town = Town::offering(&offered, |setup: Setup| setup.set("servers.files.trust", "verified")).await;
    let agent = town.agent("ann").await;
    for index in 0..tools.len() {
        let name = format!("broken{index}");
        town.files.on(&name, Act::Answer(STRUCTURED.to_owned()));
        let calls = if index == 0 { 100 } else { 4 };
        for _ in 0..calls {
            assert!(is_verbatim(&agent.call(&name, json!({})).await, STRUCTURED), "{name}");
        }
        assert_eq!(output_of(&town.gateway.home, &name), "unusable", "{name}");
    }
    assert_eq!(output_of(&town.gateway.home, "vacuous"), "vacuous");
    assert_eq!(output_of(&town.gateway.home, "honest"), "enforced");
    let expected: Vec<(Value, Value)> = (0..tools.len())
        .map(|index| (json!(format!("broken{index}")), json!("uncompilable_schema")))
        .collect();
    let mut warned = warnings(&town.gateway.home);
    warned.sort_by_key(|(name, _)| name.to_string());
    assert_eq!(warned, expected, "one for each tool");
    let town = town
        .restarted_with(|setup| {
            setup
                .set("output_validation.mode", "strict")
                .set("output_validation.uncompilable_schema", "block")
        })
        .await;
    let agent = town.agent("ann").await;
    is_withheld("blocked", &agent.call("broken0", json!({})).await.last(), SCHEMA);
    assert_eq!(warnings(&town.gateway.home).len(), tools.len(), "a restart adds none");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_input_schema_that_cannot_be_used_quarantines_and_one_with_unchecked_patterns_is_marked() {
    let taking = |name: &str, property: Value| {
        let schema = json!({"type": "object", "properties": {"a": property}});
        json!({"name": name, "inputSchema": schema})
    };
    let offered = [
        taking("plain", json!({"type": "string", "pattern": "^a+$"})),
        taking("unchecked", json!({"type": "string", "pattern": "^(?=a)a$"})),
        taking("broken", json!({"type": "string", "pattern": "^(a"})),
        taking("marked", json!({"type": "string", "x-mcp-header": "no token"})),
        taking("nothing", json!({"type": 7})),
    ];
    let town = Town::offering(&offered, |setup: Setup| setup.set("servers.files.trust", "verified")).await;
    let home = &town.gateway.home;
    eventually("the server is discovered", 20, async || {
        tools(home, &[]).len() == offered.len()
    })
    .await;
    let listed = tools(home, &[]);
    let shown = |name: &str| listed.iter().find(|tool| tool["name"] == name).unwrap();
    assert_eq!(shown("plain")["input_schema"], "enforced");
    assert_eq!(shown("unchecked")["input_schema"], "partly");
    let records = home.cli(&["activity", "list", "--type", "inventory", "--limit", "100", "--json"]);
    let records: Vec<Value> = records
        .success()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let told = |name: &str| {
        let added = records
            .iter()
            .find(|record| record["subject"] == format!("files/{name}") && record["action"] == "tool_added");
        added.unwrap_or_else(|| panic!("{name}: {records:?}"))["message"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert!(told("plain").ends_with(": approved"), "{}", told("plain"));
    for (name, why) in [
        ("broken", "a pattern that is not a regular expression"),
        ("marked", "an `x-mcp-header` mark that is not valid"),
        ("nothing", "not a schema that arguments can be checked with"),
    ] {
        assert_eq!(shown(name)["standing"], "quarantined", "{name}");
        assert!(
            shown(name)["cause"].as_str().unwrap().contains(why),
            "{:?}",
            shown(name)
        );
        assert!(
            told(name).contains("quarantined: ") && told(name).contains(why),
            "{}",
            told(name)
        );
    }
    assert_eq!(town.agent("ann").await.names().await, ["plain", "unchecked"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_that_accepts_everything_counts_as_declared_and_is_marked() {
    // R032
    // Attack 23
    let vacuous = [
        json!({}),
        json!(true),
        json!({"title": "anything", "description": "at all", "$defs": {"n": {"type": "integer"}}}),
        json!({"allOf": [true, {}], "properties": {"n": true}, "if": {"type": "string"}}),
        json!({"pattern": "(?=x)"}),
    ];
    let twins = [
        json!({"type": "object"}),
        json!({"properties": {"n": {"type": "string"}}}),
    ];
    let named = |kind: &str, schemas: &[Value]| -> Vec<Value> {
        let numbered = schemas.iter().enumerate();
        numbered
            .map(|(n, schema)| declaring(&format!("{kind}{n}"), schema))
            .collect()
    };
    let offered = [named("vacuous", &vacuous), named("twin", &twins), vec![tool("plain")]].concat();
    let strict = |setup: Setup| {
        setup
            .set("servers.files.trust", "verified")
            .set("output_validation.mode", "strict")
            .set("output_validation.missing_structured_content", "block")
            .set("output_validation.uncompilable_schema", "block")
    };
    let town = Town::offering(&offered, strict).await;
    let agent = town.agent("ann").await;
    let home = &town.gateway.home;
    let missing = r#"{"content":[]}"#;
    for n in 0..vacuous.len() {
        let name = format!("vacuous{n}");
        assert_eq!(output_of(home, &name), "vacuous", "{name}");
        let shown = home.cli(&["tool", "show", &format!("files/{name}")]).success();
        assert!(shown.contains("vacuous"), "{name}: {shown}");
        for anything in [STRUCTURED, r#"{"content":[],"structuredContent":[null]}"#] {
            town.files.on(&name, Act::Answer(anything.to_owned()));
            assert!(is_verbatim(&agent.call(&name, json!({})).await, anything), "{name}");
        }
        town.files.on(&name, Act::Answer(missing.to_owned()));
        is_withheld(&name, &agent.call(&name, json!({})).await.last(), SCHEMA);
    }
    for n in 0..twins.len() {
        let name = format!("twin{n}");
        assert_eq!(output_of(home, &name), "enforced", "{name}");
        let wrong = r#"{"content":[],"structuredContent":{"n":7}}"#;
        town.files.on(&name, Act::Answer(wrong.to_owned()));
        let answer = agent.call(&name, json!({})).await;
        assert_eq!(is_verbatim(&answer, wrong), n == 0, "{name}: {}", answer.text());
    }
    town.files.on("plain", Act::Answer(missing.to_owned()));
    assert!(
        is_verbatim(&agent.call("plain", json!({})).await, missing),
        "nothing is declared"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_with_what_nobody_sees_waits_for_a_person() {
    let mut hidden = tool("hidden");
    hidden["description"] = json!("adds numbers\u{e0069}\u{e0067}");
    let town = Town::offering(&[hidden, tool("plain")], |setup: Setup| {
        setup.set("servers.files.trust", "verified")
    })
    .await;
    let agent = town.agent("ann").await;
    assert_eq!(agent.names().await, ["plain"]);
    let home = &town.gateway.home;
    assert_eq!(tools(home, &["--quarantined"])[0]["cause"], "doubtful");
    home.cli(&["tool", "approve", "files/hidden"]).success();
    assert_eq!(agent.names().await, ["hidden", "plain"], "a person looked at it");
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_in_arguments_are_recorded_or_refused_as_the_operator_says() {
    for (mode, runs) in [("off", true), ("warn", true), ("block", false)] {
        let town = Town::with(&["work"], |setup: Setup| setup.set("detection.arguments", mode)).await;
        let agent = town.agent("ann").await;
        let clean = agent.call("work", json!({"path": "notes.txt"})).await;
        let answer = agent.call("work", json!({"path": TOKEN})).await;
        let home = &town.gateway.home;
        assert_eq!(
            answer.last()["result"]["isError"] != json!(true),
            runs,
            "{mode}: {}",
            answer.text()
        );
        assert!(!clean.text().contains("DENY"), "{mode}");
        let told: Vec<Value> = decisions(home, &[])
            .iter()
            .map(|record| record["status"].clone())
            .collect();
        match mode {
            "off" => assert_eq!(told, Vec::<Value>::new()),
            "warn" => assert_eq!(told, ["warning"]),
            _ => {
                assert_eq!(told, ["blocked"]);
                assert_eq!(answer.reason_codes(), ["DENY_SECRET_IN_ARGUMENTS"]);
            }
        }
        assert!(!format!("{:?}", decisions(home, &[])).contains(TOKEN), "{mode}");
        assert!(!answer.text().contains(TOKEN), "{mode}");
    }
}
