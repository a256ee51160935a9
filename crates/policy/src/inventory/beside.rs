//! What a server offers beside its tools: prompts, resources and templates of resources. Each is pinned as a tool is: what was
//! seen of it, what was approved, and what a new discovery changes.
//! ADR 0110: everything a server says of itself is pinned.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use vocabulary::{Digest, ServerId, Trust, canonical};

use super::ServerFacts;
use super::entry::{DefinitionFault, Standing, parse_object};
use super::identity::meet;
use super::item;
use super::pin::{Arrival, Change, InventoryEvent, Merged, Presence, StoredServer, capped};
use super::word::{ItemKind, Word};

/// The kinds of what a server lists beside its tools.
pub const LISTED_KINDS: [ItemKind; 3] = [ItemKind::Prompt, ItemKind::Resource, ItemKind::Template];

/// The most of one kind that one server may have in the inventory, and the most pins of vanished ones that are kept.
const MOST: usize = 10_000;
/// The longest name, URI or template.
const LONGEST_NAME: usize = 4096;

/// One definition of a prompt, a resource or a template, with its pin. What has several definitions, for clients of several eras
/// or in several processes, is stored once for each.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredItem {
    /// What it is.
    pub kind: ItemKind,
    /// Its name, URI or template.
    pub name: Arc<str>,
    /// The raw definition.
    pub definition: Arc<[u8]>,
    /// The digest of that definition's canonical form.
    pub seen: Digest,
    /// The digest that was approved.
    pub approved: Option<Digest>,
    /// The raw definition that was approved, where this is another one.
    pub approved_definition: Option<Arc<[u8]>>,
    /// Whether the latest discovery had it.
    pub presence: Presence,
}

impl StoredItem {
    /// The approved definition, if it was kept.
    #[must_use]
    pub fn approved_definition(&self) -> Option<&Arc<[u8]>> {
        match self.approved {
            Some(approved) if approved == self.seen => Some(&self.definition),
            Some(_) => self.approved_definition.as_ref(),
            None => None,
        }
    }

    fn standing(&self, trust: Trust) -> Standing {
        item::standing(self.seen, self.approved, trust, &Word::default())
    }
}

/// A list's entries, byte for byte.
pub type RawList = Vec<Arc<[u8]>>;

/// What a server lists beside its tools, raw, all pages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ItemsSeen {
    /// The server.
    pub server: ServerId,
    /// Of each kind the lists that it showed, one for each era and for each process of a client that said that something changed
    /// in it. A kind that could not be read is not there, and nothing is known of it.
    pub lists: BTreeMap<ItemKind, Vec<RawList>>,
    /// Digests, of the bytes as they came, of definitions that a person is to look at first.
    pub doubtful: BTreeSet<Digest>,
    /// The same of definitions that are not kept, because they hold a secret.
    pub secret: BTreeSet<Digest>,
}

/// Lays what a server lists beside its tools over what was stored of it.
#[must_use]
pub fn merge_items(mut stored: StoredServer, seen: ItemsSeen, facts: &ServerFacts) -> Merged {
    let other = meet(&mut stored, facts);
    let mut changes = Vec::new();
    for (kind, lists) in seen.lists {
        let arrival = Arrival {
            trust: facts.trust,
            first: !stored.listed.contains(&kind),
            forgot_pins: stored.forgot_pins,
            doubtful: &seen.doubtful,
        };
        let (before, others) = stored.items.into_iter().partition(|item| item.kind == kind);
        let (of_kind, forgot) = merge_kind(kind, before, (lists, &seen.secret), arrival, &mut changes);
        stored.items = others;
        stored.items.extend(of_kind);
        stored.forgot_pins |= forgot;
        stored.listed.insert(kind);
    }
    stored
        .items
        .sort_by(|one, other| (one.kind, &one.name, one.seen).cmp(&(other.kind, &other.name, other.seen)));
    stored.bind_approved(&facts.identity);
    let server = stored.id.clone();
    let changes = capped(changes).into_iter().map(|change| InventoryEvent {
        server: server.clone(),
        change,
    });
    let events = other.into_iter().chain(changes).collect();
    Merged { stored, events }
}

/// What was seen under one name: its definitions by their digests.
type Definitions = BTreeMap<Digest, Arc<[u8]>>;

fn merge_kind(
    kind: ItemKind,
    before: Vec<StoredItem>,
    (lists, secret): (Vec<RawList>, &BTreeSet<Digest>),
    arrival: Arrival<'_>,
    changes: &mut Vec<Change>,
) -> (Vec<StoredItem>, bool) {
    let mut names: BTreeMap<Arc<str>, (Vec<StoredItem>, Definitions)> = BTreeMap::new();
    for known in before {
        names.entry(known.name.clone()).or_default().0.push(known);
    }
    let mut doubled = BTreeSet::new();
    for list in lists {
        for (name, (seen, definition)) in sort_out(kind, (list, secret), &mut doubled, changes) {
            names.entry(name).or_default().1.insert(seen, definition);
        }
    }
    let (mut kept, mut vanished) = (Vec::new(), Vec::new());
    for (name, (known, mut now)) in names {
        if doubled.contains(&name) {
            now.clear();
        }
        match now.is_empty() {
            true => vanished.extend(leave(kind, &name, known, changes)),
            false => kept.extend(take((kind, &name), &known, now, arrival, changes)),
        }
    }
    let forgot = vanished.len() > MOST;
    vanished.truncate(MOST);
    kept.extend(vanished);
    (kept, forgot)
}

/// What can be used of one list, by name; of two definitions of one name neither can be believed.
fn sort_out(
    kind: ItemKind,
    (list, secret): (RawList, &BTreeSet<Digest>),
    doubled: &mut BTreeSet<Arc<str>>,
    changes: &mut Vec<Change>,
) -> BTreeMap<Arc<str>, (Digest, Arc<[u8]>)> {
    let mut usable: BTreeMap<Arc<str>, (Digest, Arc<[u8]>)> = BTreeMap::new();
    for (position, definition) in list.into_iter().enumerate() {
        let fault = match read_item(kind, &definition) {
            Err(fault) => fault,
            Ok(_) if !secret.is_empty() && secret.contains(&Digest::of(&definition)) => DefinitionFault::HoldsSecret,
            Ok((name, seen)) => match usable.get(&name) {
                Some((other, _)) if *other == seen => continue,
                Some(_) => {
                    doubled.insert(name);
                    DefinitionFault::DuplicateName
                }
                None if usable.len() >= MOST => DefinitionFault::TooMany,
                None => {
                    usable.insert(name, (seen, definition));
                    continue;
                }
            },
        };
        let change = Change::ItemRejected { kind, position, fault };
        if !changes.contains(&change) {
            changes.push(change);
        }
    }
    usable
}

/// The definitions of one name. One that was approved before stands; of what has an approved definition any other is a change,
/// whoever shows it: nobody gets round a pin by showing something else to some.
fn take(
    (kind, name): (ItemKind, &Arc<str>),
    known: &[StoredItem],
    now: Definitions,
    arrival: Arrival<'_>,
    changes: &mut Vec<Change>,
) -> Vec<StoredItem> {
    let pinned: Vec<(Digest, Option<Arc<[u8]>>)> = known
        .iter()
        .filter_map(|known| Some((known.approved?, known.approved_definition().cloned())))
        .collect();
    let was_offered = known.iter().any(|known| known.presence == Presence::Offered);
    let mut taken = Vec::with_capacity(now.len());
    for (seen, definition) in now {
        let same = pinned.iter().find(|(approved, _)| *approved == seen);
        let welcome = || pinned.is_empty() && arrival.welcomes(&definition);
        let (approved, approved_definition) = match (same, pinned.first()) {
            (Some(_), _) => (Some(seen), None),
            (None, Some((approved, definition))) => (Some(*approved), definition.clone()),
            (None, None) => (welcome().then_some(seen), None),
        };
        let item = StoredItem {
            kind,
            name: name.clone(),
            definition,
            seen,
            approved,
            approved_definition,
            presence: Presence::Offered,
        };
        let before = known
            .iter()
            .find(|known| known.seen == seen && known.presence == Presence::Offered);
        changes.extend(told(&item, before, was_offered, arrival.trust));
        taken.push(item);
    }
    taken
}

/// What the log is told of a definition; nothing of one that was there before and stands as it did.
fn told(item: &StoredItem, before: Option<&StoredItem>, was_offered: bool, trust: Trust) -> Option<Change> {
    let (kind, name, seen) = (item.kind, item.name.clone(), item.seen);
    let standing = item.standing(trust);
    match before {
        Some(before) if before.approved == item.approved => None,
        Some(_) => Some(Change::ItemApproved {
            kind,
            name,
            approved: seen,
        }),
        None if was_offered => Some(Change::ItemChanged {
            kind,
            name,
            seen,
            standing,
        }),
        None => Some(Change::ItemAdded {
            kind,
            name,
            seen,
            standing,
        }),
    }
}

/// What is not offered any more. A pin that nobody approved protects nothing; the rest are kept, so that nothing comes back changed.
fn leave(kind: ItemKind, name: &Arc<str>, known: Vec<StoredItem>, changes: &mut Vec<Change>) -> Vec<StoredItem> {
    if known.iter().any(|known| known.presence == Presence::Offered) {
        let name = name.clone();
        changes.push(Change::ItemVanished { kind, name });
    }
    let gone = known.into_iter().filter(|known| known.approved.is_some());
    gone.map(|known| StoredItem {
        presence: Presence::Vanished,
        ..known
    })
    .collect()
}

/// The name and the digest of a definition that can be told apart from others.
pub(crate) fn read_item(kind: ItemKind, definition: &[u8]) -> Result<(Arc<str>, Digest), DefinitionFault> {
    let member = match kind {
        ItemKind::Resource => "uri",
        ItemKind::Template => "uriTemplate",
        ItemKind::Prompt | ItemKind::Tool | ItemKind::Instructions => "name",
    };
    let tree = parse_object(definition)?;
    let name = tree.member(member).and_then(|name| name.as_str());
    let usable = |name: &&str| {
        let ends_line = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
        !name.is_empty() && name.len() <= LONGEST_NAME && !name.contains(ends_line)
    };
    let name = name.filter(usable).ok_or(DefinitionFault::BadName)?;
    let name = Arc::from(name);
    Ok((name, canonical::digest(&tree).0))
}

/// Whether a URI could come from a template: its fixed parts stand in it in order.
#[must_use]
pub fn fits_template(template: &str, uri: &str) -> bool {
    let mut parts = Vec::new();
    let mut rest = template;
    while let Some((fixed, variable)) = rest.split_once('{') {
        let Some((_, behind)) = variable.split_once('}') else {
            return false;
        };
        parts.push(fixed);
        rest = behind;
    }
    if parts.is_empty() {
        return template == uri;
    }
    let Some(mut left) = parts.first().and_then(|first| uri.strip_prefix(first)) else {
        return false;
    };
    for part in parts.iter().skip(1) {
        match left.split_once(part) {
            Some((_, behind)) => left = behind,
            None => return false,
        }
    }
    left.ends_with(rest)
}

#[cfg(test)]
mod tests;
