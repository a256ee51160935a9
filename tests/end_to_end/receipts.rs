//! The receipt: every field, for every ending, each recomputed by other means where that is possible.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::support::records::{all, canonical_hash, lines_on_disk, receipts, sha256};
use crate::support::{Act, Agent, Ask, Town};

#[tokio::test(flavor = "multi_thread")]
async fn the_receipt_of_an_allowed_call_in_full() {
    // R163, R164, R165, R170, R171, R172, R174, R175, R176, R177, R178, R179, R181, R182, R183, R188
    let town = Town::with(&["write"], |setup| setup.risk("files/write", "medium")).await;
    let agent = town.agent("ann").await;
    let arguments = json!({"text": "é\u{1F600}", "amount": 7, "path": "/a\"b\\"});
    let body = crate::support::agent::call_body("write", &arguments.to_string());
    let answer = agent.send(body.clone()).await;
    let receipt = town.gateway.receipt_of(&answer);
    let expected = json!({
        "v": 1, "type": "request", "phase": "final", "log": "gw.test/portreeve", "count": 1,
        "trace_id": answer.trace,
        "principal": {"sub": "ann", "actor_type": "user", "client_id": "client-7", "org_id": null,
                      "issuer": "https://idp.test", "authn": "jwt", "act": [], "run": null},
        "mcp": {"method": "tools/call", "server_id": "files", "tool_name": "write", "trust_level": "internal", "risk": "medium",
                "definition_hash": canonical_hash(&crate::support::tool("write")), "era": "legacy",
                "session": sha256(agent.session.as_ref().unwrap().as_bytes())},
        "request": {"args_hash": canonical_hash(&arguments), "args_canon": "jcs", "size_bytes_in": body.len()},
        "decision": {"result": "allow", "policy_id": "permit-all", "reason_codes": ["ALLOW_POLICY_MATCH"]},
        "token_handling": {"mode": "none", "audience": null, "passthrough_detected": false, "source": "none", "audience_verified": null},
        "sandbox": {"fs_policy": "none", "net_policy": "none"},
        "approval": {"required": false, "approved_by": null, "step_up": "none", "id": null, "approved_at": null, "plan_hash": null},
        "outcome": {"status": "success", "executed": true, "size_bytes_out": answer.body.len(), "screening": []},
        "incident": {"active": false, "id": null, "stage": "normal"},
        "catalog_hash": null, "csp_profile": "tool_safety", "csp_version": "1.0.0-rc1",
    });
    assert_contains(&receipt, &expected, "");
    assert_shape(&receipt);
    let intent = all(&town.gateway.home)
        .into_iter()
        .find(|r| r["phase"] == "intent")
        .unwrap();
    assert_shape(&intent);
    assert_eq!(intent["receipt_id"], receipt["receipt_id"]);
    assert_eq!(intent["seq"].as_u64().unwrap() + 1, receipt["seq"].as_u64().unwrap());
    let distance = jiff::Timestamp::now().as_second()
        - receipt["ts"]
            .as_str()
            .unwrap()
            .parse::<jiff::Timestamp>()
            .unwrap()
            .as_second();
    assert!((0..60).contains(&distance), "{distance} s");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_ending_has_every_field() {
    // R152
    let town = Town::with(&["read", "fails", "hidden"], |setup| {
        setup.policy(r#"permit (principal, action, resource) unless { resource == Tool::"files/hidden" };"#)
    })
    .await;
    town.files.on("fails", Act::Close);
    let agent = town.agent("ann").await;
    agent.list().await;
    for (name, arguments) in [
        ("read", json!({})),
        ("read", json!({"no": 1})),
        ("fails", json!({})),
        ("hidden", json!({})),
        ("none", json!({})),
    ] {
        agent.call(name, arguments).await;
    }
    agent.request("ping", json!({})).await;
    agent.request("no/such", json!({})).await;
    agent.send("{").await;
    agent
        .submit(agent.ask("{}").instead("Mcp-Session-Id", Some("none")))
        .await;
    town.gateway.ask(Ask::new("GET", "/mcp")).await;
    town.gateway
        .ask(Ask::new("GET", "/mcp").header("Host", "evil.example"))
        .await;
    let records = receipts(&all(&town.gateway.home));
    assert!(records.len() >= 12, "{}", records.len());
    let codes = golden_codes();
    for record in &records {
        assert_shape(record);
        let reasons = crate::support::agent::strings(&record["decision"]["reason_codes"]);
        assert!(
            !reasons.is_empty() && reasons.iter().all(|code| codes.contains(code)),
            "{record}"
        );
        let left = if record["phase"] == "final" {
            json!(false)
        } else {
            Value::Null
        };
        assert_eq!(record["token_handling"]["passthrough_detected"], left);
        if record["decision"]["result"] == "deny" {
            assert_eq!(
                (&record["outcome"]["status"], &record["outcome"]["executed"]),
                (&json!("error"), &json!(false)),
                "{record}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_hash_of_the_arguments_is_that_of_their_canonical_form() {
    // R174
    let town = Town::with(&["read"], |setup| setup).await;
    let agent = town.agent("ann").await;
    let cases = [
        r#"{}"#,
        r#"{"text":"a","amount":1}"#,
        r#" { "amount" : 1 , "text" : "\u0061" } "#,
        r#"{"nested":{"inner":[{"x":1e2},{"x":-0.0},{"x":1.50},{"x":"\u20ac\r\n"},{"x":{"ö":1,"z":2,"€":3}}]}}"#,
    ];
    let mut hashes = Vec::new();
    for arguments in cases {
        let answer = agent.call_raw("read", arguments).await;
        let receipt = town.gateway.receipt_of(&answer);
        let value: Value = serde_json::from_str(arguments).unwrap();
        assert_eq!(receipt["request"]["args_hash"], canonical_hash(&value), "{arguments}");
        hashes.push(receipt["request"]["args_hash"].clone());
    }
    assert_eq!(hashes[1], hashes[2], "spelling does not matter");
    let absent = agent
        .send(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read"}}"#)
        .await;
    assert_eq!(
        town.gateway.receipt_of(&absent)["request"]["args_hash"],
        hashes[0],
        "absent counts as empty"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_holds_no_arguments_no_results_and_no_tokens() {
    // R166, R174
    let town = Town::with(&["read"], |setup| setup).await;
    town.files.on(
        "read",
        Act::Answer(r#"{"content":[{"type":"text","text":"the-result-itself"}]}"#.to_owned()),
    );
    let token = town.issuer.token("ann");
    let signature = token.rsplit('.').next().unwrap();
    let agent = Agent::connect(&town.gateway, "/mcp/files", &token).await;
    agent.call("read", json!({"text": "the-argument-itself"})).await;
    agent
        .call("read", json!({"text": "the-argument-itself", "the-unknown-member": 1}))
        .await;
    let forged = "eyJhbGciOiJub25lIn0.the-forged-token.x";
    town.gateway
        .ask(
            Ask::post("/mcp?the-query=1", "the-body")
                .bearer(forged)
                .header("User-Agent", "the-client"),
        )
        .await;
    for file in town.gateway.home.state_files() {
        let text = String::from_utf8_lossy(&std::fs::read(&file).unwrap()).into_owned() + &town.gateway.logs();
        for secret in [
            "the-result-itself",
            "the-argument-itself",
            "the-unknown-member",
            "the-forged-token",
            "the-query",
            "the-body",
            "the-client",
            signature,
        ] {
            assert!(!text.contains(secret), "{secret} in {}", file.display());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trace_comes_in_goes_on_and_is_recorded() {
    // R165
    let town = Town::with(&["read"], |setup| setup).await;
    let agent = town.agent("ann").await;
    let answer = agent.call("read", json!({})).await;
    assert_eq!(town.gateway.receipt_of(&answer)["trace_id"], answer.trace.as_str());
    assert!(
        format!("{:?}", town.files.calls()).contains(&answer.trace),
        "the server saw the trace"
    );
    let seq = town.gateway.last_seq();
    town.gateway
        .ask(agent.ask(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#))
        .await;
    town.gateway
        .ask(
            agent
                .ask(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#)
                .header("traceparent", "00-nonsense-01"),
        )
        .await;
    for receipt in town.gateway.receipts_after(seq) {
        let id = receipt["trace_id"].as_str().unwrap();
        assert!(
            id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()),
            "{id}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn names_nobody_knows_are_cut_and_cleaned() {
    // R172
    let town = Town::with(&["read"], |setup| setup).await;
    let agent = town.agent("ann").await;
    let answer = agent
        .call(&format!("a\u{7}\u{1b}[31m\n{}", "é".repeat(500)), json!({}))
        .await;
    let name = town.gateway.receipt_of(&answer)["mcp"]["tool_name"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        name.len() <= 128 && !name.chars().any(char::is_control) && name.starts_with('a'),
        "{name:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_a_credential_of_its_own_gets_that_and_the_receipt_says_so() {
    // R179, R181
    let town = Town::with(&["read"], |setup| {
        setup
            .set("servers.files.credential", json!({"secret": "env:FILES_TOKEN"}))
            .variable("FILES_TOKEN", "the-servers-own")
    })
    .await;
    let answer = town.agent("ann").await.call("read", json!({})).await;
    let handling = town.gateway.receipt_of(&answer)["token_handling"].clone();
    assert_eq!(
        (&handling["mode"], &handling["source"]),
        (&json!("vault"), &json!("reference"))
    );
    assert_eq!(
        town.files.calls()[0].headers.get("authorization"),
        Some("Bearer the-servers-own")
    );
    assert!(!town.gateway.logs().contains("the-servers-own"));
    assert!(
        lines_on_disk(&town.gateway.home)
            .iter()
            .all(|line| !line.contains("the-servers-own"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_cannot_name_itself() {
    // R168
    let town = Town::with(&["read"], |setup| setup).await;
    let nameless = crate::support::issuer::but(crate::support::issuer::claims("ann"), json!({"azp": null}));
    let agent = Agent::connect(&town.gateway, "/mcp/files", &town.issuer.sign(&nameless)).await;
    let answer = agent.call("read", json!({})).await;
    assert_eq!(town.gateway.receipt_of(&answer)["principal"]["client_id"], Value::Null);
    assert!(
        lines_on_disk(&town.gateway.home)
            .iter()
            .all(|line| !line.contains("self-declared"))
    );
}

fn golden_codes() -> BTreeSet<String> {
    let file = crate::support::environment::repository().join("crates/vocabulary/src/reason-codes.txt");
    std::fs::read_to_string(file)
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect()
}

/// Every member the record must have, and no other; enumerations hold one of their values.
fn assert_shape(record: &Value) {
    let members: [(&str, &[&str]); 10] = [
        (
            "principal",
            &[
                "sub",
                "actor_type",
                "client_id",
                "org_id",
                "issuer",
                "authn",
                "act",
                "run",
            ],
        ),
        (
            "mcp",
            &[
                "method",
                "server_id",
                "tool_name",
                "trust_level",
                "risk",
                "definition_hash",
                "era",
                "session",
            ],
        ),
        ("request", &["args_hash", "args_canon", "size_bytes_in"]),
        (
            "decision",
            &["result", "policy_id", "reason_codes", "policy_set", "epoch"],
        ),
        (
            "token_handling",
            &[
                "mode",
                "audience",
                "passthrough_detected",
                "source",
                "audience_verified",
            ],
        ),
        (
            "sandbox",
            &["fs_policy", "net_policy", "tier", "layers", "instance", "policy_hash"],
        ),
        (
            "approval",
            &["required", "approved_by", "step_up", "id", "approved_at", "plan_hash"],
        ),
        (
            "outcome",
            &["status", "executed", "size_bytes_out", "duration_us", "screening"],
        ),
        ("incident", &["active", "id", "stage"]),
        (
            "",
            &[
                "v",
                "type",
                "phase",
                "log",
                "seq",
                "ts",
                "receipt_id",
                "trace_id",
                "count",
                "principal",
                "mcp",
                "request",
                "decision",
                "token_handling",
                "sandbox",
                "approval",
                "outcome",
                "incident",
                "catalog_hash",
                "csp_profile",
                "csp_version",
                "prev_hash",
                "record_hash",
            ],
        ),
    ];
    for (group, expected) in members {
        let object = if group.is_empty() { record } else { &record[group] };
        assert_eq!(
            names(object.as_object().unwrap_or(&Map::new())),
            expected.iter().copied().collect(),
            "{group} of {record}"
        );
    }
    let among = |value: &Value, allowed: &[&str]| {
        assert!(
            allowed.contains(&value.as_str().unwrap_or("null")),
            "{value} in {record}"
        )
    };
    among(&record["principal"]["actor_type"], &["user", "agent", "system"]);
    among(&record["principal"]["authn"], &["jwt", "token", "mtls", "none"]);
    among(&record["decision"]["result"], &["allow", "deny", "require_approval"]);
    among(
        &record["token_handling"]["mode"],
        &["exchanged", "vault", "blocked", "none", "null"],
    );
    among(
        &record["mcp"]["trust_level"],
        &["internal", "verified", "community", "unknown", "null"],
    );
    among(&record["outcome"]["status"], &["success", "error", "timeout", "null"]);
    assert!(record["receipt_id"].as_str().unwrap().starts_with("rcp_"));
    assert!(record["ts"].as_str().unwrap().ends_with('Z'));
}

fn names(object: &Map<String, Value>) -> BTreeSet<&str> {
    object.keys().map(String::as_str).collect()
}

/// Checks that a record has at least these values.
fn assert_contains(record: &Value, expected: &Value, at: &str) {
    match expected {
        Value::Object(members) => members
            .iter()
            .for_each(|(name, value)| assert_contains(&record[name], value, &format!("{at}/{name}"))),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            assert_eq!(record, expected, "{at}")
        }
    }
}
