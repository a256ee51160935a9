//! What the tests of this crate share: a small town of servers, tools and callers.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use vocabulary::json::{Limits, Value};
use vocabulary::{ActorType, Authn, Digest, Face, Principal, Risk, ServerId, ServerScope, Timestamp, Trust, canonical};

use crate::{
    CallFacts, Decision, Discovery, Grounds, Inventory, ItemKind, ItemsSeen, PolicyFile, PolicySnapshot, Rules,
    ServerFacts, ServerIdentity, Shown, StoredServer, Verdict, merge, merge_items,
};

pub(crate) const ANYBODY: Face = Face::LEAST;

pub(crate) fn now() -> Timestamp {
    Timestamp::from_micros(1_794_744_000_000_000)
}

pub(crate) fn server(id: &str) -> ServerId {
    ServerId::parse(id).expect("a server id")
}

pub(crate) fn facts(id: &str, trust: Trust) -> ServerFacts {
    ServerFacts {
        id: server(id),
        trust,
        identity: identity("one"),
        tier: crate::SandboxTier::default(),
        tools: BTreeMap::new(),
    }
}

/// A server's identity by its name.
pub(crate) fn identity(name: &str) -> ServerIdentity {
    ServerIdentity::new(name, Digest::of(name.as_bytes()))
}

pub(crate) fn definition(name: &str, annotations: &str) -> String {
    format!(
        r#"{{"name":"{name}","description":"does {name}","inputSchema":{{"type":"object"}},"annotations":{annotations}}}"#
    )
}

pub(crate) fn discovery(id: &str, definitions: &[&str]) -> Discovery {
    let definitions = definitions
        .iter()
        .map(|definition| definition.as_bytes().into())
        .collect();
    Discovery {
        server: server(id),
        instructions: None,
        shown: vec![Shown::to_all(definitions)],
        told: Vec::new(),
        cut: None,
        doubtful: Default::default(),
    }
}

pub(crate) fn discovered(facts: &ServerFacts, definitions: &[&str]) -> StoredServer {
    merge(None, discovery(facts.id.as_str(), definitions), facts, now()).stored
}

/// `files` (verified): `read` (low), `write` (medium), `wipe` (critical). `web` (community): `fetch`
/// and `post` (high), alike but for their names, and prompts.
/// `lab` (unknown): `probe`, quarantined.
pub(crate) fn town() -> Inventory {
    let mut files = facts("files", Trust::Verified);
    files.tools = BTreeMap::from([
        ("read".to_owned(), Some(Risk::Low)),
        ("write".to_owned(), Some(Risk::Medium)),
        ("wipe".to_owned(), Some(Risk::Critical)),
    ]);
    let (web, lab) = (facts("web", Trust::Community), facts("lab", Trust::Unknown));
    let open = r#"{"openWorldHint":true}"#;
    let read = definition("read", r#"{"readOnlyHint":true}"#);
    let write = definition("write", r#"{"destructiveHint":false,"idempotentHint":true}"#);
    let stored = [
        discovered(&files, &[&read, &write, &definition("wipe", "{}")]),
        with_prompts(
            &web,
            discovered(&web, &[&definition("fetch", open), &definition("post", open)]),
        ),
        discovered(&lab, &[&definition("probe", "{}")]),
    ];
    Inventory::assemble(&[files, web, lab], &stored, &|_, _| None)
}

/// The same server with prompts of one letter, and `greet`.
fn with_prompts(facts: &ServerFacts, stored: StoredServer) -> StoredServer {
    let prompts = ["greet", "x", "p", "q", "a"].map(|name| format!(r#"{{"name":"{name}"}}"#).into_bytes().into());
    let seen = ItemsSeen {
        server: stored.id.clone(),
        lists: BTreeMap::from([(ItemKind::Prompt, vec![prompts.to_vec()])]),
        doubtful: BTreeSet::new(),
        secret: BTreeSet::new(),
    };
    merge_items(stored, seen, facts).stored
}

pub(crate) fn agent(sub: &str) -> Principal {
    Principal {
        sub: sub.to_owned(),
        actor_type: ActorType::Agent,
        client_id: None,
        org_id: None,
        issuer: "portreeve".to_owned(),
        authn: Authn::Token,
        act: Vec::new(),
        run: None,
        groups: BTreeSet::new(),
        claims: BTreeMap::new(),
        servers: ServerScope::Every,
    }
}

pub(crate) fn in_groups(sub: &str, groups: &[&str]) -> Principal {
    Principal {
        groups: groups.iter().map(|&group| group.to_owned()).collect(),
        ..agent(sub)
    }
}

pub(crate) fn rules(text: &str) -> Rules {
    let file = PolicyFile {
        name: "rules.cedar".to_owned(),
        text: text.to_owned(),
    };
    Rules::load(&[file]).unwrap_or_else(|faults| panic!("{faults:?}"))
}

pub(crate) fn snapshot(text: &str) -> PolicySnapshot {
    PolicySnapshot::build(town(), Arc::new(rules(text)), 1)
}

pub(crate) fn tree(json: &str) -> Value<'_> {
    let limits = Limits {
        max_bytes: 1 << 20,
        max_depth: 64,
        max_string: 1 << 20,
        max_items: 10_000,
    };
    Value::parse(json.as_bytes(), &limits).expect("test arguments parse")
}

pub(crate) fn address() -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7))
}

pub(crate) fn call<'a>(arguments: &'a Value<'a>) -> CallFacts<'a> {
    CallFacts {
        arguments,
        args_hash: canonical::digest(arguments).0,
        found: None,
        address: address(),
    }
}

/// What the caller experiences: `Err` for a tool that is not there for them.
pub(crate) fn ask(snapshot: &PolicySnapshot, who: &Principal, tool: &str, json: &str) -> (Verdict, Grounds) {
    let (server_name, tool) = tool.split_once('/').expect("server/tool");
    let caller = snapshot.caller(&Arc::new(who.clone()));
    let arguments = tree(json);
    match snapshot.resolve(&caller, &server(server_name), tool, ANYBODY) {
        Err(unknown) => (Verdict::Deny, Grounds::new(unknown.policy_id, unknown.code)),
        Ok(known) => match snapshot.decide(&caller, known, &call(&arguments)) {
            Decision::Allow(_, grounds) => (Verdict::Allow, grounds),
            Decision::RequireApproval(_, grounds) => (Verdict::RequireApproval, grounds),
            Decision::Deny(grounds) => (Verdict::Deny, grounds),
        },
    }
}

pub(crate) fn list(snapshot: &PolicySnapshot, who: &Principal) -> Vec<String> {
    let caller = snapshot.caller(&Arc::new(who.clone()));
    snapshot
        .visible(&caller, None, ANYBODY)
        .iter()
        .map(|tool| tool.id.to_string())
        .collect()
}

pub(crate) fn digest(text: &str) -> Digest {
    Digest::of(text.as_bytes())
}
