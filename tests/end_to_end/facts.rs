//! Facts of a receipt that only show over several calls: outcome, trust, approval.

use serde_json::{Value, json};

use super::inventory::entries;
use crate::support::{Act, Setup, Town, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn a_status_is_success_error_or_timeout_and_says_whether_the_tool_ran() {
    // R187
    let policy = r#"permit (principal, action, resource) unless { resource == Tool::"files/hidden" };
                    forbid (principal, action, resource) when { context.args has amount && context.args.amount > 5 };"#;
    let mut declared = crate::support::tool("lies");
    declared["outputSchema"] = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let tool = crate::support::tool;
    let definitions = [
        tool("works"),
        tool("fails"),
        tool("breaks"),
        tool("hangs"),
        tool("hidden"),
        declared,
    ];
    let town = Town::offering(&definitions, |setup: Setup| {
        setup
            .policy(policy)
            .set("output_validation.mode", "strict")
            .set("limits.timeout", "3s")
    })
    .await;
    let failed = r#"{"content":[],"isError":true}"#;
    town.files.on("fails", Act::Answer(failed.to_owned()));
    town.files.on("breaks", Act::Status(500));
    town.files.on("hangs", Act::Hang);
    let lie = r#"{"content":[],"structuredContent":{"n":"no"}}"#;
    town.files.on("lies", Act::Answer(lie.to_owned()));
    let agent = town.agent("ann").await;
    for (name, arguments, status, executed, ran) in [
        ("works", json!({}), "success", json!(true), 1),
        ("fails", json!({}), "error", json!(true), 1),
        ("breaks", json!({}), "error", Value::Null, 1),
        ("hangs", json!({}), "timeout", Value::Null, 1),
        ("lies", json!({}), "error", json!(true), 1),
        ("works", json!({"amount": 6}), "error", json!(false), 0),
        ("works", json!({"unknown": 6}), "error", json!(false), 0),
        ("hidden", json!({}), "error", json!(false), 0),
        ("nothing", json!({}), "error", json!(false), 0),
    ] {
        let case = format!("{name} {arguments}");
        let before = town.files.calls().len();
        let answer = agent.call(name, arguments).await;
        let outcome = town.gateway.receipt_of(&answer)["outcome"].clone();
        assert_eq!(
            (&outcome["status"], &outcome["executed"]),
            (&json!(status), &executed),
            "{case}"
        );
        assert_eq!(town.files.calls().len() - before, ran, "{case}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_trust_of_a_receipt_is_that_of_the_inventory_at_the_decision() {
    // R173
    let mut town = Town::with(&["read"], |setup| setup.set("servers.files.trust", "internal")).await;
    let agent = town.agent("ann").await;
    let mut receipts = Vec::new();
    for trust in ["internal", "verified", "community", "unknown", "internal"] {
        town.gateway
            .home
            .rewrite(|setup| setup.set("servers.files.trust", trust));
        town.gateway.signal(rustix::process::Signal::HUP);
        eventually("the inventory knows", 10, async || {
            entries(&town.gateway.home).iter().all(|entry| entry["trust"] == trust)
        })
        .await;
        let answer = agent.call("read", json!({})).await;
        assert_eq!(answer.result()["isError"], false, "{trust}: {}", answer.text());
        let receipt = town.gateway.receipt_of(&answer);
        assert_eq!(receipt["mcp"]["trust_level"], trust);
        receipts.push(receipt);
    }
    let kept = crate::support::records::all(&town.gateway.home);
    assert!(
        receipts.iter().all(|receipt| kept.contains(receipt)),
        "what is written stays written"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn approval_is_required_exactly_where_a_rule_says_so() {
    // R184
    let policy = r#"
        permit (principal, action, resource == Tool::"files/read");
        @require("approval") permit (principal, action, resource == Tool::"files/deploy");
        forbid (principal, action, resource) when { context.args has amount && context.args.amount > 5 };"#;
    let town = Town::with(&["read", "deploy", "hidden"], |setup| setup.policy(policy)).await;
    let agent = town.agent("ann").await;
    for (name, arguments, result, required) in [
        ("read", json!({}), "allow", false),
        ("deploy", json!({}), "require_approval", true),
        ("read", json!({"amount": 6}), "deny", false),
        ("deploy", json!({"amount": 6}), "deny", false),
        ("deploy", json!({"unknown": 1}), "deny", false),
        ("hidden", json!({}), "deny", false),
        ("nothing", json!({}), "deny", false),
    ] {
        let case = format!("{name} {arguments}");
        let receipt = town.gateway.receipt_of(&agent.call(name, arguments).await);
        assert_eq!(receipt["decision"]["result"], result, "{case}");
        assert_eq!(receipt["approval"]["required"], required, "{case}");
    }
    let list = agent.request("tools/list", json!({})).await;
    assert_eq!(town.gateway.receipt_of(&list)["approval"]["required"], false);
}
