use std::collections::BTreeMap;

use cedar_policy::PolicySet;
use proptest::prelude::*;
use proptest::sample::select;
use vocabulary::{ActorType, ClaimValue, Era, Principal, Trust};

use super::*;
use crate::context;
use crate::decide::DEFAULT_DENY;
use crate::tests::{
    ANYBODY, agent, ask, call, definition, discovery, facts, in_groups, list, now, rules, server, snapshot, tree,
};
use crate::{Discovery, Shown, Verdict, merge};

#[test]
fn a_rule_that_asks_for_arguments_lists_the_tool_and_one_that_nothing_can_meet_does_not() {
    for (text, listed) in [
        (
            "permit(principal, action, resource) when { context.args.n == 1 };",
            true,
        ),
        (
            "permit(principal, action, resource) when { context.session.labels.contains(\"x\") };",
            true,
        ),
        (
            "permit(principal, action, resource) when { context.source.address.isLoopback() };",
            true,
        ),
        (
            "permit(principal, action, resource) when { context.source.authn == \"token\" };",
            true,
        ),
        (
            "permit(principal, action, resource) when { context.source.authn == \"jwt\" };",
            false,
        ),
        (
            "permit(principal, action, resource) when { context.incident.active };",
            false,
        ),
        (
            "permit(principal, action, resource) when { context.args.n == 1 && resource.risk == \"high\" };",
            false,
        ),
        (
            "permit(principal, action, resource) unless { context.args.n == 1 || resource.risk == \"low\" };",
            false,
        ),
        (
            "permit(principal, action, resource) when { if context.args.b then resource.risk == \"high\" else false };",
            false,
        ),
        (
            "permit(principal, action, resource) when { if context.args.b then resource.risk == \"high\" else context.args.c };",
            true,
        ),
        (
            "permit(principal, action, resource); forbid(principal, action, resource) when { context.args.b && resource.risk == \"high\" };",
            true,
        ),
        (
            "permit(principal, action, resource) when { context.args.n == 1 && context.args.n == 2 };",
            true,
        ),
        ("@require(\"approval\") permit(principal, action, resource);", true),
        (
            "permit(principal, action, resource); forbid(principal, action, resource) when { context.args.n == 1 };",
            true,
        ),
        (
            "permit(principal, action, resource); forbid(principal, action, resource) when { resource.risk == \"low\" };",
            false,
        ),
        (
            "permit(principal, action, resource); forbid(principal, action, resource) when { context.args has n || true };",
            false,
        ),
        (
            "permit(principal, action, resource) when { context.args.n == 1 && resource.nothing };",
            true,
        ),
        (
            "permit(principal, action, resource) when { resource.nothing && context.args.n == 1 };",
            false,
        ),
    ] {
        let listed_now = list(&snapshot(text), &agent("a")).contains(&"files/read".to_owned());
        assert_eq!(listed_now, listed, "{text}");
    }
}

// R111, R115
#[test]
fn two_principals_see_different_lists_in_stable_order() {
    let snapshot = snapshot(
        r#"permit(principal in Group::"dev", action, resource in Server::"files");
           permit(principal, action, resource) when { resource.risk == "high" };"#,
    );
    assert_eq!(
        list(&snapshot, &in_groups("a", &["dev"])),
        ["files/read", "files/wipe", "files/write", "web/fetch", "web/post"]
    );
    assert_eq!(list(&snapshot, &agent("b")), ["web/fetch", "web/post"]);
    let caller = snapshot.caller(&Arc::new(in_groups("a", &["dev"])));
    assert_eq!(snapshot.visible(&caller, Some(&server("web")), ANYBODY).len(), 2);
    assert_eq!(snapshot.visible(&caller, Some(&server("gone")), ANYBODY).len(), 0);
}

#[test]
fn rules_that_ask_the_same_are_worked_out_once_and_still_hold_for_their_own_scope_and_risk_alone() {
    let asks = r#"when { resource.risk == "low" && context.args.n == 1 }"#;
    let text = format!(
        r#"@id("a") permit(principal, action, resource == Tool::"files/read") {asks};
        @id("b") permit(principal, action, resource == Tool::"files/write") {asks};
        @id("c") permit(principal in Group::"dev", action, resource in Server::"web") {asks};
        @id("d") permit(principal, action, resource == Tool::"web/fetch") when {{ context.args.n == 1 }};
        @id("e") forbid(principal, action, resource == Tool::"web/post") {asks};
        @id("f") permit(principal, action, resource == Tool::"web/post") when {{ context.args.n == 1 }};"#
    );
    let snapshot = snapshot(&text);
    let alike: Vec<usize> = snapshot.rules().iter().map(|(_, rule)| rule.alike).collect();
    assert_eq!(alike, [0, 0, 0, 3, 4, 3], "a forbid is not like a permit");
    for who in [agent("ann"), in_groups("dan", &["dev"])] {
        assert_eq!(
            list(&snapshot, &who),
            ["files/read", "web/fetch", "web/post"],
            "`files/write` and `web` are of higher risk"
        );
    }
}

#[test]
fn of_a_tool_with_several_definitions_a_client_sees_the_one_it_can_use() {
    let (asks, waits, tells) = ("asks", "asks and waits", "tells");
    let described = |name: &str, text: &str| definition(name, "{}").replace(&format!("does {name}"), text);
    let shown = |era: Era, first: &str, second: &str| Shown {
        to: Face { era, ..ANYBODY },
        definitions: [definition("a", "{}"), described("b", first), described("c", second)]
            .map(|text| text.as_bytes().into())
            .to_vec(),
    };
    let facts = facts("both", Trust::Verified);
    let discovery = Discovery {
        shown: vec![shown(Era::Legacy, asks, tells), shown(Era::Modern, waits, asks)],
        ..discovery("both", &[])
    };
    let stored = merge(None, discovery, &facts, now()).stored;
    let inventory = Inventory::assemble(&[facts], &[stored], &|_, _| None);
    for (permitted, tool, legacy, modern) in [("both/b", "b", asks, waits), ("both/c", "c", tells, asks)] {
        let text = format!("permit(principal, action, resource == Tool::\"{permitted}\");");
        let snapshot = PolicySnapshot::build(inventory.clone(), Arc::new(rules(&text)), 1);
        let caller = snapshot.caller(&Arc::new(agent("a")));
        for (era, expected) in [(Era::Legacy, legacy), (Era::Modern, modern)] {
            let seen = snapshot.visible(&caller, None, Face { era, ..ANYBODY });
            let seen: Vec<String> = seen
                .iter()
                .map(|tool| String::from_utf8_lossy(&tool.definition).into_owned())
                .collect();
            assert_eq!(seen, [described(tool, expected)]);
        }
    }
}

// R112
#[test]
fn quarantined_tools_are_listed_to_nobody() {
    let snapshot = snapshot("permit(principal, action, resource);");
    assert!(!list(&snapshot, &agent("a")).iter().any(|tool| tool.starts_with("lab/")));
}

#[test]
fn a_server_without_known_tools_could_be_used_by_those_whom_a_rule_could_let() {
    for (text, expected) in [
        ("", false),
        ("permit(principal, action, resource in Server::\"files\");", false),
        ("permit(principal, action, resource in Server::\"lab\");", true),
        (
            "permit(principal, action, resource == Tool::\"lab/later\") when { context.args.n == 1 };",
            true,
        ),
        (
            "permit(principal, action, resource) when { resource.risk == \"medium\" };",
            true,
        ),
        ("permit(principal in Group::\"dev\", action, resource);", false),
    ] {
        let snapshot = snapshot(text);
        let caller = snapshot.caller(&Arc::new(agent("a")));
        assert_eq!(snapshot.could_use(&caller, &server("lab")), expected, "{text}");
        assert!(!snapshot.could_use(&caller, &server("gone")), "{text}");
    }
}

fn effect() -> impl Strategy<Value = &'static str> {
    select(vec!["permit", "permit", "@require(\"approval\") permit", "forbid"])
}

fn principal_scope() -> impl Strategy<Value = &'static str> {
    select(vec![
        "principal",
        "principal",
        "principal == Agent::\"ann\"",
        "principal == Agent::\"bob\"",
        "principal in Group::\"dev\"",
        "principal in Agent::\"ann\"",
        "principal is Agent",
        "principal is User in Group::\"dev\"",
        "principal == Group::\"dev\"",
    ])
}

fn action_scope() -> impl Strategy<Value = &'static str> {
    select(vec![
        "action",
        "action",
        "action == Action::\"tools/call\"",
        "action in [Action::\"tools/call\", Action::\"x\"]",
        "action == Action::\"prompts/get\"",
    ])
}

fn resource_scope() -> impl Strategy<Value = &'static str> {
    select(vec![
        "resource",
        "resource",
        "resource == Tool::\"files/read\"",
        "resource in Tool::\"files/wipe\"",
        "resource in Server::\"files\"",
        "resource == Server::\"files\"",
        "resource is Tool",
        "resource is Tool in Server::\"web\"",
        "resource is Prompt",
    ])
}

fn condition() -> impl Strategy<Value = &'static str> {
    prop_oneof![1 => Just(""), 2 => some_condition()]
}

fn some_condition() -> impl Strategy<Value = &'static str> {
    select(vec![
        "resource.risk == \"low\"",
        "resource.risk != \"critical\"",
        "resource has readOnlyHint && resource.readOnlyHint",
        "resource.openWorldHint",
        "principal.claims has org && principal.claims.org == \"acme\"",
        "principal.claims.org == \"acme\"",
        "principal in Group::\"dev\"",
        "resource in Server::\"web\"",
        "resource == Tool::\"web/fetch\"",
        "context.args has n && resource != Tool::\"web/post\"",
        "[resource, principal].contains(Tool::\"web/post\")",
        "context.args has flag && resource.risk == \"high\"",
        "Tool::\"files/wipe\".risk == \"critical\"",
        "Server::\"web\".trust == resource.trust",
        "Agent::\"bob\" has claims",
        "context.args has n && context.args.n > 1",
        "context.args.n > 1",
        "context.args.flag",
        "context.args has flag && !context.args.flag",
        "context.args == {n: 1}",
        "context has args",
        "context has nothing",
        "context.source.authn == \"token\" && context.source.address.isIpv4()",
        "context.session.labels.contains(\"untrusted\")",
        "context.incident.stage == \"normal\"",
        "resource.risk == \"low\" || context.args.n == 3",
    ])
}

fn rule_text() -> impl Strategy<Value = String> {
    (
        effect(),
        principal_scope(),
        action_scope(),
        resource_scope(),
        condition(),
    )
        .prop_map(|(effect, principal, action, resource, condition)| {
            let condition = if condition.is_empty() {
                String::new()
            } else {
                format!(" when {{ {condition} }}")
            };
            format!("{effect}({principal}, {action}, {resource}){condition};\n")
        })
}

fn policies() -> impl Strategy<Value = String> {
    prop::collection::vec(rule_text(), 0..9).prop_map(|rules| rules.concat())
}

fn principal() -> impl Strategy<Value = Principal> {
    (
        select(vec!["ann", "bob"]),
        any::<bool>(),
        any::<bool>(),
        prop::option::of(select(vec!["acme", "evil"])),
    )
        .prop_map(|(sub, dev, user, org)| {
            let org = org.map(|org| ("org".to_owned(), ClaimValue::Text(org.to_owned())));
            Principal {
                actor_type: if user { ActorType::User } else { ActorType::Agent },
                claims: org.into_iter().collect::<BTreeMap<_, _>>(),
                ..in_groups(sub, if dev { &["dev"] } else { &["ops"] })
            }
        })
}

const ARGUMENTS: [&str; 7] = [
    "{}",
    r#"{"n":1}"#,
    r#"{"n":3}"#,
    r#"{"flag":true}"#,
    r#"{"flag":false,"n":2}"#,
    r#"{"flag":true,"n":3}"#,
    r#"{"n":"x"}"#,
];

const TOOLS: [&str; 5] = ["files/read", "files/wipe", "files/write", "web/fetch", "web/post"];

/// Cedar's own answer, from all rules, all entities and the whole context.
fn oracle(snapshot: &PolicySnapshot, who: &Principal, tool: &str, json: &str) -> (Verdict, Grounds) {
    let rules = snapshot.rules();
    let all = rules.iter().flat_map(|(_, rule)| rule.set.policies().cloned());
    let set = PolicySet::from_policies(all).expect("ids are unique");
    let who = Arc::new(who.clone());
    let caller = snapshot.caller(&who);
    let cast = snapshot.cast().iter().chain(caller.entity.as_ref()).cloned();
    let entities = Entities::from_entities(cast, None).expect("no cycles");
    let arguments = tree(json);
    let context = context::of_call(&call(&arguments), Risk::Low, who.authn, &Reads::everything()).expect("a context");
    let (server_name, name) = tool.split_once('/').expect("server/tool");
    let place = snapshot
        .inventory()
        .place(&server(server_name), name)
        .expect("in the inventory");
    let uids = snapshot.cast().uids(place).expect("in the cast");
    let scene = Scene::new(&caller, uids.tool.clone(), context, Arc::new(entities)).expect("a request");
    let response = AUTHORIZER.is_authorized(&scene.request, &set, &scene.entities);

    let first = |ids: Vec<String>| ids.into_iter().min().map(|id| Arc::from(id.as_str()));
    let errors = response.diagnostics().errors().map(|error| match error {
        cedar_policy::AuthorizationError::PolicyEvaluationError(error) => error.policy_id().to_string(),
    });
    let reasons: Vec<String> = response.diagnostics().reason().map(ToString::to_string).collect();
    let approval = |id: &String| set.annotation(&cedar_policy::PolicyId::new(id), "require").is_some();
    let approvals: Vec<String> = reasons.iter().filter(|id| approval(id)).cloned().collect();
    let grounds =
        |policy_id: Arc<str>, code: &str| Grounds::new(policy_id, vocabulary::ReasonCode::parse(code).expect("a code"));
    if let Some(id) = first(errors.collect()) {
        (Verdict::Deny, grounds(id, "DENY_POLICY_ERROR"))
    } else if response.decision() == cedar_policy::Decision::Deny {
        match first(reasons) {
            Some(id) => (Verdict::Deny, grounds(id, "DENY_NO_PERMISSION")),
            None => (Verdict::Deny, grounds(DEFAULT_DENY.clone(), "DENY_NO_MATCHING_RULE")),
        }
    } else if let Some(id) = first(approvals) {
        (Verdict::RequireApproval, grounds(id, "REQUIRE_APPROVAL"))
    } else {
        (
            Verdict::Allow,
            grounds(first(reasons).expect("a permit"), "ALLOW_POLICY_MATCH"),
        )
    }
}

/// Our answer from the slice, whether the tool is visible or not.
fn sliced(snapshot: &PolicySnapshot, who: &Principal, tool: &str, json: &str) -> (Verdict, Grounds) {
    let caller = snapshot.caller(&Arc::new(who.clone()));
    let (server_name, name) = tool.split_once('/').expect("server/tool");
    let place = snapshot
        .inventory()
        .place(&server(server_name), name)
        .expect("in the inventory");
    let standpoint = snapshot.standpoint(&caller, place);
    let arguments = tree(json);
    snapshot
        .judge(&caller, &standpoint, place, &call(&arguments))
        .verdict(snapshot.rules())
}

fn rank(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Deny => 0,
        Verdict::RequireApproval => 1,
        Verdict::Allow => 2,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    // R118, R119
    #[test]
    fn the_slice_decides_as_the_whole_set_would(text in policies(), who in principal()) {
        let snapshot = snapshot(&text);
        for tool in TOOLS {
            for json in ARGUMENTS {
                let whole = oracle(&snapshot, &who, tool, json);
                prop_assert_eq!(&sliced(&snapshot, &who, tool, json), &whole, "{} {}", tool, json);
                // What the caller experiences is the same, but that a hidden tool is not there.
                let (verdict, _) = ask(&snapshot, &who, tool, json);
                prop_assert_eq!(verdict, whole.0, "{} {}", tool, json);
            }
        }
    }

    // R112, R119
    #[test]
    fn without_a_permit_nothing_is_allowed_or_listed(text in policies(), who in principal()) {
        let forbids: String = text.lines().filter(|line| line.starts_with("forbid")).map(|line| format!("{line}\n")).collect();
        let snapshot = snapshot(&forbids);
        prop_assert!(list(&snapshot, &who).is_empty());
        for tool in TOOLS {
            for json in ARGUMENTS {
                prop_assert_eq!(ask(&snapshot, &who, tool, json).0, Verdict::Deny);
            }
        }
    }

    #[test]
    fn adding_a_forbid_never_allows_more(text in policies(), more in rule_text(), who in principal()) {
        let forbid = more.replace("@require(\"approval\") permit", "forbid").replace("permit", "forbid");
        let (before, after) = (snapshot(&text), snapshot(&format!("{text}{forbid}")));
        let listed = list(&before, &who);
        prop_assert!(list(&after, &who).iter().all(|tool| listed.contains(tool)));
        for tool in TOOLS {
            for json in ARGUMENTS {
                let (was, is) = (ask(&before, &who, tool, json).0, ask(&after, &who, tool, json).0);
                prop_assert!(rank(is) <= rank(was), "{tool} {json}: {was:?} became {is:?} with {forbid}");
            }
        }
    }
}

/// Rules that each ask for an argument of their own, so that every combination can be met.
fn read_once_policies() -> impl Strategy<Value = String> {
    let asked = select(vec![
        "",
        "context.args.ARG",
        "!context.args.ARG",
        "context.args has ARG && context.args.ARG",
    ]);
    let beside = select(vec![
        "ASKED",
        "resource.risk == \"low\" && ASKED",
        "ASKED && principal in Group::\"dev\"",
        "ASKED || principal in Group::\"dev\"",
        "!(ASKED && resource.risk == \"low\")",
        "if ASKED then resource.risk == \"low\" else principal in Group::\"dev\"",
    ]);
    let rule = (effect(), principal_scope(), resource_scope(), beside, asked);
    prop::collection::vec(rule, 0..6).prop_map(|rules| {
        let rule = |(number, (effect, principal, resource, beside, asked)): (usize, (&str, &str, &str, &str, &str))| {
            let asked = if asked.is_empty() {
                "true".to_owned()
            } else {
                asked.replace("ARG", &format!("a{number}"))
            };
            let condition = beside.replace("ASKED", &format!("({asked})"));
            format!("{effect}({principal}, action, {resource}) when {{ {condition} }};\n")
        };
        rules.into_iter().enumerate().map(rule).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    // R111
    #[test]
    fn a_tool_is_listed_exactly_when_some_call_of_it_is_allowed_or_approved(
        text in read_once_policies(),
        who in principal(),
    ) {
        let snapshot = snapshot(&text);
        let rules = text.lines().count();
        let listed = list(&snapshot, &who);
        for tool in TOOLS {
            let possible = (0..1u32 << rules).any(|bits| {
                let members: Vec<String> =
                    (0..rules).map(|number| format!("\"a{number}\":{}", bits >> number & 1 == 1)).collect();
                let json = format!("{{{}}}", members.join(","));
                oracle(&snapshot, &who, tool, &json).0 != Verdict::Deny
            });
            prop_assert_eq!(listed.contains(&tool.to_owned()), possible, "{}", tool);
        }
    }
}

/// Not a benchmark, only the order of magnitude, on demand: `cargo test -- --ignored --nocapture`.
#[test]
#[ignore = "prints timings, asserts nothing"]
fn roughly_how_long_a_decision_and_a_list_take() {
    use crate::tests::discovered;
    let facts = facts("files", Trust::Verified);
    let definitions: Vec<String> = (0..500).map(|number| definition(&format!("t{number}"), "{}")).collect();
    let definitions: Vec<&str> = definitions.iter().map(String::as_str).collect();
    let inventory = Inventory::assemble(
        std::slice::from_ref(&facts),
        &[discovered(&facts, &definitions)],
        &|_, _| None,
    );
    let by_tool = |number: usize| {
        format!(
            "permit(principal in Group::\"g{}\", action == Action::\"tools/call\", resource == Tool::\"files/t{}\") \
             when {{ resource.risk == \"high\" && context.args has path && context.args.path like \"/srv/*\" }};\n",
            number % 2,
            number % 500
        )
    };
    let by_group = |number: usize| {
        format!(
            "permit(principal in Group::\"g{}\", action, resource in Server::\"files\") when {{ context.args.path like \"/a/*\" }};\n",
            number % 200
        )
    };
    let shapes: [(&str, String); 2] = [
        ("by tool", (0..1000).map(by_tool).collect()),
        ("by group", (0..1000).map(by_group).collect()),
    ];
    for (shape, text) in shapes {
        let snapshot = PolicySnapshot::build(inventory.clone(), Arc::new(rules(&text)), 1);
        let who = Arc::new(in_groups("a", &["g1", "g2", "x", "y"]));
        let start = std::time::Instant::now();
        let caller = snapshot.caller(&who);
        let prepared = start.elapsed();
        let start = std::time::Instant::now();
        let seen = snapshot.visible(&caller, None, ANYBODY).len();
        println!(
            "{shape}: caller {prepared:?}, list of {seen} uncached {:?}",
            start.elapsed()
        );
        let arguments = tree(r#"{"path":"/srv/a","mode":"r","limit":10,"tags":["a","b"]}"#);
        let start = std::time::Instant::now();
        for _ in 0..1000 {
            let caller = snapshot.caller(&who);
            let known = snapshot
                .resolve(&caller, &server("files"), "t1", ANYBODY)
                .expect("visible");
            let _ = snapshot.decide(&caller, known, &call(&arguments));
        }
        println!("{shape}: decision {:?}", start.elapsed() / 1000);
    }
}
