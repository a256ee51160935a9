//! Policy decides every call: by claims, by tool, by arguments; nothing matched means no.

use serde_json::{Value, json};

use crate::support::issuer::{but, claims};
use crate::support::{Agent, Issuer, Setup, Town};

#[tokio::test(flavor = "multi_thread")]
async fn arguments_flip_the_decision_and_the_refusal_says_why() {
    // R118, R120, R121, R176, R177, R178
    let policy = r#"@id("small") permit (principal, action == Action::"tools/call", resource)
                    when { context.args has amount && context.args.amount <= 100 };"#;
    let town = Town::with(&["pay"], |setup| setup.policy(policy)).await;
    let agent = town.agent("ann").await;
    let paid = agent.call("pay", json!({"amount": 100})).await;
    assert_eq!(paid.result()["isError"], false);
    let decision = town.gateway.receipt_of(&paid)["decision"].clone();
    assert_eq!(
        (&decision["result"], &decision["policy_id"]),
        (&json!("allow"), &json!("small"))
    );
    assert_eq!(decision["reason_codes"], json!(["ALLOW_POLICY_MATCH"]));
    for arguments in [json!({"amount": 101}), json!({"text": "none"})] {
        let refused = agent.call("pay", arguments).await;
        assert_eq!((refused.status, refused.error_code()), (200, -32003));
        let receipt = town.gateway.receipt_named_by(&refused);
        let data =
            json!({"decision": "deny", "reason_codes": ["DENY_NO_MATCHING_RULE"], "receipt_id": receipt["receipt_id"]});
        assert_eq!(refused.decision(), data);
        assert_eq!(receipt["decision"]["reason_codes"], data["reason_codes"]);
        assert_eq!(receipt["decision"]["policy_id"], "builtin:default-deny");
        assert_eq!(
            (&receipt["outcome"]["status"], &receipt["outcome"]["executed"]),
            (&json!("error"), &json!(false))
        );
    }
    assert_eq!(town.files.calls().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forbid_wins_and_is_named() {
    // R118, R177, R178
    let policy = r#"@id("everything") permit (principal, action, resource);
                    @id("not-there") forbid (principal, action == Action::"tools/call", resource)
                    when { context.args has path && context.args.path like "/etc/*" };"#;
    let town = Town::with(&["read"], |setup| setup.policy(policy)).await;
    let agent = town.agent("ann").await;
    let refused = agent.call("read", json!({"path": "/etc/passwd"})).await;
    assert_eq!(
        (refused.error_code(), refused.reason_codes()),
        (-32003, vec!["DENY_NO_PERMISSION".to_owned()])
    );
    assert_eq!(
        town.gateway.receipt_named_by(&refused)["decision"]["policy_id"],
        "not-there"
    );
    assert_eq!(
        agent.call("read", json!({"path": "/srv/x"})).await.result()["isError"],
        false
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_flip_the_decision() {
    // R117
    let policy = r#"permit (principal, action == Action::"tools/call", resource) when { principal.claims has team && principal.claims.team == "red" };
                    permit (principal in Group::"ops", action == Action::"tools/call", resource);"#;
    let town = Town::with(&["read"], |setup| setup.policy(policy)).await;
    let cases = [
        (json!({"team": "red"}), true),
        (json!({"team": "blue"}), false),
        (json!({}), false),
        (json!({"groups": ["ops"]}), true),
        (json!({"groups": ["dev"]}), false),
    ];
    for (changes, allowed) in cases {
        let agent = Agent::connect(
            &town.gateway,
            "/mcp/files",
            &town.issuer.sign(&but(claims("ann"), changes.clone())),
        )
        .await;
        assert_eq!(
            agent.call("read", json!({})).await.json().get("result").is_some(),
            allowed,
            "{changes}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_source_of_a_request_is_in_the_context() {
    // R117
    let policy = r#"permit (principal, action, resource) when { context.source.authn == "token" && context.source.address.isLoopback() };"#;
    let town = Town::with(&["read"], |setup| setup.policy(policy)).await;
    let token = town.gateway.home.agent_token(&["--sub", "bot"]);
    let bot = Agent::connect(&town.gateway, "/mcp/files", token["token"].as_str().unwrap()).await;
    assert!(bot.call("read", json!({})).await.json().get("result").is_some());
    assert!(
        town.agent("ann")
            .await
            .call("read", json!({}))
            .await
            .json()
            .get("result")
            .is_none()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_that_cannot_be_evaluated_denies() {
    // R119
    let broken_forbid = r#"permit (principal, action, resource);
        @id("broken") forbid (principal, action == Action::"tools/call", resource) when { context.args.amount > 5 };"#;
    let town = Town::with(&["pay"], |setup| setup.policy(broken_forbid)).await;
    let agent = town.agent("ann").await;
    let refused = agent.call("pay", json!({"text": "no amount"})).await;
    assert_eq!(
        (refused.error_code(), refused.reason_codes()),
        (-32003, vec!["DENY_POLICY_ERROR".to_owned()])
    );
    assert_eq!(agent.call("pay", json!({"amount": 5})).await.result()["isError"], false);
    assert_eq!(town.files.calls().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_that_does_not_load_stops_the_start_and_is_named() {
    // R103, R119
    let twice =
        r#"@id("same") permit (principal, action, resource); @id("same") forbid (principal, action, resource);"#;
    let unheard = r#"@id("odd") @require("magic") permit (principal, action, resource);"#;
    for (policy, offender) in [("permit (principal", "main.cedar"), (twice, "same"), (unheard, "magic")] {
        let home = Setup::new().policy(policy).home();
        for command in [&["check"][..], &["policy", "check"], &["serve"]] {
            let ended = home.cli(command);
            assert_eq!(ended.code, Some(1), "{policy} {command:?}: {ended:?}");
            assert!(
                format!("{}{}", ended.stdout, ended.stderr).contains(offender),
                "{policy} {command:?}: {ended:?}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_typo_in_a_policy_is_a_warning_that_strictness_turns_into_a_fault() {
    // R103
    let town = Town::with(&["read"], |setup| {
        setup.policy(r#"@id("typo") permit (principal, action, resource) when { resource.rsik == "low" };"#)
    })
    .await;
    assert!(
        town.agent("ann").await.names().await.is_empty(),
        "a rule that cannot be evaluated permits nothing"
    );
    let home = town.gateway.stop().await;
    let lenient = home.cli(&["policy", "check"]);
    assert_eq!(lenient.code, Some(0), "{lenient:?}");
    assert!(
        format!("{}{}", lenient.stdout, lenient.stderr).contains("rsik"),
        "{lenient:?}"
    );
    assert_eq!(home.cli(&["policy", "check", "--strict"]).code, Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_needs_approval_is_not_carried_out() {
    // R120, R176
    let policy = r#"@id("ask") @require("approval") permit (principal, action, resource);"#;
    let town = Town::with(&["deploy"], |setup| setup.policy(policy)).await;
    let agent = town.agent("ann").await;
    assert_eq!(agent.names().await, ["deploy"]);
    let answer = agent.call("deploy", json!({})).await;
    let receipt = town.gateway.receipt_of(&answer);
    assert_eq!(receipt["decision"]["result"], "require_approval", "{}", answer.text());
    assert_eq!(receipt["decision"]["reason_codes"][0], "REQUIRE_APPROVAL");
    assert_eq!(town.files.calls().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_names_the_deciding_policy() {
    // R177
    let policy = r#"@id("readers") permit (principal == User::"ann", action, resource == Tool::"files/read");"#;
    let town = Town::with(&["read"], |setup| setup.policy(policy)).await;
    let explain = |sub: &str| {
        let arguments = [
            "policy",
            "explain",
            "--sub",
            sub,
            "--actor",
            "user",
            "--tool",
            "files/read",
            "--json",
        ];
        town.gateway.home.cli(&arguments).success()
    };
    assert_eq!(town.agent("ann").await.names().await, ["read"], "discovered");
    assert!(explain("ann").contains("readers"));
    let denied: Value = serde_json::from_str(explain("bob").lines().next().unwrap()).unwrap();
    assert!(denied.to_string().contains("deny"), "{denied}");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_policies_decide_as_few_do() {
    // R177
    let mut policies = String::new();
    for number in 0..1000 {
        policies += &format!(
            "@id(\"p{number}\") permit (principal == User::\"u{number}\", action, resource == Tool::\"files/read\");\n"
        );
    }
    let town = Town::with(&["read"], |setup| setup.policy(&policies)).await;
    let agent = town.agent("u777").await;
    let answer = agent.call("read", json!({})).await;
    assert_eq!(town.gateway.receipt_of(&answer)["decision"]["policy_id"], "p777");
    assert!(town.agent("nobody").await.names().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_without_servers_starts_and_lists_nothing() {
    // R099, R112
    let issuer = Issuer::start().await;
    let gateway = Setup::new().issuer(&issuer).start().await;
    assert!(
        Agent::connect(&gateway, "/mcp", &issuer.token("ann"))
            .await
            .names()
            .await
            .is_empty()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_number_that_policies_cannot_see_is_denied_and_its_field_is_told() {
    let policy = r#"
        @id("all") permit (principal, action, resource);
        @id("small") forbid (principal, action, resource) when { context.args has n && context.args.n > 100 };"#;
    let mut open = crate::support::tool("count");
    open["inputSchema"] = json!({"type": "object", "additionalProperties": true});
    let town = Town::offering(&[open], |setup| setup.policy(policy)).await;
    let agent = town.agent("ann").await;
    for hidden in ["1e30", "99999999999999999999", "101.00001", "null", "-1e30"] {
        let answer = agent.call_raw("count", &format!(r#"{{"n":{hidden}}}"#)).await;
        assert_eq!(
            answer.reason_codes(),
            ["DENY_POLICY_ERROR"],
            "{hidden}: {}",
            answer.text()
        );
        assert_eq!(answer.error_code(), -32003, "{hidden}");
        let message = answer.last()["error"]["message"].as_str().unwrap().to_owned();
        assert!(message.contains("/n"), "{hidden}: {message}");
        // The advice about null is the same for everybody.
        let quoted = message
            .replace("instead of null", "")
            .contains(hidden.trim_start_matches('-'));
        assert!(!quoted, "{hidden}: {message}");
        assert_eq!(
            town.gateway.receipt_named_by(&answer)["decision"]["policy_id"],
            "small",
            "{hidden}"
        );
    }
    for seen in ["100", "1e2", "-5", "100.0"] {
        let answer = agent
            .call_raw("count", &format!(r#"{{"n":{seen},"other":1e30}}"#))
            .await;
        assert!(answer.last()["result"].is_object(), "{seen}: {}", answer.text());
    }
    let answer = agent.call_raw("count", r#"{"n":101}"#).await;
    assert_eq!(answer.reason_codes(), ["DENY_NO_PERMISSION"], "{}", answer.text());
}
