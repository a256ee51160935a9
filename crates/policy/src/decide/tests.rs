use std::collections::{BTreeMap, BTreeSet};

use vocabulary::{ActorType, ClaimValue, Principal, ServerScope};

use super::*;
use crate::tests::{ANYBODY, agent, ask, call, digest, in_groups, list, server, snapshot, tree};
use crate::{Finding, PermitFault};

fn says(text: &str, who: &Principal, tool: &str, json: &str) -> (Verdict, String, &'static str) {
    let (verdict, grounds) = ask(&snapshot(text), who, tool, json);
    (verdict, grounds.policy_id.to_string(), grounds.code.as_str())
}

// R112, R119
#[test]
fn an_empty_rule_set_denies() {
    for tool in ["files/read", "files/wipe", "web/fetch"] {
        let expected = (
            Verdict::Deny,
            "builtin:default-deny".to_owned(),
            "DENY_NO_MATCHING_RULE",
        );
        assert_eq!(says("", &agent("a"), tool, "{}"), expected);
    }
    assert_eq!(list(&snapshot(""), &agent("a")), Vec::<String>::new());
}

#[test]
fn forbid_wins_and_the_first_deciding_id_is_named() {
    let text = r#"
        @id("c") permit(principal, action, resource);
        @id("b") permit(principal, action, resource) when { context.args.n == 1 };
        @id("z") forbid(principal, action, resource == Tool::"files/wipe") when { context.args.n == 1 };
        @id("y") forbid(principal, action, resource == Tool::"files/wipe") when { context.args.n == 1 };
    "#;
    let who = agent("a");
    assert_eq!(
        says(text, &who, "files/read", r#"{"n":1}"#),
        (Verdict::Allow, "b".to_owned(), "ALLOW_POLICY_MATCH")
    );
    assert_eq!(
        says(text, &who, "files/read", r#"{"n":2}"#),
        (Verdict::Allow, "c".to_owned(), "ALLOW_POLICY_MATCH")
    );
    assert_eq!(
        says(text, &who, "files/wipe", r#"{"n":1}"#),
        (Verdict::Deny, "y".to_owned(), "DENY_NO_PERMISSION")
    );
}

#[test]
fn a_permit_that_requires_approval_wins_over_a_plain_one() {
    let text = r#"
        @id("a-plain") permit(principal, action, resource);
        @id("b-human") @require("approval") permit(principal, action, resource == Tool::"files/wipe");
    "#;
    let approval = (Verdict::RequireApproval, "b-human".to_owned(), "REQUIRE_APPROVAL");
    assert_eq!(says(text, &agent("a"), "files/wipe", "{}"), approval);
    assert_eq!(says(text, &agent("a"), "files/read", "{}").0, Verdict::Allow);
    let forbidden = format!("{text} @id(\"no\") forbid(principal, action, resource);");
    assert_eq!(
        says(&forbidden, &agent("a"), "files/wipe", "{}").2,
        "DENY_NO_PERMISSION"
    );
}

// R119
#[test]
fn a_rule_that_cannot_be_evaluated_denies() {
    let permit = "@id(\"ok\") permit(principal, action, resource);";
    for (rule, json) in [
        (
            "permit(principal, action, resource) when { context.args.path like \"/a/*\" };",
            "{}",
        ),
        (
            "forbid(principal, action, resource) when { context.args.n > 3 };",
            r#"{"n":"many"}"#,
        ),
        (
            "permit(principal, action, resource) when { context.args.n + 9223372036854775807 > 3 };",
            r#"{"n":1}"#,
        ),
        (
            "@require(\"approval\") permit(principal, action, resource) when { context.args.x };",
            r#"{"x":3}"#,
        ),
    ] {
        let text = format!("{permit} @id(\"bad\") {rule}");
        let expected = (Verdict::Deny, "bad".to_owned(), "DENY_POLICY_ERROR");
        assert_eq!(says(&text, &agent("a"), "files/read", json), expected, "{rule}");
    }
    // One that fails for every call hides the tool, as no call of it could be allowed.
    let always = format!("{permit} @id(\"bad\") forbid(principal, action, resource) when {{ resource.nothing }};");
    let expected = (Verdict::Deny, "bad".to_owned(), "DENY_POLICY_ERROR");
    assert_eq!(says(&always, &agent("a"), "files/read", "{}"), expected);
    assert_eq!(list(&snapshot(&always), &agent("a")), Vec::<String>::new());
    // A rule that is out of scope is not evaluated.
    let elsewhere =
        format!("{permit} forbid(principal, action, resource in Server::\"web\") when {{ resource.nothing }};");
    assert_eq!(says(&elsewhere, &agent("a"), "files/read", "{}").0, Verdict::Allow);
}

#[test]
fn a_rule_that_sees_all_it_reads_is_evaluated_beside_one_that_does_not() {
    let text = r#"
        @id("a-sees") permit(principal, action, resource) when { context.args.path == "/a" };
        @id("b-blind") forbid(principal, action, resource) when { resource.risk == "critical" && context.args.n > 100 };
    "#;
    let said = |path: &str| {
        says(
            text,
            &agent("a"),
            "files/read",
            &format!(r#"{{"path":"{path}","n":1e30}}"#),
        )
    };
    assert_eq!(said("/a"), (Verdict::Allow, "a-sees".to_owned(), "ALLOW_POLICY_MATCH"));
    assert_eq!(said("/b").2, "DENY_NO_MATCHING_RULE");
}

#[test]
fn a_crash_of_the_engine_is_a_rule_that_cannot_be_evaluated() {
    assert_eq!(guarded(|| panic!("the engine crashed")), RuleOutcome::Failed);
    assert_eq!(guarded(|| RuleOutcome::Satisfied), RuleOutcome::Satisfied);
    let mut findings = Findings::default();
    findings.note(0, RuleEffect::Permit, RuleOutcome::Failed);
    let (verdict, grounds) = findings.verdict(&crate::tests::rules("@id(\"p\") permit(principal, action, resource);"));
    assert_eq!((verdict, grounds.code), (Verdict::Deny, ReasonCode::DenyPolicyError));
}

// R117
#[test]
fn claims_groups_and_kind_of_principal_decide() {
    let with = |name: &str, value: ClaimValue| Principal {
        claims: BTreeMap::from([(name.to_owned(), value)]),
        ..agent("a")
    };
    let text = |condition: &str| format!("permit(principal, action, resource) when {{ {condition} }};");
    let text_claim = |value: &str| with("org", ClaimValue::Text(value.to_owned()));
    let org = text("principal.claims has org && principal.claims.org == \"acme\"");
    assert_eq!(says(&org, &text_claim("acme"), "files/read", "{}").0, Verdict::Allow);
    assert_eq!(says(&org, &text_claim("evil"), "files/read", "{}").0, Verdict::Deny);
    assert_eq!(says(&org, &agent("a"), "files/read", "{}").0, Verdict::Deny);
    let level = with("level", ClaimValue::Integer(3));
    assert_eq!(
        says(&text("principal.claims.level >= 3"), &level, "files/read", "{}").0,
        Verdict::Allow
    );
    let admin = with("admin", ClaimValue::Boolean(true));
    assert_eq!(
        says(&text("principal.claims.admin"), &admin, "files/read", "{}").0,
        Verdict::Allow
    );
    let teams = with("teams", ClaimValue::List(vec!["red".to_owned(), "blue".to_owned()]));
    assert_eq!(
        says(
            &text("principal.claims.teams.contains(\"red\")"),
            &teams,
            "files/read",
            "{}"
        )
        .0,
        Verdict::Allow
    );

    let dev = "permit(principal in Group::\"dev\", action, resource);";
    assert_eq!(
        says(dev, &in_groups("a", &["dev", "ops"]), "files/read", "{}").0,
        Verdict::Allow
    );
    assert_eq!(
        says(dev, &in_groups("a", &["ops"]), "files/read", "{}").0,
        Verdict::Deny
    );
    let user = Principal {
        actor_type: ActorType::User,
        ..in_groups("ann", &["ops"])
    };
    for (scope, allowed) in [
        ("principal == User::\"ann\"", true),
        ("principal == Agent::\"ann\"", false),
        ("principal in User::\"ann\"", true),
        ("principal is User", true),
        ("principal is System", false),
        ("principal is User in Group::\"dev\"", false),
        ("principal is User in Group::\"ops\"", true),
        ("principal is Agent in Group::\"ops\"", false),
        ("principal == Group::\"ops\"", false),
    ] {
        let text = format!("permit({scope}, action, resource);");
        assert_eq!(
            says(&text, &user, "files/read", "{}").0 == Verdict::Allow,
            allowed,
            "{scope}"
        );
    }
}

// R118
#[test]
fn tool_server_risk_hints_and_arguments_decide() {
    let who = agent("a");
    for (scope, condition, tool, allowed) in [
        ("resource == Tool::\"files/read\"", "true", "files/read", true),
        ("resource == Tool::\"files/read\"", "true", "files/wipe", false),
        ("resource == Server::\"files\"", "true", "files/read", false),
        ("resource in Server::\"files\"", "true", "files/wipe", true),
        ("resource in Server::\"files\"", "true", "web/fetch", false),
        ("resource is Tool in Server::\"files\"", "true", "files/wipe", true),
        ("resource is Prompt", "true", "files/wipe", false),
        ("resource", "resource.risk == \"low\"", "files/read", true),
        ("resource", "resource.risk == \"low\"", "files/write", false),
        (
            "resource",
            "resource.trust == \"community\" && resource.tier == \"none\"",
            "web/fetch",
            true,
        ),
        (
            "resource",
            "resource has readOnlyHint && resource.readOnlyHint",
            "files/read",
            true,
        ),
        ("resource", "resource has readOnlyHint", "files/write", false),
        (
            "resource",
            "resource has idempotentHint && resource has destructiveHint",
            "files/write",
            true,
        ),
        (
            "resource",
            "resource has openWorldHint && resource.openWorldHint",
            "web/fetch",
            true,
        ),
        (
            "resource",
            "Tool::\"files/wipe\".risk == \"critical\" && Server::\"web\".trust == \"community\"",
            "files/read",
            true,
        ),
        ("resource", "Tool::\"files/gone\" has risk", "files/read", false),
        ("resource", "context.args.path like \"/srv/*\"", "files/read", true),
        ("resource", "context.args.path like \"/etc/*\"", "files/read", false),
    ] {
        let text = format!("permit(principal, action == Action::\"tools/call\", {scope}) when {{ {condition} }};");
        let (verdict, ..) = says(&text, &who, tool, r#"{"path":"/srv/a"}"#);
        assert_eq!(verdict == Verdict::Allow, allowed, "{scope} {condition} {tool}");
    }
    for (action, allowed) in [
        ("action", true),
        ("action in [Action::\"tools/call\", Action::\"prompts/get\"]", true),
        ("action in []", false),
        ("action == Action::\"prompts/get\"", false),
    ] {
        let text = format!("permit(principal, {action}, resource);");
        assert_eq!(
            says(&text, &who, "files/read", "{}").0 == Verdict::Allow,
            allowed,
            "{action}"
        );
    }
}

#[test]
fn what_is_not_there_for_a_caller_has_its_true_code_for_the_receipt() {
    let text = "@id(\"all\") permit(principal, action, resource); @id(\"no\") forbid(principal, action, resource == Tool::\"files/wipe\");";
    let scoped = Principal {
        servers: ServerScope::Only(BTreeSet::from([server("files")])),
        ..agent("a")
    };
    for (who, tool, id, code) in [
        (&agent("a"), "files/none", "builtin:default-deny", "DENY_TOOL_NOT_FOUND"),
        (&agent("a"), "gone/none", "builtin:default-deny", "DENY_TOOL_NOT_FOUND"),
        (
            &agent("a"),
            "lab/probe",
            "builtin:default-deny",
            "DENY_TOOL_QUARANTINED",
        ),
        (&agent("a"), "files/wipe", "no", "DENY_NO_PERMISSION"),
        (&scoped, "web/fetch", "builtin:default-deny", "DENY_NO_PERMISSION"),
        (&scoped, "files/read", "all", "ALLOW_POLICY_MATCH"),
    ] {
        let (_, policy_id, told) = says(text, who, tool, "{}");
        assert_eq!((policy_id.as_str(), told), (id, code), "{tool}");
    }
    assert_eq!(list(&snapshot(text), &scoped), ["files/read", "files/write"]);
}

#[test]
fn a_permit_is_good_for_its_own_arguments_in_its_own_epoch() {
    let snapshot = snapshot("permit(principal, action, resource);");
    let who = Arc::new(agent("a"));
    let arguments = tree(r#"{"a":1}"#);
    let facts = call(&arguments);
    let permit = || {
        let caller = snapshot.caller(&who);
        let known = snapshot
            .resolve(&caller, &server("files"), "read", ANYBODY)
            .expect("visible");
        match snapshot.decide(&caller, known, &facts) {
            Decision::Allow(permit, _) => permit,
            Decision::RequireApproval(..) | Decision::Deny(_) => panic!("not allowed"),
        }
    };
    assert_eq!(permit().principal(), &who);
    assert_eq!(
        permit().spend(digest("other"), 1).map(drop),
        Err(PermitFault::OtherArguments)
    );
    assert_eq!(permit().spend(facts.args_hash, 2).map(drop), Err(PermitFault::Stale));
    let spent = permit().spend(facts.args_hash, 1).expect("honoured");
    assert_eq!(spent.action(), "tools/call");
    let tool = spent.tool().expect("a tool");
    assert_eq!(tool.id.to_string(), "files/read");
    assert_eq!(spent.target(), &Target::Tool(tool.clone()));
}

#[test]
fn a_tool_resolved_for_somebody_else_or_elsewhere_gives_no_permit() {
    let text = "permit(principal == Agent::\"ann\", action, resource);";
    let (one, other) = (snapshot(text), snapshot(text));
    let (ann, bob) = (Arc::new(agent("ann")), Arc::new(agent("bob")));
    let resolve = |snapshot: &PolicySnapshot| {
        snapshot
            .resolve(&snapshot.caller(&ann), &server("files"), "read", ANYBODY)
            .expect("ann may")
    };
    let arguments = tree("{}");
    let refused = |decision: Decision| matches!(decision, Decision::Deny(_));
    assert!(refused(one.decide(&one.caller(&bob), resolve(&one), &call(&arguments))));
    assert!(refused(one.decide(
        &one.caller(&ann),
        resolve(&other),
        &call(&arguments)
    )));
    // Not even where the rules would let them: a token's servers are looked at when resolving.
    let open = snapshot("permit(principal, action, resource);");
    let elsewhere = Principal {
        servers: ServerScope::Only(BTreeSet::from([server("web")])),
        ..agent("bob")
    };
    assert!(refused(open.decide(
        &open.caller(&Arc::new(elsewhere)),
        resolve(&open),
        &call(&arguments)
    )));
    // A caller of an older snapshot is looked at with the rules of this one.
    let stale = snapshot("").caller(&ann);
    assert!(one.resolve(&stale, &server("files"), "read", ANYBODY).is_ok());
    assert_eq!(one.visible(&stale, None, ANYBODY).len(), 5);
    assert!(!refused(one.decide(&stale, resolve(&one), &call(&arguments))));
}

#[test]
fn explaining_names_every_policy_in_scope_and_grants_nothing() {
    let snapshot = snapshot(
        r#"@id("a") permit(principal, action, resource) when { context.args.n == 1 };
           @id("b") forbid(principal, action, resource) when { context.args.n > 5 };
           @id("c") @require("approval") permit(principal, action, resource == Tool::"web/fetch");"#,
    );
    let who = Arc::new(agent("a"));
    let explain = |json: &str| {
        let arguments = tree(json);
        let explained = snapshot.explain(&who, &server("files"), "read", &call(&arguments));
        let findings: Vec<(String, Finding)> = explained
            .policies
            .into_iter()
            .map(|policy| (policy.policy_id.to_string(), policy.finding))
            .collect();
        (explained.verdict, findings)
    };
    let finding = |id: &str, finding| (id.to_owned(), finding);
    let (satisfied, not) = (Finding::Satisfied, Finding::NotSatisfied);
    assert_eq!(
        explain(r#"{"n":1}"#),
        (
            Verdict::Allow,
            vec![finding("a", satisfied.clone()), finding("b", not.clone())]
        )
    );
    assert_eq!(
        explain(r#"{"n":9}"#),
        (Verdict::Deny, vec![finding("a", not), finding("b", satisfied)])
    );
    let (verdict, findings) = explain("{}");
    assert_eq!(verdict, Verdict::Deny);
    assert!(
        matches!(&findings[0].1, Finding::Failed(why) if why.contains("`n`")),
        "{findings:?}"
    );
    let nowhere = snapshot.explain(&who, &server("files"), "none", &call(&tree("{}")));
    assert!(nowhere.visibility.is_err() && nowhere.policies.is_empty());
}
