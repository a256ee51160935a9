use super::*;
use crate::inventory::pin::{Discovery, approve, merge};
use crate::tests::{definition, discovered, discovery, facts, identity, now};
use crate::{Inventory, Standing};

/// A server of this trust, first as it was approved, then as another.
fn both(trust: Trust) -> (ServerFacts, ServerFacts) {
    let first = facts("files", trust);
    let second = ServerFacts {
        identity: identity("two"),
        ..first.clone()
    };
    (first, second)
}

fn assembled(facts: &ServerFacts, stored: &StoredServer) -> Inventory {
    Inventory::assemble(std::slice::from_ref(facts), std::slice::from_ref(stored), &|_, _| None)
}

/// How its tools stand, in order.
fn standings(facts: &ServerFacts, stored: &StoredServer) -> Vec<Standing> {
    let inventory = assembled(facts, stored);
    inventory.tools().iter().map(|tool| tool.standing.clone()).collect()
}

fn replaced() -> Standing {
    Standing::Quarantined(QuarantineCause::IdentityChanged(Box::new(Replaced {
        approved: identity("one"),
        now: identity("two"),
    })))
}

/// Approves a tool as it was seen last, of the server as `facts` have it.
fn approve_of(stored: &mut StoredServer, tool: &str, facts: &ServerFacts) {
    let seen = *stored.digests(ItemKind::Tool, tool).first().unwrap();
    approve(stored, tool, seen).unwrap();
    stored.bind((ItemKind::Tool, tool, seen), &facts.identity);
}

fn tools() -> [String; 2] {
    [definition("read", "{}"), definition("write", "{}")]
}

fn with_instructions(facts: &ServerFacts) -> StoredServer {
    let tools = tools();
    let seen = Discovery {
        instructions: Some("be kind".to_owned()),
        ..discovery("files", &[&tools[0], &tools[1]])
    };
    merge(None, seen, facts, now()).stored
}

#[test]
fn what_was_approved_of_one_server_waits_when_another_has_its_name() {
    let (first, second) = both(Trust::Community);
    let stored = with_instructions(&first);
    assert_eq!(standings(&first, &stored), [Standing::Approved, Standing::Approved]);
    assert_eq!(standings(&second, &stored), [replaced(), replaced()]);
    let other = assembled(&second, &stored);
    let entry = other.servers().next().unwrap();
    assert_eq!(
        (entry.instructions.as_deref(), &entry.approved_as),
        (None, &Some(identity("one")))
    );
    assert_eq!(other.items()[0].standing, replaced());
    // The first one comes back, and nobody has to look again.
    let again = assembled(&first, &stored);
    let entry = again.servers().next().unwrap();
    assert_eq!(entry.instructions.as_deref(), Some("be kind"));
    assert_eq!(entry.approved_as, None);
}

#[test]
fn an_approval_is_of_the_one_that_offers_it_and_of_no_other_definition() {
    let (first, second) = both(Trust::Community);
    let mut stored = with_instructions(&first);
    meet(&mut stored, &second).unwrap();
    approve_of(&mut stored, "read", &second);
    assert_eq!(standings(&second, &stored), [Standing::Approved, replaced()]);
    approve_of(&mut stored, "write", &second);
    assert_eq!(standings(&second, &stored), [Standing::Approved, Standing::Approved]);
    let entry = assembled(&second, &stored);
    assert!(
        entry.servers().next().unwrap().approved_as.is_some(),
        "the instructions still wait"
    );
    // Discovered anew, it keeps what was said of it, and the first is the stranger now.
    let tools = tools();
    let again = merge(
        Some(stored),
        discovery("files", &[&tools[0], &tools[1]]),
        &second,
        now(),
    );
    assert_eq!(
        standings(&second, &again.stored),
        [Standing::Approved, Standing::Approved]
    );
    assert!(
        standings(&first, &again.stored)
            .iter()
            .all(|standing| *standing != Standing::Approved)
    );
    let entry = assembled(&second, &again.stored);
    assert_eq!(
        entry.servers().next().unwrap().approved_as,
        None,
        "it offers no instructions any more"
    );
}

#[test]
fn a_tool_that_vanished_does_not_come_back_approved_from_another_server() {
    let (first, second) = both(Trust::Community);
    let tools = tools();
    let stored = discovered(&first, &[&tools[0], &tools[1]]);
    let mut stored = merge(Some(stored), discovery("files", &[&tools[0]]), &second, now()).stored;
    approve_of(&mut stored, "read", &second);
    let back = merge(
        Some(stored),
        discovery("files", &[&tools[0], &tools[1]]),
        &second,
        now(),
    )
    .stored;
    assert_eq!(standings(&second, &back), [Standing::Approved, replaced()]);
}

#[test]
fn whom_the_operator_vouches_for_keeps_what_was_approved_and_the_log_says_so() {
    for trust in [Trust::Internal, Trust::Verified] {
        let (first, second) = both(trust);
        let mut stored = with_instructions(&first);
        assert_eq!(standings(&second, &stored), [Standing::Approved, Standing::Approved]);
        let event = meet(&mut stored, &second).unwrap();
        assert_eq!(event.change.action(), "server_identity_changed");
        let told = event.change.to_string();
        assert!(told.contains("it was one [sha256:"), "{told}");
        assert!(told.contains("it is two [sha256:"), "{told}");
        assert!(told.ends_with("what was approved counts for it"), "{told}");
        assert_eq!(meet(&mut stored, &second), None, "it is told once");
        // Trusted less from now on, it is still the one that was vouched for.
        let community = ServerFacts {
            trust: Trust::Community,
            ..second
        };
        assert_eq!(standings(&community, &stored), [Standing::Approved, Standing::Approved]);
    }
}

#[test]
fn a_change_is_told_once_with_both_and_with_how_many_approvals_do_not_count() {
    for trust in [Trust::Community, Trust::Unknown] {
        let (first, second) = both(trust);
        let mut stored = with_instructions(&first);
        approve_of(&mut stored, "read", &first);
        approve_of(&mut stored, "write", &first);
        stored.instructions.approved = None;
        let tools = tools();
        let merged = merge(
            Some(stored),
            discovery("files", &[&tools[0], &tools[1]]),
            &second,
            now(),
        );
        let [event] = &merged.events[..1] else {
            panic!("no event")
        };
        let expected = Change::IdentityChanged {
            before: identity("one"),
            now: identity("two"),
            waiting: 2,
        };
        assert_eq!(event.change, expected);
        let again = merge(
            Some(merged.stored),
            discovery("files", &[&tools[0], &tools[1]]),
            &second,
            now(),
        );
        assert_eq!(again.events, []);
        assert_eq!(standings(&second, &again.stored), [replaced(), replaced()]);
    }
}

#[test]
fn a_store_that_kept_no_identities_takes_the_server_as_it_is() {
    let (first, second) = both(Trust::Community);
    let mut stored = with_instructions(&first);
    stored.identity = None;
    stored.bound.clear();
    assert_eq!(standings(&second, &stored), [Standing::Approved, Standing::Approved]);
    assert_eq!(meet(&mut stored, &second), None);
    assert_eq!(
        standings(&first, &stored).first(),
        Some(&Standing::Quarantined(QuarantineCause::IdentityChanged(Box::new(
            Replaced {
                approved: identity("two"),
                now: identity("one")
            }
        ))))
    );
}

#[test]
fn what_is_not_pinned_any_more_is_forgotten() {
    let (first, _) = both(Trust::Community);
    let mut stored = with_instructions(&first);
    assert_eq!(stored.bound.len(), 3);
    stored.tools.pop();
    let tools = tools();
    let merged = merge(Some(stored), discovery("files", &[&tools[0]]), &first, now());
    assert_eq!(merged.stored.bound.len(), 2);
}
