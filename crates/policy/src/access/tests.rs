use std::collections::BTreeSet;

use vocabulary::{Principal, ServerScope, Trust};

use super::*;
use crate::tests::{agent, call, digest, server, snapshot, tree};
use crate::{Finding, PermitFault};

mod whole_set;

fn resource(text: &str) -> Target {
    let (of, uri) = text.split_once('/').expect("server/uri");
    Target::Resource {
        server: server(of),
        uri: uri.into(),
    }
}

fn prompt(text: &str) -> Target {
    let (of, name) = text.split_once('/').expect("server/prompt");
    Target::Prompt {
        server: server(of),
        name: name.into(),
    }
}

fn tool(text: &str) -> Target {
    let (of, name) = text.split_once('/').expect("server/tool");
    let town = crate::tests::town();
    Target::Tool(town.tool(&server(of), name)[0].clone())
}

fn whole(id: &str) -> Target {
    Target::Server(server(id))
}

/// What the caller experiences, and whether the target is there for them.
fn request(
    snapshot: &PolicySnapshot,
    who: &Principal,
    (action, target): (&str, &Target),
    json: &str,
) -> (Verdict, Grounds, bool) {
    let caller = snapshot.caller(&Arc::new(who.clone()));
    let arguments = tree(json);
    let resolved = snapshot.resolve_target(&caller, action, target);
    assert_eq!(snapshot.could(&caller, action, target), resolved.is_ok());
    match resolved {
        Err(NotKnown { code, policy_id, .. }) => (Verdict::Deny, Grounds::new(policy_id, code), false),
        Ok(known) => match snapshot.decide_target(&caller, known, &call(&arguments)) {
            Decision::Allow(permit, grounds) => {
                assert_eq!((permit.action(), permit.target()), (action, target));
                (Verdict::Allow, grounds, true)
            }
            Decision::RequireApproval(_, grounds) => (Verdict::RequireApproval, grounds, true),
            Decision::Deny(grounds) => (Verdict::Deny, grounds, true),
        },
    }
}

fn says(text: &str, action: &str, target: &Target, json: &str) -> (Verdict, String, &'static str) {
    let (verdict, grounds, _) = request(&snapshot(text), &agent("a"), (action, target), json);
    (verdict, grounds.policy_id.to_string(), grounds.code.as_str())
}

/// Every method with something it can be about.
fn everything() -> Vec<(&'static str, Target)> {
    let targets = |kind: &TargetKind| match kind {
        TargetKind::Tool => tool("files/read"),
        TargetKind::Resource => resource("files/file:///a"),
        TargetKind::Prompt => prompt("files/greet"),
        TargetKind::Server => whole("files"),
    };
    let rows = methods::METHODS.iter();
    let rows = rows.flat_map(|(method, kinds)| kinds.iter().map(move |kind| (*method, targets(kind))));
    rows.chain([("acme/extension", whole("files"))]).collect()
}

// R112, R119
#[test]
fn an_empty_rule_set_denies_every_method() {
    let denied = (
        Verdict::Deny,
        "builtin:default-deny".to_owned(),
        "DENY_NO_MATCHING_RULE",
    );
    for (action, target) in everything() {
        assert_eq!(says("", action, &target, "{}"), denied, "{action} {target:?}");
    }
}

#[test]
fn a_rule_that_names_no_action_is_about_every_method() {
    for (action, target) in everything() {
        let allowed = (Verdict::Allow, "all".to_owned(), "ALLOW_POLICY_MATCH");
        let text = "@id(\"all\") permit(principal, action, resource);";
        assert_eq!(says(text, action, &target, "{}"), allowed, "{action} {target:?}");
    }
}

#[test]
fn a_permit_for_one_method_gives_nothing_for_another() {
    for (permitted, _) in everything() {
        let text = format!("permit(principal, action == Action::\"{permitted}\", resource);");
        for (action, target) in everything() {
            let allowed = says(&text, action, &target, "{}").0 == Verdict::Allow;
            assert_eq!(allowed, action == permitted, "{permitted} gives {action} {target:?}");
        }
    }
}

#[test]
fn a_method_is_about_its_own_kinds_of_target_and_no_others() {
    let snapshot = snapshot("permit(principal, action, resource);");
    let caller = snapshot.caller(&Arc::new(agent("a")));
    for (action, target) in [
        ("tools/call", whole("files")),
        ("tools/call", resource("files/read")),
        ("resources/read", tool("files/read")),
        ("prompts/get", resource("files/greet")),
        ("sampling/createMessage", tool("files/read")),
        ("completion/complete", whole("files")),
        ("acme/extension", tool("files/read")),
    ] {
        assert!(!snapshot.could(&caller, action, &target), "{action} {target:?}");
        let code = snapshot
            .resolve_target(&caller, action, &target)
            .map(drop)
            .map_err(|unknown| unknown.code);
        assert_eq!(code, Err(ReasonCode::DenyNoMatchingRule), "{action} {target:?}");
        let explained = snapshot.explain_target(caller.principal(), action, &target, &call(&tree("{}")));
        assert_eq!((explained.verdict, explained.policies), (Verdict::Deny, Vec::new()));
    }
}

#[test]
fn scopes_and_attributes_of_targets_decide() {
    let file = resource("files/file:///a");
    for (scope, condition, target, allowed) in [
        ("resource in Server::\"files\"", "true", &file, true),
        (
            "resource in Server::\"files\"",
            "true",
            &resource("web/file:///a"),
            false,
        ),
        ("resource in Server::\"files\"", "true", &prompt("files/greet"), true),
        ("resource in Server::\"files\"", "true", &whole("files"), true),
        ("resource in Server::\"files\"", "true", &tool("files/wipe"), true),
        ("resource == Server::\"files\"", "true", &whole("files"), true),
        ("resource == Server::\"files\"", "true", &file, false),
        ("resource == Resource::\"files/file:///a\"", "true", &file, true),
        (
            "resource == Resource::\"files/file:///a\"",
            "true",
            &resource("files/file:///b"),
            false,
        ),
        (
            "resource == Resource::\"files/file:///a\"",
            "true",
            &resource("web/file:///a"),
            false,
        ),
        (
            "resource == Resource::\"files/greet\"",
            "true",
            &prompt("files/greet"),
            false,
        ),
        (
            "resource == Prompt::\"files/greet\"",
            "true",
            &prompt("files/greet"),
            true,
        ),
        ("resource in Resource::\"files/file:///a\"", "true", &file, true),
        ("resource is Resource", "true", &file, true),
        ("resource is Prompt", "true", &file, false),
        ("resource is Resource in Server::\"files\"", "true", &file, true),
        ("resource is Resource in Server::\"web\"", "true", &file, false),
        ("resource is Server", "true", &whole("web"), true),
        ("resource", "resource == Resource::\"files/file:///a\"", &file, true),
        (
            "resource",
            "resource == Resource::\"files/file:///a\"",
            &resource("files/file:///b"),
            false,
        ),
        ("resource", "resource in Server::\"web\"", &prompt("web/greet"), true),
        (
            "resource",
            "resource.trust == \"verified\" && resource.tier == \"none\"",
            &file,
            true,
        ),
        (
            "resource",
            "resource.trust == \"verified\"",
            &prompt("web/greet"),
            false,
        ),
        ("resource", "resource.trust == \"community\"", &whole("web"), true),
        ("resource", "resource has risk", &file, false),
        ("resource", "resource.risk == \"critical\"", &tool("files/wipe"), true),
        ("resource", "Resource::\"web/x\".trust == \"community\"", &file, true),
        ("resource", "Resource::\"gone/x\" has trust", &file, false),
        (
            "resource",
            "Tool::\"files/wipe\".risk == \"critical\" && Server::\"web\" has trust",
            &file,
            true,
        ),
        ("resource", "action == Action::\"resources/read\"", &file, true),
        ("resource", "action == Action::\"prompts/get\"", &file, false),
    ] {
        let action = match target.kind() {
            TargetKind::Tool => "tasks/get",
            TargetKind::Resource => "resources/read",
            TargetKind::Prompt => "prompts/get",
            TargetKind::Server => "roots/list",
        };
        let text = format!("permit(principal, action, {scope}) when {{ {condition} }};");
        let verdict = says(&text, action, target, "{}").0;
        assert_eq!(verdict == Verdict::Allow, allowed, "{scope} {condition} {target:?}");
    }
}

#[test]
fn forbid_wins_approval_comes_before_permission_and_an_error_denies() {
    let file = resource("files/file:///a");
    let text = |rule: &str| format!("@id(\"all\") permit(principal, action, resource); @id(\"other\") {rule}");
    for (rule, expected) in [
        (
            "forbid(principal, action == Action::\"resources/read\", resource);",
            (Verdict::Deny, "other", "DENY_NO_PERMISSION"),
        ),
        (
            "forbid(principal, action, resource) when { context.args.uri == \"file:///a\" };",
            (Verdict::Deny, "other", "DENY_NO_PERMISSION"),
        ),
        (
            "@require(\"approval\") permit(principal, action, resource in Server::\"files\");",
            (Verdict::RequireApproval, "other", "REQUIRE_APPROVAL"),
        ),
        (
            "forbid(principal, action, resource) when { context.args.nothing };",
            (Verdict::Deny, "other", "DENY_POLICY_ERROR"),
        ),
        // Only tools have a risk.
        (
            "permit(principal, action, resource) when { resource.risk == \"low\" };",
            (Verdict::Deny, "other", "DENY_POLICY_ERROR"),
        ),
        (
            "forbid(principal, action == Action::\"tools/call\", resource) when { resource.nothing };",
            (Verdict::Allow, "all", "ALLOW_POLICY_MATCH"),
        ),
    ] {
        let (verdict, id, code) = expected;
        let told = says(&text(rule), "resources/read", &file, r#"{"uri":"file:///a"}"#);
        assert_eq!(told, (verdict, id.to_owned(), code), "{rule}");
    }
}

// R118
#[test]
fn arguments_of_a_prompt_are_in_the_context() {
    let text = "permit(principal, action == Action::\"prompts/get\", resource == Prompt::\"files/greet\") \
                when { context.args has name && context.args.name like \"a*\" };";
    let (greet, snapshot) = (prompt("files/greet"), snapshot(text));
    for (json, verdict) in [
        (r#"{"name":"ann"}"#, Verdict::Allow),
        (r#"{"name":"bob"}"#, Verdict::Deny),
        ("{}", Verdict::Deny),
    ] {
        let (told, _, seen) = request(&snapshot, &agent("a"), ("prompts/get", &greet), json);
        assert_eq!((told, seen), (verdict, true), "{json}");
    }
    let (_, grounds, seen) = request(&snapshot, &agent("a"), ("prompts/get", &prompt("files/other")), "{}");
    assert_eq!((grounds.code, seen), (ReasonCode::DenyNoMatchingRule, false));
}

#[test]
fn what_is_not_there_for_a_caller_has_its_true_code_for_the_receipt() {
    let text = "@id(\"all\") permit(principal, action, resource); \
                @id(\"no\") forbid(principal, action, resource == Resource::\"files/secret\");";
    let scoped = Principal {
        servers: ServerScope::Only(BTreeSet::from([server("files")])),
        ..agent("a")
    };
    let gone = Target::Tool(Arc::new(ToolEntry {
        id: vocabulary::ToolId {
            server: server("files"),
            name: vocabulary::ToolName::parse("gone").expect("a name"),
        },
        ..(**tool("files/read").entry().expect("a tool")).clone()
    }));
    let snapshot = snapshot(text);
    for (who, action, target, id, code) in [
        (
            &agent("a"),
            "resources/read",
            resource("gone/x"),
            "builtin:default-deny",
            "DENY_TOOL_NOT_FOUND",
        ),
        (
            &agent("a"),
            "roots/list",
            whole("gone"),
            "builtin:default-deny",
            "DENY_TOOL_NOT_FOUND",
        ),
        (
            &agent("a"),
            "tasks/get",
            gone,
            "builtin:default-deny",
            "DENY_TOOL_NOT_FOUND",
        ),
        (
            &agent("a"),
            "tasks/get",
            tool("lab/probe"),
            "builtin:default-deny",
            "DENY_TOOL_QUARANTINED",
        ),
        (
            &agent("a"),
            "resources/read",
            resource("files/secret"),
            "no",
            "DENY_NO_PERMISSION",
        ),
        (
            &scoped,
            "resources/read",
            resource("web/x"),
            "builtin:default-deny",
            "DENY_NO_PERMISSION",
        ),
        (
            &scoped,
            "prompts/get",
            prompt("web/x"),
            "builtin:default-deny",
            "DENY_NO_PERMISSION",
        ),
        (
            &scoped,
            "tasks/get",
            tool("web/fetch"),
            "builtin:default-deny",
            "DENY_NO_PERMISSION",
        ),
        (
            &scoped,
            "elicitation/create",
            whole("web"),
            "builtin:default-deny",
            "DENY_NO_PERMISSION",
        ),
        (
            &scoped,
            "resources/read",
            resource("files/x"),
            "all",
            "ALLOW_POLICY_MATCH",
        ),
    ] {
        let (_, grounds, seen) = request(&snapshot, who, (action, &target), "{}");
        assert_eq!((&*grounds.policy_id, grounds.code.as_str()), (id, code), "{target:?}");
        assert_eq!(seen, code == "ALLOW_POLICY_MATCH", "{target:?}");
    }
}

#[test]
fn a_permit_is_good_for_its_own_method_target_and_arguments_in_its_own_epoch() {
    let snapshot = snapshot("permit(principal, action, resource);");
    let caller = snapshot.caller(&Arc::new(agent("a")));
    let arguments = tree(r#"{"uri":"file:///a"}"#);
    let facts = call(&arguments);
    let file = resource("files/file:///a");
    let permit = || {
        let known = snapshot
            .resolve_target(&caller, "resources/read", &file)
            .expect("visible");
        assert_eq!((known.action(), known.target()), ("resources/read", &file));
        match snapshot.decide_target(&caller, known, &facts) {
            Decision::Allow(permit, _) => permit,
            Decision::RequireApproval(..) | Decision::Deny(_) => panic!("not allowed"),
        }
    };
    assert_eq!(
        permit().spend(digest("other"), 1).map(drop),
        Err(PermitFault::OtherArguments)
    );
    assert_eq!(permit().spend(facts.args_hash, 2).map(drop), Err(PermitFault::Stale));
    let spent = permit().spend(facts.args_hash, 1).expect("honoured");
    assert_eq!(
        (spent.action(), spent.target(), spent.tool()),
        ("resources/read", &file, None)
    );
    assert_eq!(spent.principal(), caller.principal());
}

#[test]
fn a_target_resolved_for_somebody_else_or_elsewhere_gives_no_permit() {
    let text = "permit(principal == Agent::\"ann\", action, resource);";
    let (one, other) = (snapshot(text), snapshot(text));
    let (ann, bob) = (Arc::new(agent("ann")), Arc::new(agent("bob")));
    let file = resource("files/file:///a");
    let resolve = |snapshot: &PolicySnapshot| {
        let ann = snapshot.caller(&ann);
        snapshot.resolve_target(&ann, "resources/read", &file).expect("ann may")
    };
    let arguments = tree("{}");
    let refused = |decision: Decision| matches!(decision, Decision::Deny(_));
    assert!(refused(one.decide_target(
        &one.caller(&bob),
        resolve(&one),
        &call(&arguments)
    )));
    assert!(refused(one.decide_target(
        &one.caller(&ann),
        resolve(&other),
        &call(&arguments)
    )));
    // A caller of an older snapshot is looked at with the rules of this one.
    let stale = snapshot("").caller(&ann);
    assert!(one.could(&stale, "resources/read", &file));
    assert!(!refused(one.decide_target(&stale, resolve(&one), &call(&arguments))));
}

#[test]
fn a_tool_is_the_one_in_the_inventory_whatever_is_said_of_it() {
    let snapshot = snapshot("permit(principal, action, resource) when { resource.risk == \"low\" };");
    let caller = snapshot.caller(&Arc::new(agent("a")));
    let wipe = tool("files/wipe");
    let harmless = Target::Tool(Arc::new(ToolEntry {
        risk: Risk::Low,
        ..(**wipe.entry().expect("a tool")).clone()
    }));
    assert!(!snapshot.could(&caller, "tasks/get", &harmless));
    let approved = Target::Tool(Arc::new(ToolEntry {
        standing: Standing::Approved,
        risk: Risk::Low,
        ..(**tool("lab/probe").entry().expect("a tool")).clone()
    }));
    let code = snapshot
        .resolve_target(&caller, "tasks/get", &approved)
        .map(drop)
        .map_err(|unknown| unknown.code);
    assert_eq!(code, Err(ReasonCode::DenyToolQuarantined));
}

#[test]
fn names_that_clients_make_up_are_not_remembered() {
    let snapshot = snapshot("permit(principal, action, resource);");
    let caller = snapshot.caller(&Arc::new(agent("a")));
    for number in 0..50 {
        assert!(snapshot.could(&caller, &format!("acme/{number}"), &whole("files")));
        assert!(snapshot.could(&caller, "resources/read", &resource(&format!("files/{number}"))));
    }
    assert_eq!(caller.reaches.len(), 1);
}

#[test]
fn explaining_a_request_names_every_policy_in_scope() {
    let snapshot = snapshot(
        r#"@id("a") permit(principal, action, resource) when { context.args.n == 1 };
           @id("b") forbid(principal, action, resource == Resource::"files/x") when { resource in Server::"files" };
           @id("c") permit(principal, action == Action::"tools/call", resource);
           @id("d") permit(principal, action, resource in Server::"files") when { resource is Prompt };"#,
    );
    let arguments = tree(r#"{"n":1}"#);
    let explain = |target: &Target| {
        let who = Arc::new(agent("a"));
        let explained = snapshot.explain_target(&who, "resources/read", target, &call(&arguments));
        let findings: Vec<(String, Finding)> = explained
            .policies
            .into_iter()
            .map(|policy| (policy.policy_id.to_string(), policy.finding))
            .collect();
        (explained.verdict, explained.visibility.is_ok(), findings)
    };
    let finding = |id: &str, finding| (id.to_owned(), finding);
    let (satisfied, not) = (Finding::Satisfied, Finding::NotSatisfied);
    assert_eq!(
        explain(&resource("files/x")),
        (
            Verdict::Deny,
            false,
            vec![
                finding("a", satisfied.clone()),
                finding("b", satisfied.clone()),
                finding("d", not.clone())
            ]
        )
    );
    assert_eq!(
        explain(&resource("files/y")),
        (Verdict::Allow, true, vec![finding("a", satisfied), finding("d", not)])
    );
    assert_eq!(explain(&resource("gone/y")), (Verdict::Deny, false, Vec::new()));
}

#[test]
fn the_trust_of_a_target_is_its_servers() {
    for (id, trust) in [
        ("files", Trust::Verified),
        ("web", Trust::Community),
        ("lab", Trust::Unknown),
    ] {
        for (action, target) in [
            ("resources/read", resource(&format!("{id}/x"))),
            ("prompts/get", prompt(&format!("{id}/x"))),
            ("logging/setLevel", whole(id)),
        ] {
            let text = format!(
                "permit(principal, action, resource) when {{ resource.trust == \"{}\" }};",
                trust.as_str()
            );
            // What an unknown server offers beside its tools waits for approval.
            let waits = trust == Trust::Unknown && action != "logging/setLevel";
            let expected = if waits { Verdict::Deny } else { Verdict::Allow };
            assert_eq!(says(&text, action, &target, "{}").0, expected, "{action} {id}");
        }
    }
}

#[test]
fn what_is_remembered_of_one_target_is_not_said_of_another() {
    for (condition, let_through, other) in [
        (
            "resource has risk && resource.risk == \"low\"",
            ("tasks/get", tool("files/read")),
            ("tasks/get", tool("files/wipe")),
        ),
        (
            "resource == Resource::\"files/a\"",
            ("resources/read", resource("files/a")),
            ("resources/read", resource("files/b")),
        ),
        (
            "resource.trust == \"verified\"",
            ("prompts/get", prompt("files/a")),
            ("prompts/get", prompt("web/a")),
        ),
        (
            "action == Action::\"resources/read\"",
            ("resources/read", resource("files/a")),
            ("resources/subscribe", resource("files/a")),
        ),
        (
            "resource is Prompt",
            ("completion/complete", prompt("files/a")),
            ("completion/complete", resource("files/a")),
        ),
    ] {
        let snapshot = snapshot(&format!("permit(principal, action, resource) when {{ {condition} }};"));
        for (who, order) in [("ann", [&let_through, &other]), ("bob", [&other, &let_through])] {
            let caller = snapshot.caller(&Arc::new(agent(who)));
            for (action, target) in order {
                let expected = (action, target) == (&let_through.0, &let_through.1);
                assert_eq!(
                    snapshot.could(&caller, action, target),
                    expected,
                    "{condition} {target:?}"
                );
            }
        }
    }
}

#[test]
fn what_waits_is_not_there_and_what_nobody_lists_depends_on_the_trust() {
    use crate::inventory::Inventory;
    use crate::tests::{discovered, facts, rules};
    use crate::{ItemKind, ItemsSeen, merge_items};
    let raw = |text: &str| Arc::<[u8]>::from(text.as_bytes());
    let lists = |word: &str| {
        std::collections::BTreeMap::from([
            (
                ItemKind::Prompt,
                vec![vec![raw(&format!(r#"{{"name":"a","title":"{word}"}}"#))]],
            ),
            (
                ItemKind::Resource,
                vec![vec![raw(&format!(r#"{{"uri":"n:a","title":"{word}"}}"#))]],
            ),
            (
                ItemKind::Template,
                vec![vec![raw(&format!(r#"{{"uriTemplate":"t:{{x}}","title":"{word}"}}"#))]],
            ),
        ])
    };
    let seen = |word: &str| ItemsSeen {
        server: server("s"),
        lists: lists(word),
        doubtful: Default::default(),
        secret: Default::default(),
    };
    let waits = ReasonCode::DenyToolQuarantined;
    let absent = ReasonCode::DenyToolNotFound;
    for (trust, first, unlisted_prompt, unlisted_resource) in [
        (Trust::Internal, None, None, None),
        (Trust::Community, None, Some(absent), None),
        (Trust::Unknown, Some(waits), Some(absent), Some(absent)),
    ] {
        let facts = facts("s", trust);
        let before = merge_items(discovered(&facts, &[]), seen("one"), &facts).stored;
        let after = merge_items(before.clone(), seen("two"), &facts).stored;
        for (stored, expected) in [(before, first), (after, Some(waits))] {
            let inventory = Inventory::assemble(std::slice::from_ref(&facts), &[stored], &|_, _| None);
            let text = "permit(principal, action, resource);";
            let snapshot = PolicySnapshot::build(inventory, Arc::new(rules(text)), 1);
            let caller = snapshot.caller(&Arc::new(agent("a")));
            let denied = |action: &str, target: &Target| {
                let found = snapshot.resolve_target(&caller, action, target);
                assert_eq!(found.is_ok(), snapshot.could(&caller, action, target));
                found.err().map(|missing| missing.code)
            };
            let completion = "completion/complete";
            for (action, target) in [
                ("prompts/get", prompt("s/a")),
                (completion, prompt("s/a")),
                ("resources/read", resource("s/n:a")),
                ("resources/subscribe", resource("s/n:a")),
                ("resources/read", resource("s/t:1")),
                (completion, resource("s/t:{x}")),
            ] {
                assert_eq!(denied(action, &target), expected, "{trust} {action} {target:?}");
            }
            assert_eq!(denied("prompts/get", &prompt("s/b")), unlisted_prompt, "{trust}");
            assert_eq!(
                denied("resources/read", &resource("s/n:b")),
                unlisted_resource,
                "{trust}"
            );
        }
    }
}
