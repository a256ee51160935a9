use std::collections::BTreeMap;

use super::*;
use crate::inventory::Inventory;
use crate::inventory::entry::QuarantineCause;
use crate::inventory::item::Listing;
use crate::inventory::word::{ItemId, OperatorOrder, Said, heed};
use crate::tests::{discovered, facts, now, server};
use crate::{approve_listed, merge};

const KINDS: [(ItemKind, &str); 3] = [
    (ItemKind::Prompt, "name"),
    (ItemKind::Resource, "uri"),
    (ItemKind::Template, "uriTemplate"),
];

fn named(member: &str, name: &str, rest: &str) -> String {
    format!(r#"{{"{member}":"{name}","description":"{rest}"}}"#)
}

fn seen(lists: &[(ItemKind, &[&str])]) -> ItemsSeen {
    let mut by_kind: BTreeMap<ItemKind, Vec<Vec<Arc<[u8]>>>> = BTreeMap::new();
    for (kind, list) in lists {
        let list = list.iter().map(|one| one.as_bytes().into()).collect();
        by_kind.entry(*kind).or_default().push(list);
    }
    ItemsSeen {
        server: server("files"),
        lists: by_kind,
        doubtful: BTreeSet::new(),
        secret: BTreeSet::new(),
    }
}

fn met(trust: Trust, lists: &[(ItemKind, &[&str])]) -> StoredServer {
    let facts = facts("files", trust);
    merge_items(discovered(&facts, &[]), seen(lists), &facts).stored
}

fn again(stored: &StoredServer, trust: Trust, lists: &[(ItemKind, &[&str])]) -> (StoredServer, Vec<String>) {
    let merged = merge_items(stored.clone(), seen(lists), &facts("files", trust));
    let told = merged.events.iter().map(|event| event.change.action().into_owned());
    (merged.stored, told.collect())
}

fn assembled(stored: &StoredServer, trust: Trust) -> Inventory {
    Inventory::assemble(&[facts("files", trust)], std::slice::from_ref(stored), &|_, _| None)
}

fn standings(stored: &StoredServer, trust: Trust) -> Vec<Standing> {
    let inventory = assembled(stored, trust);
    inventory.items().iter().map(|item| item.standing.clone()).collect()
}

fn waits(standing: &Standing) -> &'static str {
    match standing {
        Standing::Approved => "approved",
        Standing::Disabled => "disabled",
        Standing::Quarantined(QuarantineCause::Changed { .. }) => "changed",
        Standing::Quarantined(QuarantineCause::NewTool) => "new",
        Standing::Quarantined(QuarantineCause::FirstSight) => "first sight",
        Standing::Quarantined(_) => "other",
    }
}

fn words(stored: &StoredServer, trust: Trust) -> Vec<&'static str> {
    standings(stored, trust).iter().map(waits).collect()
}

#[test]
fn what_is_first_seen_new_or_changed_stands_as_a_tool_would() {
    for (kind, member) in KINDS {
        let (one, two) = (named(member, "a:x", "one"), named(member, "b:y", "two"));
        let other = named(member, "a:x", "orders");
        let quoted = kind.as_str();
        for (trust, first, new) in [
            (Trust::Internal, "approved", "approved"),
            (Trust::Verified, "approved", "approved"),
            (Trust::Community, "approved", "new"),
            (Trust::Unknown, "first sight", "first sight"),
        ] {
            let stored = met(trust, &[(kind, &[&one])]);
            assert_eq!(words(&stored, trust), [first], "{trust} {quoted}");
            let (stored, told) = again(&stored, trust, &[(kind, &[&two, &one])]);
            assert_eq!(words(&stored, trust), [first, new], "{trust} {quoted}");
            assert_eq!(told, [format!("{quoted}_added")]);
            // Another order and blanks say nothing.
            let spelled = one.replace(',', " ,\n ");
            let (stored, told) = again(&stored, trust, &[(kind, &[&spelled, &two])]);
            assert_eq!((words(&stored, trust), told), (vec![first, new], Vec::new()));
            let (changed, told) = again(&stored, trust, &[(kind, &[&other, &two])]);
            let held = if trust == Trust::Unknown { first } else { "changed" };
            assert_eq!(words(&changed, trust), [held, new], "{trust} {quoted}");
            assert_eq!(told, [format!("{quoted}_changed")]);
            let (back, _) = again(&changed, trust, &[(kind, &[&one, &two])]);
            assert_eq!(words(&back, trust), [first, new], "what was approved may come back");
        }
    }
}

#[test]
fn nothing_comes_back_changed_and_a_kind_that_could_not_be_read_is_left_as_it_was() {
    for (kind, member) in KINDS {
        let (one, other) = (named(member, "a:x", "one"), named(member, "a:x", "orders"));
        let stored = met(Trust::Internal, &[(kind, &[&one])]);
        let (unread, told) = again(&stored, Trust::Internal, &[]);
        assert_eq!((words(&unread, Trust::Internal), told), (vec!["approved"], Vec::new()));
        let (gone, told) = again(&stored, Trust::Internal, &[(kind, &[])]);
        assert_eq!(words(&gone, Trust::Internal), Vec::<&str>::new());
        assert_eq!(told, [format!("{}_vanished", kind.as_str())]);
        let asked = |name: &str| assembled(&gone, Trust::Internal).may_be_asked_unlisted(&server("files"), kind, name);
        assert_eq!(
            (asked("a:x"), asked("never:seen")),
            (false, true),
            "what is gone is gone"
        );
        let (changed, _) = again(&gone, Trust::Internal, &[(kind, &[&other])]);
        assert_eq!(words(&changed, Trust::Internal), ["changed"]);
    }
}

#[test]
fn what_one_of_several_lists_shows_otherwise_is_a_change_of_it() {
    for (kind, member) in KINDS {
        let (one, other) = (named(member, "a:x", "one"), named(member, "a:x", "orders"));
        let stored = met(Trust::Verified, &[(kind, &[&one])]);
        let (stored, _) = again(&stored, Trust::Verified, &[(kind, &[&one]), (kind, &[&other])]);
        let mut found = words(&stored, Trust::Verified);
        found.sort_unstable();
        assert_eq!(found, ["approved", "changed"]);
        let inventory = assembled(&stored, Trust::Verified);
        let standing = inventory.standing_of(&server("files"), kind, "a:x").unwrap();
        assert_eq!(waits(standing), "changed", "it stands as the worst of its definitions");
        let by_template = inventory.standing_by_template(&server("files"), "a:x").map(waits);
        assert_eq!(by_template, (kind == ItemKind::Template).then_some("changed"));
    }
}

#[test]
fn an_approval_is_of_one_definition_and_of_nothing_that_is_not_offered() {
    for (kind, member) in KINDS {
        let (one, other) = (named(member, "a:x", "one"), named(member, "a:x", "orders"));
        let mut stored = met(Trust::Unknown, &[(kind, &[&one])]);
        let digest = stored.digests(kind, "a:x")[0];
        let wrong = approve_listed(&mut stored, (kind, "a:x"), Digest::of(b"another"));
        assert_eq!(wrong, Err(crate::ApproveFault::NotOffered));
        let event = approve_listed(&mut stored, (kind, "a:x"), digest).expect("offered");
        assert_eq!(event.change.action(), format!("{}_approved", kind.as_str()));
        assert_eq!(words(&stored, Trust::Unknown), ["approved"]);
        let (changed, _) = again(&stored, Trust::Unknown, &[(kind, &[&other])]);
        assert_eq!(words(&changed, Trust::Unknown), ["changed"]);
        let inventory = assembled(&changed, Trust::Unknown);
        let before = inventory.items()[0].before.as_deref();
        assert_eq!(
            before,
            Some(one.as_bytes()),
            "what was approved is kept, so that the change can be told"
        );
        let old = approve_listed(&mut changed.clone(), (kind, "a:x"), digest);
        assert_eq!(
            old,
            Err(crate::ApproveFault::NotOffered),
            "nobody approves what is not offered any more"
        );
    }
}

#[test]
fn an_entry_of_a_list_is_shown_as_it_was_approved_and_not_otherwise() {
    for (kind, member) in KINDS {
        let (one, other) = (named(member, "a:x", "one"), named(member, "a:x", "orders"));
        let unheard = named(member, "c:z", "new");
        for (trust, known, new) in [
            (Trust::Internal, Listing::Approved, Listing::Welcome),
            (Trust::Community, Listing::Approved, Listing::Unknown),
            (Trust::Unknown, Listing::Withheld, Listing::Unknown),
        ] {
            let stored = met(trust, &[(kind, &[&one])]);
            let inventory = assembled(&stored, trust);
            let listing = |raw: &str| inventory.listing(&server("files"), kind, raw.as_bytes());
            let found = [&one, &other, &unheard].map(|raw| listing(raw));
            assert_eq!(found, [known, Listing::Unknown, new], "{trust} {}", kind.as_str());
            assert_eq!(listing("{}"), Listing::Withheld);
            let (gone, _) = again(&stored, trust, &[(kind, &[])]);
            let listing = assembled(&gone, trust).listing(&server("files"), kind, other.as_bytes());
            assert_eq!(listing, Listing::Unknown, "a pin outlives what it is of");
        }
    }
}

#[test]
fn definitions_that_cannot_be_believed_are_left_out_and_told() {
    let kind = ItemKind::Prompt;
    let large = named("name", "large", &"x".repeat(300 * 1024));
    let list = [
        r#"{"name":"same","description":"one"}"#,
        r#"{"name":"same","description":"two"}"#,
        r#"{"name":"twice"}"#,
        r#"{ "name":"twice" }"#,
        r#"{"name":""}"#,
        r#"{"name":"line\nend"}"#,
        r#"{"name":"a","name":"b"}"#,
        "[]",
        &large,
    ];
    let stored = met(Trust::Internal, &[(kind, &list)]);
    let names: Vec<&str> = stored.items.iter().map(|item| &*item.name).collect();
    assert_eq!(names, ["twice"]);
    let facts = facts("files", Trust::Internal);
    let merged = merge_items(discovered(&facts, &[]), seen(&[(kind, &list)]), &facts);
    let faults: Vec<(usize, DefinitionFault)> = merged
        .events
        .iter()
        .filter_map(|event| {
            let Change::ItemRejected { position, fault, .. } = &event.change else {
                return None;
            };
            Some((*position, *fault))
        })
        .collect();
    use DefinitionFault::{BadName, DuplicateName, NotAnObject, TooLarge, Unreadable};
    let expected = [
        (1, DuplicateName),
        (4, BadName),
        (5, BadName),
        (6, Unreadable),
        (7, NotAnObject),
        (8, TooLarge),
    ];
    assert_eq!(faults, expected);
}

#[test]
fn a_disabled_template_takes_out_what_it_fits_and_an_approved_one_lets_it_be_read() {
    let (wide, narrow) = (
        named("uriTemplate", "file:///{path}", "all"),
        named("uriTemplate", "file:///secret/{name}", "some"),
    );
    let mut stored = met(Trust::Community, &[(ItemKind::Template, &[&wide, &narrow])]);
    let id = server("files");
    let by_template = |stored: &StoredServer, uri: &str| {
        let inventory = assembled(stored, Trust::Community);
        inventory.standing_by_template(&id, uri).map(waits)
    };
    assert_eq!(by_template(&stored, "file:///secret/a"), Some("approved"));
    assert_eq!(by_template(&stored, "http://elsewhere"), None);
    let said = Said {
        by: "ann".to_owned(),
        at: now(),
    };
    heed(
        &mut stored,
        (ItemKind::Template, "file:///secret/{name}"),
        OperatorOrder::Disable,
        said,
    )
    .expect("offered");
    assert_eq!(by_template(&stored, "file:///secret/a"), Some("disabled"));
    assert_eq!(by_template(&stored, "file:///other"), Some("approved"));
}

#[test]
fn a_server_that_changes_everything_at_once_leaves_a_bounded_number_of_records() {
    let all = |word: &str| -> Vec<String> { (0..1_000).map(|n| named("uri", &format!("a:{n}"), word)).collect() };
    let kind = ItemKind::Resource;
    let (one, two) = (all("one"), all("two"));
    let of = |list: &[String]| {
        list.iter()
            .map(|one| Arc::from(one.as_bytes()))
            .collect::<Vec<Arc<[u8]>>>()
    };
    let facts = facts("files", Trust::Internal);
    let mut seen = seen(&[]);
    seen.lists.insert(kind, vec![of(&one)]);
    let stored = merge_items(discovered(&facts, &[]), seen.clone(), &facts).stored;
    seen.lists.insert(kind, vec![of(&two)]);
    let merged = merge_items(stored, seen, &facts);
    assert_eq!(merged.events.len(), 101);
    let last = merged.events.last().map(|event| event.change.clone());
    assert_eq!(last, Some(Change::Further { changes: 900 }));
    let waiting = standings(&merged.stored, Trust::Internal);
    let held = waiting.iter().filter(|standing| **standing != Standing::Approved);
    assert_eq!(held.count(), 1_000, "what has no record of its own waits all the same");
}

#[test]
fn a_store_of_an_earlier_release_meets_what_is_beside_the_tools_for_the_first_time() {
    let facts = facts("files", Trust::Community);
    let stored = merge(
        Some(discovered(&facts, &[])),
        crate::tests::discovery("files", &[]),
        &facts,
        now(),
    )
    .stored;
    let one = named("name", "a", "one");
    let merged = merge_items(stored, seen(&[(ItemKind::Prompt, &[&one])]), &facts);
    assert_eq!(words(&merged.stored, Trust::Community), ["approved"]);
    let id = ItemId {
        server: server("files"),
        kind: ItemKind::Prompt,
        name: "a".into(),
    };
    assert_eq!(assembled(&merged.stored, Trust::Community).item(&id).len(), 1);
}

#[test]
fn a_template_fits_what_it_can_make() {
    for (template, uri, fits) in [
        ("test://template/{id}/data", "test://template/123/data", true),
        ("test://template/{id}/data", "test://template/123/other", false),
        ("file:///{+path}", "file:///a/b", true),
        ("a{x}b{y}c", "a1b2c", true),
        ("a{x}b{y}c", "a1c2b", false),
        ("plain", "plain", true),
        ("plain", "plainer", false),
        ("broken{", "broken{", false),
    ] {
        assert_eq!(fits_template(template, uri), fits, "{template} {uri}");
    }
}
