use std::sync::Mutex;

use super::*;
use crate::Decision;
use crate::tests::{ANYBODY, agent, call, server, snapshot, tree};

const ASK: &str = r#"@id("ask") @require("approval") permit(principal, action, resource);"#;

fn wanted(sub: &str, client: Option<&str>, arguments: &str) -> Box<Wanted> {
    wanted_by(ASK, sub, client, arguments)
}

fn wanted_by(policies: &str, sub: &str, client: Option<&str>, arguments: &str) -> Box<Wanted> {
    let snapshot = snapshot(policies);
    let mut who = agent(sub);
    who.client_id = client.map(str::to_owned);
    let caller = snapshot.caller(&Arc::new(who));
    let tool = snapshot
        .resolve(&caller, &server("files"), "read", ANYBODY)
        .expect("known");
    let arguments = tree(arguments);
    match snapshot.decide(&caller, tool, &call(&arguments)) {
        Decision::RequireApproval(wanted, _) => wanted,
        other @ (Decision::Allow(..) | Decision::Deny(_)) => panic!("{other:?}"),
    }
}

fn plan(sub: &str, client: Option<&str>, arguments: &str) -> Plan {
    wanted(sub, client, arguments).plan().expect("a plan")
}

/// One row, moved as the contract says.
struct Row(Mutex<Approval>);

impl ApprovalStore for Row {
    fn open_approvals(&self) -> Result<Vec<Approval>, StoreError> {
        Ok(vec![vocabulary::lock(&self.0).clone()])
    }

    fn approval_of(&self, _: &Digest) -> Result<Option<Approval>, StoreError> {
        Ok(Some(vocabulary::lock(&self.0).clone()))
    }

    fn move_approval(&self, from: ApprovalState, to: &Approval) -> Result<bool, StoreError> {
        let mut row = vocabulary::lock(&self.0);
        let moves = row.state == from;
        if moves {
            *row = to.clone();
        }
        Ok(moves)
    }
}

fn at(micros: i64) -> Timestamp {
    Timestamp::from_micros(micros)
}

fn verdict(by: &str, at: Timestamp) -> ApprovalVerdict {
    ApprovalVerdict {
        by: by.to_owned(),
        at,
        reason: None,
        step_up: StepUp::None,
    }
}

fn asked(plan: Plan) -> Approval {
    Approval::ask("apr_1".to_owned(), plan, at(0), Duration::from_secs(900))
}

fn approved(plan: Plan) -> Row {
    let approved = asked(plan).decided(Answered::Yes, verdict("zoe", at(1)), FourEyes::Needed);
    Row(Mutex::new(approved.expect("approved")))
}

fn is_granted(wanted: Box<Wanted>, row: &Row, now: Timestamp) -> bool {
    matches!(wanted.spend(row, now).expect("a store"), Spending::Granted(..))
}

#[test]
fn an_approval_is_spent_once_and_by_exactly_what_was_approved() {
    let arguments = r#"{"path":"/a"}"#;
    let row = approved(plan("ann", Some("ide"), arguments));
    let others = [
        wanted("ann", Some("ide"), r#"{"path":"/b"}"#),
        wanted("ann", Some("cli"), arguments),
        wanted("ann", None, arguments),
        wanted("bob", Some("ide"), arguments),
        wanted("ann", Some("ide"), arguments).beside(Digest::of(b"something")),
        wanted_by(
            &format!("{ASK} permit(principal, action, resource);"),
            "ann",
            Some("ide"),
            arguments,
        ),
    ];
    for other in others {
        // A store that hands out the wrong row opens nothing.
        assert!(!is_granted(other, &row, at(2)));
    }
    assert!(is_granted(wanted("ann", Some("ide"), arguments), &row, at(2)));
    assert!(!is_granted(wanted("ann", Some("ide"), arguments), &row, at(2)), "once");
    assert_eq!(vocabulary::lock(&row.0).state, ApprovalState::Used);
}

#[test]
fn a_call_under_way_goes_on_as_what_was_approved_and_as_nothing_else() {
    let arguments = r#"{"path":"/a"}"#;
    let row = approved(plan("ann", None, arguments));
    let Ok(Spending::Granted(_, call)) = wanted("ann", None, arguments).spend(&row, at(2)) else {
        panic!("not granted");
    };
    assert!(wanted("ann", None, arguments).going_on(&call).is_some());
    assert!(wanted("ann", None, r#"{"path":"/b"}"#).going_on(&call).is_none());
    let changed = wanted_by(
        &format!("{ASK} permit(principal, action, resource);"),
        "ann",
        None,
        arguments,
    );
    assert!(changed.going_on(&call).is_none(), "other policies");
}

#[test]
fn what_ended_is_not_spent() {
    let arguments = r#"{"path":"/a"}"#;
    let end = at(900_000_000);
    let row = approved(plan("ann", None, arguments));
    assert!(!is_granted(wanted("ann", None, arguments), &row, end), "expired");
    for state in [
        ApprovalState::Pending,
        ApprovalState::Denied,
        ApprovalState::Expired,
        ApprovalState::Used,
        ApprovalState::Void,
    ] {
        let moved = asked(plan("ann", None, arguments)).moved(state);
        let row = Row(Mutex::new(moved));
        assert!(!is_granted(wanted("ann", None, arguments), &row, at(2)), "{state}");
    }
    assert!(is_granted(wanted("ann", None, arguments), &row, at(899_999_999)));
}

#[test]
fn only_somebody_else_decides_and_only_once_and_in_time() {
    let asked = asked(plan("Ann", None, "{}"));
    for own in ["Ann", "ann", " ANN "] {
        let own = asked.decided(Answered::Yes, verdict(own, at(1)), FourEyes::Needed);
        assert_eq!(own, Err(ApprovalFault::OwnRequest));
    }
    assert!(
        asked
            .decided(Answered::Yes, verdict("ann", at(1)), FourEyes::NotNeeded)
            .is_ok()
    );
    let denied = asked
        .decided(Answered::No, verdict("zoe", at(1)), FourEyes::Needed)
        .expect("denied");
    assert_eq!(denied.state, ApprovalState::Denied);
    assert_eq!(
        denied.decided(Answered::Yes, verdict("zoe", at(2)), FourEyes::Needed),
        Err(ApprovalFault::NotPending(ApprovalState::Denied))
    );
    assert_eq!(
        asked.decided(Answered::Yes, verdict("zoe", at(900_000_000)), FourEyes::Needed),
        Err(ApprovalFault::NotPending(ApprovalState::Expired))
    );
}

// R222
#[test]
fn a_plan_hash_is_the_digest_of_what_the_contract_names() {
    let plan = plan("ann", None, r#"{"path":"/a"}"#);
    let expires = at(1_000_000);
    let text = format!(
        concat!(
            r#"{{"args_hash":"{}","client_id":null,"definition_hash":"{}","expires":"1970-01-01T00:00:01.000000Z","#,
            r#""issuer":"{}","org_id":{},"policy_id":"ask","risk":"low","server":"files","sub":"ann","tool":"read"}}"#
        ),
        plan.args_hash,
        plan.definition_hash,
        plan.issuer,
        plan.org_id
            .as_ref()
            .map_or("null".to_owned(), |org| format!("\"{org}\"")),
    );
    assert_eq!(plan.hash(expires), Digest::of(text.as_bytes()));
}

#[test]
fn nobody_is_asked_about_anything_but_a_call() {
    let snapshot = snapshot(ASK);
    let caller = snapshot.caller(&Arc::new(agent("ann")));
    let target = Target::Resource {
        server: server("files"),
        uri: "file:///a".into(),
    };
    let known = snapshot
        .resolve_target(&caller, "resources/read", &target)
        .expect("known");
    let arguments = tree("{}");
    match snapshot.decide_target(&caller, known, &call(&arguments)) {
        Decision::RequireApproval(wanted, _) => assert_eq!(wanted.plan(), None),
        other @ (Decision::Allow(..) | Decision::Deny(_)) => panic!("{other:?}"),
    }
}
