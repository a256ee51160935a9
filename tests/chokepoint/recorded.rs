//! Decisions about results on record: found by type and status beside all others, shown with every field, by people and
//! by programs.

use serde_json::{Value, json};

use super::scene::{GRAVE, TOKEN, VIOLATION, counted, decisions, declaring, texts};
use crate::support::records::{list, sha256};
use crate::support::{Act, Setup, Town, tool};

/// Every field of a decision, in whatever status.
const FIELDS: [&str; 22] = [
    "v",
    "type",
    "log",
    "seq",
    "ts",
    "receipt_id",
    "principal",
    "session",
    "server_id",
    "tool_name",
    "status",
    "stage",
    "mode",
    "guard",
    "path",
    "keyword",
    "schema_hash",
    "findings",
    "stripped",
    "message",
    "prev_hash",
    "record_hash",
];

/// A town that has seen one of each: a violation in this mode, a denial, a secret masked and characters taken out.
async fn eventful(mode: &str) -> Town {
    let policy = r#"permit (principal, action, resource) unless { resource == Tool::"files/denied" && context.args has amount };"#;
    let tools = [
        declaring("violate", &counted()),
        tool("secret"),
        tool("hidden"),
        tool("denied"),
        tool("fine"),
    ];
    let town = Town::offering(&tools, |setup: Setup| {
        setup
            .policy(policy)
            .set("servers.files.trust", "community")
            .set("output_validation.mode", mode)
            .set(
                "output_sanitisation",
                json!({"response_action": "redact", "strip_control_chars": true}),
            )
    })
    .await;
    town.files.on("violate", Act::Answer(VIOLATION.to_owned()));
    town.files.on("secret", Act::Answer(texts(&[TOKEN, GRAVE])));
    town.files.on("hidden", Act::Answer(texts(&["a\u{200b}b\u{1b}[0m"])));
    let agent = town.agent("ann").await;
    for name in ["violate", "secret", "hidden", "fine"] {
        agent.call(name, json!({})).await;
    }
    agent.call("denied", json!({"amount": 1})).await;
    town
}

#[tokio::test(flavor = "multi_thread")]
async fn decisions_are_listed_by_type_and_status_beside_all_others() {
    // R019, R021, R024, R088
    for (mode, status, other) in [("strict", "blocked", "warning"), ("warn", "warning", "blocked")] {
        let town = eventful(mode).await;
        let home = &town.gateway.home;
        let of = |status: &str| decisions(home, &["--status", status]);
        let found = of(status);
        assert_eq!((found.len(), &found[0]["tool_name"]), (1, &json!("violate")), "{mode}");
        assert_eq!((of("redacted").len(), of("stripped").len()), (1, 1), "{mode}");
        for none in [other, "allowed", "denied"] {
            assert_eq!(of(none), Vec::<Value>::new(), "{mode} {none}");
        }
        assert_eq!(decisions(home, &[]).len(), 3, "{mode}: none for what is fine");
        for record in decisions(home, &[]) {
            let names: Vec<String> = record.as_object().unwrap().keys().cloned().collect();
            let mut golden = FIELDS.to_vec();
            golden.sort_unstable();
            assert_eq!(names, golden, "{mode}: {record}");
        }
        assert_eq!(
            decisions(home, &["--tool", "violate", "--server", "files", "--principal", "ann"]).len(),
            1,
            "{mode}"
        );
        assert_eq!(decisions(home, &["--tool", "fine"]).len(), 0, "{mode}");
        let all = list(home, &["--limit", "1000"]);
        let denied = |record: &&Value| record["type"] == "request" && record["decision"]["result"] == "deny";
        assert_eq!(all.iter().filter(denied).count(), 1, "{mode}: one list for both");
        assert!(
            all.iter()
                .any(|record| record["type"] == "policy_decision" && record["status"] == status),
            "{mode}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_table_for_people_names_status_server_and_tool_of_each_decision() {
    // R021
    let town = eventful("strict").await;
    let table = town
        .gateway
        .home
        .cli(&["activity", "list", "--type", "policy_decision"])
        .success();
    let rows: Vec<&str> = table.lines().filter(|line| line.contains("policy_decision")).collect();
    assert_eq!(rows.len(), 3, "{table}");
    for (row, words) in rows.iter().rev().zip([
        ["files/violate", "blocked", "output schema validation failed"],
        ["files/secret", "redacted", "1 api_token"],
        ["files/hidden", "stripped", "1 ansi"],
    ]) {
        for word in words.iter().chain(&["ann"]) {
            assert!(row.contains(word), "{word:?} is missing: {row}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_is_shown_with_every_field_in_both_forms() {
    // R022, R025, R053
    let schema_hash = sha256(counted().to_string().as_bytes());
    for (mode, status) in [("strict", "blocked"), ("warn", "warning")] {
        let town = eventful(mode).await;
        let home = &town.gateway.home;
        let listed = decisions(home, &["--status", status])[0].clone();
        let seq = listed["seq"].to_string();
        let shown: Value = serde_json::from_str(&home.cli(&["activity", "show", &seq, "--json"]).success()).unwrap();
        assert_eq!(shown, listed);
        for (field, value) in [
            ("type", "policy_decision"),
            ("server_id", "files"),
            ("tool_name", "violate"),
            ("mode", mode),
            ("status", status),
            ("stage", "validation"),
            ("path", "/n"),
            ("keyword", "type"),
            ("schema_hash", schema_hash.as_str()),
        ] {
            assert_eq!(shown[field], value, "{field}: {shown}");
        }
        let message = shown["message"].as_str().unwrap();
        assert!(
            message.starts_with("output schema validation failed: /n: type"),
            "{message}"
        );
        assert!(!shown.to_string().contains("VIOLATION"), "{shown}");
        let sheet = home.cli(&["activity", "show", &seq]).success();
        for word in ["files", "violate", mode, status, "/n", "type", &schema_hash, message] {
            assert!(sheet.contains(word), "{word:?} is missing: {sheet}");
        }
        let secret = decisions(home, &["--status", "redacted"])[0].clone();
        let found = json!([{"category": "api_token", "length": TOKEN.len(), "place": "/content/0/text", "rule": "github-personal-token"},
            {"category": "cloud_credentials", "length": GRAVE.len(), "place": "/content/1/text", "rule": "gcp-api-key"}]);
        assert_eq!(secret["findings"], found, "{secret}");
        let sheet = home.cli(&["activity", "show", &secret["seq"].to_string()]).success();
        for word in ["api_token", "github-personal-token", "/content/0/text", "redact"] {
            assert!(sheet.contains(word), "{word:?} is missing: {sheet}");
        }
        let hidden = decisions(home, &["--status", "stripped"])[0].clone();
        assert_eq!(hidden["stripped"], json!({"ansi": 1, "zero_width": 1}), "{hidden}");
        for unknown in ["9999999", "rcp_none"] {
            assert_eq!(home.cli(&["activity", "show", unknown]).code, Some(1));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_status_nobody_knows_is_a_wrong_call() {
    // R024
    let home = Setup::new().home();
    assert_eq!(home.cli(&["activity", "list", "--status", "fenced"]).code, Some(2));
}
