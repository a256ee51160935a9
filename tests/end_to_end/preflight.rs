//! Arguments are checked before they leave: size, structure, schema, unknown members. A refusal costs the server nothing.

use serde_json::{Value, json};

use crate::support::{Agent, Answer, Setup, Town, tool};

#[tokio::test(flavor = "multi_thread")]
async fn unknown_members_are_refused_at_any_depth() {
    // R138, R144, R200
    let town = Town::with(&["read"], |setup| setup).await;
    let agent = town.agent("ann").await;
    for arguments in [
        json!({"txet": "typo"}),
        json!({"text": "x", "extra": null}),
        json!({"nested": {"outer": 1}}),
        json!({"nested": {"inner": [{"x": 1}, {"y": 2}]}}),
    ] {
        refused(&town, &agent.call("read", arguments).await, "DENY_UNKNOWN_FIELDS");
    }
    let fine = json!({"text": "x", "nested": {"inner": [{"x": 1}, {"x": "two"}, {}]}});
    assert_eq!(agent.call("read", fine).await.result()["isError"], false);
    assert_eq!(town.files.calls().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_names_the_unknown_field_and_the_one_that_was_meant() {
    // R138, R202
    let town = Town::with(&["read"], |setup| setup).await;
    let agent = town.agent("ann").await;
    let token = concat!("gh", "p_R7kT2mQ9vX4bN8cL1wZ6yH3jF5dS0gAaPpEe");
    let long = "x".repeat(100);
    for (arguments, told) in [
        (
            json!({"txet": "hunter2"}),
            r#"unknown field "txet" (did you mean "text"?)"#,
        ),
        (
            json!({"nested": {"Inner_": "hunter2"}}),
            r#"/nested: unknown field "Inner_" (did you mean "inner"?)"#,
        ),
        (json!({"colour": "hunter2"}), r#"unknown field "colour": one of ["#),
        (
            json!({"a\u{1b}[31m\u{202e}\"": "hunter2"}),
            r#"unknown field "a\u{1b}[31m\u{202e}\"""#,
        ),
        (
            json!({&long: "hunter2"}),
            &format!("unknown field \"{}…\"", "x".repeat(64)),
        ),
        (
            json!({token: "hunter2"}),
            "unknown field [REDACTED:api_token]: one of [",
        ),
    ] {
        let answer = agent.call("read", arguments).await;
        let text = refused(&town, &answer, "DENY_UNKNOWN_FIELDS");
        assert!(text.contains(told), "{told}: {text}");
        assert!(!text.contains("hunter2") && !text.contains(token), "{text}");
        assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text:?}");
        let record = town.gateway.receipt_named_by(&answer).to_string();
        assert!(!record.contains("txet") && !record.contains("colour"), "{record}");
    }
    assert_eq!(town.files.calls().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_or_the_operator_may_open_an_object() {
    // R138
    let open =
        json!({"name": "open", "inputSchema": {"type": "object", "properties": {}, "additionalProperties": true}});
    let pattern = json!({"name": "pattern", "inputSchema": {"type": "object", "patternProperties": {"^x-": {"type": "integer"}}}});
    let town = Town::offering(&[open, pattern, tool("lax")], |setup| {
        setup.set("servers.files.tools.lax.unknown_fields", "allow")
    })
    .await;
    let agent = town.agent("ann").await;
    for (name, arguments) in [
        ("open", json!({"new": 1})),
        ("pattern", json!({"x-a": 1})),
        ("lax", json!({"new": 1})),
    ] {
        assert_eq!(agent.call(name, arguments).await.result()["isError"], false, "{name}");
    }
    refused(
        &town,
        &agent.call("pattern", json!({"y-a": 1})).await,
        "DENY_UNKNOWN_FIELDS",
    );
    refused(
        &town,
        &agent.call("pattern", json!({"x-a": "text"})).await,
        "DENY_SCHEMA_VIOLATION",
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_arguments_are_refused_with_a_text_a_model_can_use() {
    // R144, R202
    let strict = json!({"name": "strict", "inputSchema": {"type": "object", "required": ["state"],
        "properties": {"state": {"enum": ["open", "closed"]}, "count": {"type": "integer"}}}});
    let town = Town::offering(&[strict], |setup| setup).await;
    let agent = town.agent("ann").await;
    let cases = [
        (r#"{"state":"ajar"}"#, "DENY_SCHEMA_VIOLATION", "/state"),
        (r#"{"state":"open","count":"three"}"#, "DENY_SCHEMA_VIOLATION", "/count"),
        ("{}", "DENY_SCHEMA_VIOLATION", "state"),
        ("[]", "DENY_SCHEMA_VIOLATION", ""),
        ("\"text\"", "DENY_SCHEMA_VIOLATION", ""),
        ("7", "DENY_SCHEMA_VIOLATION", ""),
        ("null", "DENY_SCHEMA_VIOLATION", ""),
        (r#"{"state":"open","state":"open"}"#, "DENY_DUPLICATE_KEY", ""),
        (r#"{"state":"open","st\u0061te":"open"}"#, "DENY_DUPLICATE_KEY", ""),
        (r#"{"state":"\ud800"}"#, "DENY_SCHEMA_VIOLATION", ""),
    ];
    for (arguments, code, hint) in cases {
        let answer = agent.call_raw("strict", arguments).await;
        let text = refused(&town, &answer, code);
        assert!(text.contains(hint), "{arguments}: {text}");
        assert!(
            !text.contains("ajar") && !text.contains("three"),
            "a refusal quotes nothing: {text}"
        );
    }
    let absent = agent
        .send(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"strict"}}"#)
        .await;
    refused(&town, &absent, "DENY_SCHEMA_VIOLATION");
    assert_eq!(town.files.calls().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_that_are_no_text_never_become_a_message() {
    // R202
    let town = Town::with(&["read"], |setup| setup).await;
    let agent = town.agent("ann").await;
    let mut body =
        br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read","arguments":{"text":""#.to_vec();
    body.extend([0xff, 0xfe]);
    body.extend(br#""}}}"#);
    let answer = agent.send(body).await;
    assert_eq!((answer.status, answer.error_code()), (400, -32700));
    assert_eq!(
        town.gateway.receipt_named_by(&answer)["decision"]["reason_codes"],
        json!(["DENY_MALFORMED"])
    );
    assert_eq!(town.files.calls().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_limit_on_arguments_holds_to_the_last_unit() {
    // R139, R144, R201
    let anything = json!({"name": "any", "inputSchema": {"type": "object", "additionalProperties": true}});
    let limits = json!({"max_bytes": 2000, "max_depth": 8, "max_string": 500, "max_items": 50});
    let town = Town::offering(&[anything], |setup: Setup| setup.set("limits.arguments", limits)).await;
    let agent = town.agent("ann").await;
    let bytes = |size: usize| {
        format!(
            r#"{{"a":[{},"{}"]}}"#,
            vec![format!("\"{}\"", "x".repeat(490)); 4].join(","),
            "x".repeat(size - 1982)
        )
    };
    let depth = |depth: usize| format!(r#"{{"a":{}1{}}}"#, "[".repeat(depth - 2), "]".repeat(depth - 2));
    let string = |length: usize| format!(r#"{{"a":"{}"}}"#, "x".repeat(length));
    let items = |count: usize| format!(r#"{{"a":[{}]}}"#, vec!["1"; count - 1].join(","));
    assert_eq!(bytes(2000).len(), 2000);
    type Make<'a> = &'a dyn Fn(usize) -> String;
    let triples: [(&str, Make<'_>, usize); 4] = [
        ("bytes", &bytes, 2000),
        ("depth", &depth, 8),
        ("string", &string, 500),
        ("items", &items, 50),
    ];
    for (what, make, limit) in triples {
        for size in [limit - 1, limit] {
            let answer = agent.call_raw("any", &make(size)).await;
            assert_eq!(answer.result()["isError"], false, "{what} {size}: {}", answer.text());
        }
        let before = town.files.calls().len();
        refused(
            &town,
            &agent.call_raw("any", &make(limit + 1)).await,
            "DENY_PAYLOAD_TOO_LARGE",
        );
        assert_eq!(town.files.calls().len(), before, "{what}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_arguments_that_were_checked_are_the_arguments_that_are_sent() {
    // R118, R138
    let town = Town::with(&["read"], |setup| setup).await;
    let agent = town.agent("ann").await;
    for arguments in [
        r#"{ "text" : "\u00fc\/", "amount":1 }"#,
        r#"{"nested":{"inner":[{"x":1e2},{"x":12345678901234567890123},{"x":-0.0}]}}"#,
    ] {
        assert_eq!(agent.call_raw("read", arguments).await.result()["isError"], false);
        let sent = String::from_utf8(town.files.calls().pop().unwrap().body).unwrap();
        assert!(sent.contains(&format!("\"arguments\":{arguments}")), "{sent}");
    }
    agent
        .send(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read"}}"#)
        .await
        .result();
    assert_eq!(
        town.files.calls().pop().unwrap().json()["params"].get("arguments"),
        None
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn preflight_comes_before_the_limits_and_the_policy() {
    // R144
    let rate = json!([{"per": "principal", "calls": 1, "window": "1h"}]);
    let town = Town::with(&["read"], |setup| setup.set("limits.rate", rate)).await;
    let agent: Agent = town.agent("ann").await;
    for _ in 0..5 {
        refused(
            &town,
            &agent.call("read", json!({"bad": 1})).await,
            "DENY_UNKNOWN_FIELDS",
        );
    }
    assert_eq!(
        agent.call("read", json!({})).await.result()["isError"],
        false,
        "refused calls were not counted"
    );
}

/// Checks the shape of a refusal by preflight and gives its text.
fn refused(town: &Town, answer: &Answer, code: &str) -> String {
    let result = answer.result();
    assert_eq!((answer.status, &result["isError"]), (200, &json!(true)), "{result}");
    assert_eq!(answer.reason_codes(), [code], "{result}");
    let receipt = town.gateway.receipt_named_by(answer);
    assert_eq!(receipt["decision"]["policy_id"], "builtin:preflight");
    assert_eq!(receipt["decision"]["result"], "deny");
    assert_eq!(receipt["outcome"]["executed"], Value::Bool(false));
    result["content"][0]["text"].as_str().unwrap().to_owned()
}
