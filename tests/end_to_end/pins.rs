//! The operator's word on single things, and pins of everything a server says of itself.

use serde_json::{Value, json};

use super::inventory::entries;
use crate::support::records;
use crate::support::setup::Home;
use crate::support::{Town, tool};

/// The members of a definition, each changed in one way or taken out (`null`).
const CHANGES: &[(&str, &str)] = &[
    ("/title", r#""another""#),
    ("/title", "null"),
    ("/description", r#""says more""#),
    ("/description", r#""Reads a file.\u200b""#),
    ("/description", "null"),
    ("/annotations/readOnlyHint", "false"),
    ("/annotations/readOnlyHint", "null"),
    ("/annotations/destructiveHint", "true"),
    ("/annotations/idempotentHint", "false"),
    ("/annotations/openWorldHint", "true"),
    ("/annotations/title", r#""b""#),
    ("/annotations/audience", r#"["user"]"#),
    ("/annotations", "null"),
    ("/_meta/example.com~1a", "2"),
    ("/_meta/example.com~1a", "null"),
    ("/_meta/example.com~1b", r#"{"deep":[1,{"x":2}]}"#),
    ("/_meta/example.com~1c", "true"),
    ("/_meta", "null"),
    ("/icons/0/src", r#""https://icons.example/b.png""#),
    ("/icons/0/mimeType", r#""image/svg+xml""#),
    ("/icons/0/sizes", r#"["96x96"]"#),
    ("/icons/0/theme", r#""dark""#),
    ("/icons", "[]"),
    ("/icons", "null"),
    ("/execution/taskSupport", r#""optional""#),
    ("/execution", "null"),
    ("/unknown", "[1,2,4]"),
    ("/unknown", "null"),
    ("/unheard", r#""of""#),
    ("/other/nested/member", "null"),
    ("/other/nested/member", "1"),
    ("/other/nested/further", "false"),
    ("/inputSchema/additionalProperties", "true"),
    ("/inputSchema/additionalProperties", "null"),
    ("/inputSchema/required", r#"["path","mode"]"#),
    ("/inputSchema/required", "[]"),
    ("/inputSchema/required", "null"),
    ("/inputSchema/title", r#""B""#),
    ("/inputSchema/description", r#""of it""#),
    ("/inputSchema/$comment", r#""a word""#),
    ("/inputSchema/properties/path/type", r#"["string","null"]"#),
    ("/inputSchema/properties/path/description", r#""where else""#),
    ("/inputSchema/properties/path/maxLength", "200"),
    ("/inputSchema/properties/path/maxLength", "null"),
    ("/inputSchema/properties/path/minLength", "1"),
    ("/inputSchema/properties/path/default", r#""/tmp""#),
    ("/inputSchema/properties/path/format", r#""uri""#),
    ("/inputSchema/properties/mode/enum", r#"["r"]"#),
    ("/inputSchema/properties/mode/enum", r#"["w","r"]"#),
    ("/inputSchema/properties/mode/enum", r#"["r","w","x"]"#),
    ("/inputSchema/properties/mode", "null"),
    ("/inputSchema/properties/force", r#"{"type":"boolean"}"#),
    ("/inputSchema/properties/tags/items/type", r#""integer""#),
    ("/inputSchema/properties/tags/maxItems", "4"),
    ("/inputSchema/x-unknown", "1"),
    ("/outputSchema/properties/n/type", r#""number""#),
    ("/outputSchema/properties/n/description", r#""a count""#),
    ("/outputSchema/properties/m", r#"{"type":"string"}"#),
    ("/outputSchema/required", "null"),
    ("/outputSchema/additionalProperties", "false"),
    ("/outputSchema", "null"),
];

/// A definition with every member there is, and some nobody knows.
fn full(name: &str) -> Value {
    json!({
        "name": name, "title": "Reader", "description": "Reads a file.",
        "annotations": {"title": "a", "readOnlyHint": true, "destructiveHint": false, "idempotentHint": true,
            "openWorldHint": false},
        "_meta": {"example.com/a": 1, "example.com/b": {"deep": [1, {"x": 1}]}},
        "icons": [{"src": "https://icons.example/a.png", "mimeType": "image/png", "sizes": ["48x48"]}],
        "execution": {"taskSupport": "forbidden"},
        "unknown": [1, 2, 3], "other": {"nested": {"member": "x"}},
        "inputSchema": {"type": "object", "title": "A", "required": ["path"], "additionalProperties": false, "properties": {
            "path": {"type": "string", "description": "where", "maxLength": 100},
            "mode": {"type": "string", "enum": ["r", "w"]},
            "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 3}}},
        "outputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
    })
}

/// The definition with one member set, or taken out where the value is `null`.
pub(super) fn changed(mut definition: Value, pointer: &str, value: &str) -> Value {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    let name = name.replace("~1", "/");
    let value: Value = serde_json::from_str(value).unwrap();
    let parent = definition.pointer_mut(parent).unwrap_or_else(|| panic!("no {parent}"));
    let members = parent.as_object_mut().unwrap();
    match value.is_null() {
        true => drop(members.remove(&name).unwrap_or_else(|| panic!("no {pointer}"))),
        false => drop(members.insert(name, value)),
    }
    definition
}

/// The same value with every object's members the other way round, and blanks between.
pub(super) fn spelled_otherwise(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let members: Vec<String> = members
                .iter()
                .rev()
                .map(|(name, value)| format!(" {} :\t{}", json!(name), spelled_otherwise(value)))
                .collect();
            format!("{{{}\n}}", members.join(" ,\r\n"))
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(spelled_otherwise).collect();
            format!("[ {} ]", items.join(" , "))
        }
        other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => other.to_string(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_change_of_every_member_quarantines_and_is_recorded_and_nothing_else_does() {
    // R215
    assert!(CHANGES.len() >= 60, "{}", CHANGES.len());
    let names: Vec<String> = (0..CHANGES.len()).map(|number| format!("t{number:02}")).collect();
    let honest: Vec<Value> = names.iter().map(|name| full(name)).collect();
    let town = Town::with(&[], |setup| setup).await;
    town.files.offer(&honest);
    town.files.instruct("Read before you write.");
    let town = town.restarted().await;
    town.gateway.home.cli(&["server", "refresh", "files"]).success();
    let agent = town.agent("ann").await;
    assert_eq!(agent.names().await, names);
    // Orders, blanks and restarts say nothing.
    let before = told(&town.gateway.home);
    town.files
        .offer_raw(honest.iter().rev().map(spelled_otherwise).collect());
    town.gateway.home.cli(&["server", "refresh", "files"]).success();
    let town = town.restarted().await;
    let (agent, home) = (town.agent("ann").await, &town.gateway.home);
    home.cli(&["server", "refresh", "files"]).success();
    let mut listed = agent.names().await;
    listed.sort();
    assert_eq!(listed, names);
    assert_eq!(told(home), before, "nothing has changed");
    let changes: Vec<Value> = honest
        .iter()
        .zip(CHANGES)
        .map(|(definition, (pointer, value))| changed(definition.clone(), pointer, value))
        .collect();
    town.files.offer(&changes);
    town.files.instruct("Write before you read.");
    town.files.forget_sessions();
    home.cli(&["server", "refresh", "files"]).success();
    assert!(agent.names().await.is_empty(), "each of them waits");
    let (entries, after) = (entries(home), told(home));
    assert_eq!(after.len(), before.len() + CHANGES.len() + 1, "one record for each");
    for (name, (pointer, value)) in names.iter().zip(CHANGES) {
        let what = format!("{pointer} {value}");
        let entry = entries.iter().find(|entry| entry["name"] == **name).unwrap();
        assert_eq!(
            (&entry["standing"], &entry["cause"]),
            (&json!("quarantined"), &json!("changed")),
            "{what}"
        );
        let record = ["tool_changed", "system", &format!("files/{name}")];
        assert!(after.iter().any(|told| *told == record), "{what}");
        assert_eq!(
            agent.call(name, json!({"path": "a"})).await.error_code(),
            -32602,
            "{what}"
        );
    }
    let instructions = entries.iter().find(|entry| entry["kind"] == "instructions").unwrap();
    assert_eq!(
        (&instructions["id"], &instructions["cause"]),
        (&json!("files"), &json!("changed"))
    );
    assert!(after.iter().any(|[action, ..]| action == "instructions_changed"));
    assert_eq!(town.files.calls().len(), 0);
    // Each is approved with what changed in it told, and with a record of its own.
    let approved = home.cli(&["tool", "approve", "--changed", "--json"]).success();
    assert_eq!(approved.lines().count(), CHANGES.len() + 1);
    for line in approved.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        assert!(!line["diff"]["changes"].as_array().unwrap().is_empty(), "{line}");
    }
    let after = told(home);
    for name in &names {
        let subject = format!("files/{name}");
        let of_it = after
            .iter()
            .filter(|[action, _, about]| action == "tool_approved" && *about == subject);
        assert_eq!(of_it.count(), 1, "{name}");
    }
    assert_eq!(agent.names().await.len(), names.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_changed_is_told_in_words_and_approved_as_it_was_told() {
    let town = Town::with(&[], |setup| setup).await;
    town.files.offer(&[full("read"), full("write"), full("left")]);
    town.files.instruct("Be kind.");
    let town = town.restarted().await;
    let agent = town.agent("ann").await;
    assert_eq!(agent.names().await.len(), 3);
    let mut worse = full("read");
    for (pointer, value) in [
        ("/description", r#""Reads a file.\u202e""#),
        ("/annotations/readOnlyHint", "false"),
        ("/inputSchema/properties/path/maxLength", "50"),
        ("/inputSchema/properties/mode/enum", r#"["r","w","x"]"#),
        ("/inputSchema/properties/force", r#"{"type":"boolean"}"#),
        ("/unknown", "null"),
        ("/_meta/example.com~1a", "2"),
    ] {
        worse = changed(worse, pointer, value);
    }
    town.files.offer(&[
        worse,
        changed(full("write"), "/title", r#""w""#),
        full("left"),
        full("new"),
    ]);
    town.files.instruct("Be cruel.");
    town.files.forget_sessions();
    let home = &town.gateway.home;
    home.cli(&["server", "refresh", "files"]).success();
    let told: Value = serde_json::from_str(&home.cli(&["tool", "diff", "files/read", "--json"]).success()).unwrap();
    let entry = entry(home, "files/read");
    assert_eq!(
        (&told["old_hash"], &told["new_hash"]),
        (&entry["approved_hash"], &entry["definition_hash"])
    );
    assert_eq!(
        (&told["old_risk"], &told["new_risk"]),
        (&json!("low"), &json!("medium"))
    );
    let changes: Vec<Value> = told["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| json!([one["path"], one["kind"]]))
        .collect();
    assert_eq!(
        changes,
        [
            json!(["/_meta/example.com~1a", "other"]),
            json!(["/annotations/readOnlyHint", "flipped"]),
            json!(["/description", "reworded"]),
            json!(["/inputSchema/properties/force", "added"]),
            json!(["/inputSchema/properties/mode/enum", "widened"]),
            json!(["/inputSchema/properties/path/maxLength", "narrowed"]),
            json!(["/unknown", "removed"]),
        ]
    );
    let reworded = &told["changes"][2];
    assert_eq!(reworded["new"], "Reads a file.<U+202E>");
    let text = home.cli(&["tool", "diff", "files/read"]).success();
    assert!(
        text.contains("U+202E") && !text.contains('\u{202e}') && !text.contains('\u{1b}'),
        "{text}"
    );
    assert!(
        text.contains("risk changed: low -> medium") && text.contains("narrowed"),
        "{text}"
    );
    let instructions: Value = serde_json::from_str(&home.cli(&["tool", "diff", "files", "--json"]).success()).unwrap();
    assert_eq!(
        instructions["changes"],
        json!([{"path": "", "kind": "reworded", "old": "Be kind.", "new": "Be cruel."}])
    );
    // What changed after somebody looked is another one.
    let stale = [
        "tool",
        "approve",
        "files/read",
        "--hash",
        entry["approved_hash"].as_str().unwrap(),
    ];
    assert_eq!(home.cli(&stale).code, Some(1));
    let approved = home.cli(&["tool", "approve", "files/read"]).success();
    assert!(
        approved.contains("narrowed") && approved.contains("is approved as"),
        "{approved}"
    );
    let nothing: Value = serde_json::from_str(&home.cli(&["tool", "diff", "files/read", "--json"]).success()).unwrap();
    assert_eq!(nothing["changes"], json!([]));
    home.cli(&["tool", "approve", "--server", "files"]).success();
    assert!(
        entries(home).iter().all(|entry| entry["standing"] == "approved"),
        "{:?}",
        entries(home)
    );
    assert!(is_told(home, "instructions_approved", "files"));
    assert_eq!(agent.names().await.len(), 4);
    for wrong in [
        &["tool", "approve"][..],
        &["tool", "approve", "files/read", "--changed"],
        &["tool", "approve", "--changed", "--hash", "sha256:00"],
        &["tool", "list", "--kind", "thing"],
    ] {
        assert_eq!(home.cli(wrong).code, Some(2), "{wrong:?}");
    }
    assert_eq!(home.cli(&["tool", "approve", "--server", "none"]).code, Some(1));
    assert_eq!(home.cli(&["tool", "diff", "files/none"]).code, Some(1));
    home.cli(&["tool", "approve", "--changed"]).success();
}

/// One line of the inventory.
pub(super) fn entry(home: &Home, id: &str) -> Value {
    let entries = entries(home);
    let found = entries.iter().find(|entry| entry["id"] == id);
    found.unwrap_or_else(|| panic!("no {id} in {entries:?}")).clone()
}

/// What the log says of the inventory: action, actor and subject.
pub(super) fn told(home: &Home) -> Vec<[String; 3]> {
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

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_shown_with_its_trust_its_identity_its_limits_and_how_its_things_stand() {
    let town = Town::with(&["read", "write", "wipe"], |setup| setup.set("limits.timeout", "7s")).await;
    town.agent("ann").await.list().await;
    town.files
        .offer(&[changed(tool("read"), "/title", r#""x""#), tool("write"), tool("wipe")]);
    let home = &town.gateway.home;
    home.cli(&["server", "refresh", "files"]).success();
    home.cli(&["tool", "disable", "files/wipe"]).success();
    let shown: Value = serde_json::from_str(&home.cli(&["server", "show", "files", "--json"]).success()).unwrap();
    assert_eq!(
        shown["standings"],
        json!({"tool": {"approved": 1, "quarantined": 1, "disabled": 1}})
    );
    assert_eq!((&shown["tier"], &shown["version"]), (&json!("none"), &Value::Null));
    assert_eq!(
        (&shown["limits"]["timeout_seconds"], &shown["eras"]),
        (&json!(7), &json!(["legacy"]))
    );
    assert_eq!(shown["identity"]["url"], json!(town.files.url()));
    assert!(shown["trust"].is_string(), "{shown}");
    let text = home.cli(&["server", "show", "files"]).success();
    for line in [
        "standings.tool.quarantined",
        "identity.url",
        "limits.timeout_seconds",
        "trust",
        "tier",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let shown = home.cli(&["tool", "show", "files/wipe"]).success();
    for line in [
        "standing",
        "disabled.by",
        "risk_source",
        "approved_hash",
        "definition.name",
    ] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
}
