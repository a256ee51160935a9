//! The room from outside: discover, approve, list, resolve, decide, spend.

#![expect(clippy::expect_used, reason = "a test whose setting cannot be built has failed")]

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use portreeve_policy::{
    CallFacts, CallLimits, Caller, Class, Decision, Discovery, Inventory, InventoryStore, LimitRules, PolicyFile,
    PolicySnapshot, Request, Rules, ServerFacts, Shown, StoreError, StoredServer, approve, merge,
};
use vocabulary::json::Value;
use vocabulary::{
    ActorType, Authn, Clock, Digest, Face, Principal, ReasonCode, ServerId, ServerScope, Timestamp, Trust, canonical,
};

/// A store that keeps everything in memory: the port is small enough to be one.
#[derive(Default)]
struct Shelf(Mutex<BTreeMap<ServerId, StoredServer>>);

impl InventoryStore for Shelf {
    fn load(&self) -> Result<Vec<StoredServer>, StoreError> {
        Ok(self.0.lock().expect("one thread").values().cloned().collect())
    }

    fn save(&self, server: &StoredServer) -> Result<(), StoreError> {
        self.0
            .lock()
            .expect("one thread")
            .insert(server.id.clone(), server.clone());
        Ok(())
    }
}

fn facts() -> ServerFacts {
    ServerFacts {
        id: ServerId::parse("lab").expect("an id"),
        trust: Trust::Unknown,
        identity: portreeve_policy::ServerIdentity::new("https://lab.example/", Digest::of(b"lab")),
        tier: portreeve_policy::SandboxTier::default(),
        tools: BTreeMap::new(),
    }
}

const ANYBODY: Face = Face::LEAST;

fn discovery() -> Discovery {
    let definition = br#"{"name":"probe","inputSchema":{"type":"object"}}"#;
    Discovery {
        server: facts().id,
        instructions: None,
        shown: vec![Shown::to_all(vec![definition.as_slice().into()])],
        told: Vec::new(),
        cut: None,
        doubtful: Default::default(),
    }
}

fn someone() -> Arc<Principal> {
    Arc::new(Principal {
        sub: "ann".to_owned(),
        actor_type: ActorType::User,
        client_id: None,
        org_id: None,
        issuer: "https://idp.example".to_owned(),
        authn: Authn::Jwt,
        act: Vec::new(),
        run: None,
        groups: BTreeSet::from(["dev".to_owned()]),
        claims: BTreeMap::new(),
        servers: ServerScope::Every,
    })
}

fn snapshot(shelf: &Shelf, text: &str, epoch: u64) -> PolicySnapshot {
    let file = PolicyFile {
        name: "dev.cedar".to_owned(),
        text: text.to_owned(),
    };
    let rules = Rules::load(&[file]).expect("no faults");
    PolicySnapshot::build(
        Inventory::assemble(&[facts()], &shelf.load().expect("a shelf"), &|_, _| None),
        Arc::new(rules),
        epoch,
    )
}

fn code(snapshot: &PolicySnapshot, caller: &Caller) -> Result<(), ReasonCode> {
    snapshot
        .resolve(caller, &facts().id, "probe", ANYBODY)
        .map(drop)
        .map_err(|unknown| unknown.code)
}

// R099, R112, R120
#[test]
fn a_tool_is_quarantined_hidden_then_known_permitted_and_its_permit_spent() {
    let shelf = Shelf::default();
    let mut stored = merge(None, discovery(), &facts(), Timestamp::from_micros(0)).stored;
    let seen = stored.tools[0].seen;
    shelf.save(&stored).expect("a shelf");
    let who = someone();
    let dev =
        r#"@id("dev") permit(principal in Group::"dev", action == Action::"tools/call", resource in Server::"lab");"#;

    let first = snapshot(&shelf, dev, 1);
    assert_eq!(code(&first, &first.caller(&who)), Err(ReasonCode::DenyToolQuarantined));
    assert!(first.visible(&first.caller(&who), None, ANYBODY).is_empty());

    approve(&mut stored, "probe", seen).expect("offered");
    shelf.save(&stored).expect("a shelf");
    let second = snapshot(&shelf, "", 2);
    assert_eq!(code(&second, &second.caller(&who)), Err(ReasonCode::DenyNoMatchingRule));

    let third = snapshot(&shelf, dev, 3);
    let caller = third.caller(&who);
    assert_eq!(third.visible(&caller, None, ANYBODY).len(), 1);
    let known = third.resolve(&caller, &facts().id, "probe", ANYBODY).expect("known");
    let arguments = Value::Object(Vec::new());
    let args_hash: Digest = canonical::digest(&arguments).0;
    let call = CallFacts {
        arguments: &arguments,
        args_hash,
        found: None,
        address: IpAddr::V4(Ipv4Addr::LOCALHOST),
    };
    let Decision::Allow(permit, grounds) = third.decide(&caller, known, &call) else {
        panic!("not allowed")
    };
    assert_eq!(
        (&*grounds.policy_id, grounds.code),
        ("dev", ReasonCode::AllowPolicyMatch)
    );
    assert_eq!(
        permit.spend(args_hash, third.epoch()).expect("honoured").principal(),
        &who
    );
}

#[test]
fn limits_count_by_principal_and_give_room_back() {
    let rules = LimitRules {
        per_principal: 1,
        per_server: 9,
        ..LimitRules::default()
    };
    let limits = CallLimits::new(&rules, Clock::system());
    let shelf = Shelf::default();
    shelf
        .save(&merge(None, discovery(), &facts(), Timestamp::from_micros(0)).stored)
        .expect("a shelf");
    let inventory = Inventory::assemble(&[facts()], &shelf.load().expect("a shelf"), &|_, _| None);
    let tool = &inventory.tools().first().expect("one tool").id;
    let who = someone();
    let request = Request {
        who: &who,
        session: None,
        server: Some(&tool.server),
        tool: Some(tool),
        class: Class::Call,
    };
    let admit = || {
        let admitted = pin!(limits.admit(&request, &tool.server)).poll(&mut Context::from_waker(Waker::noop()));
        let Poll::Ready(admitted) = admitted else {
            panic!("nothing is waited for")
        };
        admitted
    };
    let running = admit().expect("room");
    assert_eq!(admit().expect_err("full").code, ReasonCode::DenyConcurrency);
    drop(running);
    assert!(admit().is_ok());
}
