//! Every method against Cedar's own answer from the whole set, and against the door of calls.

use std::collections::BTreeMap;

use cedar_policy::PolicySet;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::context;
use crate::decide::{AUTHORIZER, DEFAULT_DENY};
use crate::rules::Reads;
use crate::tests::{ask, in_groups, list};

fn rule_text() -> impl Strategy<Value = String> {
    let effect = select(vec!["permit", "permit", "@require(\"approval\") permit", "forbid"]);
    let principal = select(vec![
        "principal",
        "principal",
        "principal == Agent::\"ann\"",
        "principal in Group::\"dev\"",
        "principal is User",
    ]);
    let action = select(vec![
        "action",
        "action",
        "action == Action::\"resources/read\"",
        "action in [Action::\"prompts/get\", Action::\"completion/complete\", Action::\"tasks/get\"]",
        "action == Action::\"tools/call\"",
        "action == Action::\"roots/list\"",
    ]);
    let resource = select(vec![
        "resource",
        "resource",
        "resource in Server::\"files\"",
        "resource == Server::\"files\"",
        "resource is Resource",
        "resource is Prompt in Server::\"web\"",
        "resource == Resource::\"files/a\"",
        "resource in Prompt::\"web/p\"",
        "resource == Tool::\"files/wipe\"",
        "resource is Server in Server::\"web\"",
    ]);
    let condition = select(vec![
        "true",
        "resource.trust == \"verified\"",
        "resource has risk && resource.risk == \"critical\"",
        "resource.risk == \"low\"",
        "resource == Resource::\"files/a\"",
        "resource is Resource || resource in Server::\"web\"",
        "[resource, principal].contains(Prompt::\"web/p\")",
        "Resource::\"web/named\".trust == resource.trust",
        "Prompt::\"gone/p\" has trust",
        "Tool::\"files/wipe\".risk == \"critical\"",
        "action == Action::\"resources/read\" || context.args.flag",
        "action != Action::\"roots/list\"",
        "context.args has n && context.args.n > 1",
        "context.args.n > 1",
        "context.args has n && resource != Resource::\"files/b\"",
        "context.source.authn == \"token\" && context.source.address.isIpv4()",
        "context.session.labels.contains(\"untrusted\")",
        "context == {}",
    ]);
    (effect, principal, action, resource, condition).prop_map(|(effect, principal, action, resource, condition)| {
        let condition = if condition == "true" {
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

const ARGUMENTS: [&str; 5] = [
    "{}",
    r#"{"n":1}"#,
    r#"{"n":3}"#,
    r#"{"flag":true}"#,
    r#"{"flag":false,"n":2}"#,
];

fn requests() -> Vec<(&'static str, Target)> {
    vec![
        ("resources/read", resource("files/a")),
        ("resources/read", resource("files/b")),
        ("resources/read", resource("web/named")),
        ("completion/complete", resource("files/a")),
        ("completion/complete", prompt("web/p")),
        ("prompts/get", prompt("web/p")),
        ("prompts/get", prompt("web/q")),
        ("roots/list", whole("files")),
        ("roots/list", whole("web")),
        ("acme/extension", whole("web")),
        ("tasks/get", tool("files/wipe")),
        ("tasks/get", tool("web/post")),
        ("tools/call", tool("files/wipe")),
    ]
}

/// Cedar's own answer, from all rules, all entities and the whole context.
fn oracle(
    snapshot: &PolicySnapshot,
    who: &Principal,
    (action, target): (&str, &Target),
    json: &str,
) -> (Verdict, Grounds) {
    let rules = snapshot.rules();
    let all = rules.iter().flat_map(|(_, rule)| rule.set.policies().cloned());
    let set = PolicySet::from_policies(all).expect("ids are unique");
    let caller = snapshot.caller(&Arc::new(who.clone()));
    let mut cast: BTreeMap<EntityUid, cedar_policy::Entity> = snapshot
        .cast()
        .iter()
        .chain(caller.entity.as_ref())
        .map(|entity| (entity.uid(), entity.clone()))
        .collect();
    let entry = snapshot.inventory().server(target.server()).expect("configured");
    cast.entry(target.uid())
        .or_insert_with(|| offered_entity(&target.uid(), entry).expect("an entity"));
    let entities = Entities::from_entities(cast.into_values(), None).expect("no cycles");
    let arguments = tree(json);
    let context = context::of_call(&call(&arguments), Risk::Low, who.authn, &Reads::everything()).expect("a context");
    let action = crate::entities::action_uid(action);
    let request = cedar_policy::Request::new(caller.uid().clone(), action, target.uid(), context, None);
    let response = AUTHORIZER.is_authorized(&request.expect("no schema"), &set, &entities);

    let first = |ids: Vec<String>| ids.into_iter().min().map(|id| Arc::from(id.as_str()));
    let errors = response.diagnostics().errors().map(|error| match error {
        cedar_policy::AuthorizationError::PolicyEvaluationError(error) => error.policy_id().to_string(),
    });
    let reasons: Vec<String> = response.diagnostics().reason().map(ToString::to_string).collect();
    let approval = |id: &String| set.annotation(&cedar_policy::PolicyId::new(id), "require").is_some();
    let approvals: Vec<String> = reasons.iter().filter(|id| approval(id)).cloned().collect();
    let found = |verdict, policy_id, code| (verdict, Grounds::new(policy_id, code));
    if let Some(id) = first(errors.collect()) {
        found(Verdict::Deny, id, ReasonCode::DenyPolicyError)
    } else if response.decision() == cedar_policy::Decision::Deny {
        match first(reasons) {
            Some(id) => found(Verdict::Deny, id, ReasonCode::DenyNoPermission),
            None => found(Verdict::Deny, DEFAULT_DENY.clone(), ReasonCode::DenyNoMatchingRule),
        }
    } else if let Some(id) = first(approvals) {
        found(Verdict::RequireApproval, id, ReasonCode::RequireApproval)
    } else {
        found(
            Verdict::Allow,
            first(reasons).expect("a permit"),
            ReasonCode::AllowPolicyMatch,
        )
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    // R118, R119
    #[test]
    fn every_method_is_decided_as_the_whole_set_would(text in policies(), dev in any::<bool>()) {
        let snapshot = snapshot(&text);
        let who = in_groups("ann", if dev { &["dev"] } else { &[] });
        for (action, target) in requests() {
            for json in ARGUMENTS {
                let expected = oracle(&snapshot, &who, (action, &target), json);
                let (verdict, grounds, seen) = request(&snapshot, &who, (action, &target), json);
                prop_assert_eq!(verdict, expected.0, "{} {:?} {}", action, target, json);
                if seen {
                    prop_assert_eq!(grounds, expected.1, "{} {:?} {}", action, target, json);
                }
                let arguments = tree(json);
                let explained = snapshot.explain_target(&Arc::new(who.clone()), action, &target, &call(&arguments));
                prop_assert_eq!(explained.verdict, expected.0, "{} {:?} {}", action, target, json);
            }
        }
    }

    #[test]
    fn a_tool_call_is_decided_alike_by_both_doors(text in policies(), dev in any::<bool>()) {
        let snapshot = snapshot(&text);
        let who = in_groups("ann", if dev { &["dev"] } else { &[] });
        let listed = list(&snapshot, &who);
        for name in ["files/read", "files/wipe", "files/write", "lab/probe", "web/fetch", "web/post"] {
            for json in ARGUMENTS {
                let (verdict, grounds, seen) = request(&snapshot, &who, ("tools/call", &tool(name)), json);
                prop_assert_eq!((verdict, grounds), ask(&snapshot, &who, name, json), "{} {}", name, json);
                prop_assert_eq!(seen, listed.contains(&name.to_owned()), "{}", name);
            }
        }
    }
}

/// Not a benchmark, only the order of magnitude, on demand: `cargo test -- --ignored --nocapture`.
#[test]
#[ignore = "prints timings, asserts nothing"]
fn roughly_how_long_a_list_of_resources_takes() {
    type Rule = fn(usize) -> String;
    let shapes: [(&str, Rule); 4] = [
        ("by resource", |number| {
            format!(
                "permit(principal in Group::\"g{}\", action == Action::\"resources/read\", resource == Resource::\"files/file:///{number}\") when {{ context.args has uri }};",
                number % 2
            )
        }),
        ("by server", |number| {
            format!(
                "permit(principal, action, resource in Server::\"files\") when {{ context.args.a{number} == 1 && resource.trust == \"verified\" }};"
            )
        }),
        ("by other methods", |number| {
            format!(
                "permit(principal, action == Action::\"tools/call\", resource) when {{ context.args.a{number} == 1 }};"
            )
        }),
        ("by identity in a condition, one in a hundred", |number| {
            let condition = if number % 100 == 0 {
                format!("resource == Resource::\"files/file:///{number}\"")
            } else {
                "context.args.n == 1".to_owned()
            };
            format!("permit(principal, action, resource) when {{ {condition} }};")
        }),
    ];
    for (shape, rule) in shapes {
        let snapshot = snapshot(&(0..1000).map(rule).collect::<String>());
        let targets: Vec<Target> = (0..1000)
            .map(|number| resource(&format!("files/file:///{number}")))
            .collect();
        let caller = snapshot.caller(&Arc::new(in_groups("a", &["g1"])));
        for round in ["first", "second"] {
            let start = std::time::Instant::now();
            let seen = targets
                .iter()
                .filter(|target| snapshot.could(&caller, "resources/read", target))
                .count();
            println!("{shape}: {seen} of 1000 seen, {round} {:?}", start.elapsed());
        }
        let arguments = tree(r#"{"uri":"file:///1"}"#);
        let start = std::time::Instant::now();
        for _ in 0..1000 {
            let known = snapshot.resolve_target(&caller, "resources/read", &targets[1]);
            let _ = known.map(|known| snapshot.decide_target(&caller, known, &call(&arguments)));
        }
        println!("{shape}: decision {:?}", start.elapsed() / 1000);
    }
}
