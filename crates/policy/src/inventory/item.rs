//! What a server offers beside its tools, as the gateway knows it: the raw definition, its pin, and whether it may be used.

use std::collections::BTreeMap;
use std::sync::Arc;

use vocabulary::{Digest, ServerId, Trust};

use super::beside::{StoredItem, fits_template, read_item};
use super::entry::{QuarantineCause, Standing};
use super::pin::{Presence, StoredServer};
use super::word::{ItemId, ItemKind, Word};
use super::{Inventory, ServerFacts};

/// Something in the inventory that is no tool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ItemEntry {
    /// Server, kind and name.
    pub id: ItemId,
    /// How far the operator trusts the server.
    pub trust: Trust,
    /// The definition as the server sent it; of instructions the text.
    pub definition: Arc<[u8]>,
    /// Its digest: of a definition's canonical form, of a text's bytes.
    pub definition_hash: Digest,
    /// Whether it may be seen and used.
    pub standing: Standing,
    /// The digest that was approved.
    pub approved: Option<Digest>,
    /// What was approved before this was seen, where it was kept and is another.
    pub before: Option<Arc<[u8]>>,
    /// What operators said of it while the gateway ran.
    pub word: Word,
}

/// How an entry of a list that a server showed to somebody stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Listing {
    /// This very definition is approved.
    Approved,
    /// It is in the inventory, and waits for an operator or is disabled.
    Withheld,
    /// Nobody has seen it, and the operator vouches for whatever the server offers.
    Welcome,
    /// Nobody has seen it, or seen it so.
    Unknown,
}

impl Inventory {
    /// How an entry stands that a server lists for somebody now.
    #[must_use]
    pub fn listing(&self, server: &ServerId, kind: ItemKind, definition: &[u8]) -> Listing {
        let Ok((name, seen)) = read_item(kind, definition) else {
            return Listing::Withheld;
        };
        let id = ItemId {
            server: server.clone(),
            kind,
            name,
        };
        let known = self.item(&id);
        match known.iter().find(|entry| entry.definition_hash == seen) {
            Some(entry) if entry.standing == Standing::Approved => Listing::Approved,
            Some(_) => Listing::Withheld,
            None if known.is_empty() && self.welcome.contains(server) && !self.vanished.contains(&id) => {
                Listing::Welcome
            }
            None => Listing::Unknown,
        }
    }

    /// What is approved of one kind on a server, in one digest; `None` where nothing is.
    #[must_use]
    pub fn approved_mark(&self, server: &ServerId, kind: ItemKind) -> Option<Digest> {
        self.marks.get(&(server.clone(), kind)).copied()
    }

    /// How something stands by its name, where the server offers it: as the worst of its definitions.
    pub(crate) fn standing_of(&self, server: &ServerId, kind: ItemKind, name: &str) -> Option<&Standing> {
        let id = ItemId {
            server: server.clone(),
            kind,
            name: name.into(),
        };
        let standings = || self.item(&id).iter().map(|entry| &entry.standing);
        let disabled = standings().find(|standing| **standing == Standing::Disabled);
        let held = || standings().find(|standing| **standing != Standing::Approved);
        disabled.or_else(held).or_else(|| standings().next())
    }

    /// How a URI stands that a template of the server fits: one that is disabled takes out all that it fits, and of the others
    /// one that is approved is enough.
    pub(crate) fn standing_by_template(&self, server: &ServerId, uri: &str) -> Option<&Standing> {
        let first = self
            .items
            .partition_point(|item| (&item.id.server, item.id.kind) < (server, ItemKind::Template));
        let of_server = self.items.get(first..).unwrap_or_default().iter();
        let of_server = of_server.take_while(|item| item.id.server == *server && item.id.kind == ItemKind::Template);
        let mut names: Vec<&str> = of_server.map(|item| &*item.id.name).collect();
        names.dedup();
        let fitting = names.into_iter().filter(|name| fits_template(name, uri));
        let fitting: Vec<&Standing> = fitting
            .filter_map(|name| self.standing_of(server, ItemKind::Template, name))
            .collect();
        let find = |wanted: &Standing| fitting.iter().copied().find(|standing| *standing == wanted);
        find(&Standing::Disabled)
            .or_else(|| find(&Standing::Approved))
            .or_else(|| fitting.first().copied())
    }

    /// Whether something can be asked for that the server does not list under this name: not if it did and it was pinned.
    pub(crate) fn may_be_asked_unlisted(&self, server: &ServerId, kind: ItemKind, name: &str) -> bool {
        let id = ItemId {
            server: server.clone(),
            kind,
            name: name.into(),
        };
        self.may_be_unlisted(server, kind) && !self.vanished.contains(&id)
    }

    /// Whether what a server does not list can be asked for. A prompt is listed or is none, unless the operator vouches for whatever
    /// the server offers; resources need not be listed, except with a server that nobody has said anything about.
    fn may_be_unlisted(&self, server: &ServerId, kind: ItemKind) -> bool {
        let trust = self.server(server).map(|server| server.trust);
        match (kind, trust) {
            (_, None | Some(Trust::Unknown)) => false,
            (ItemKind::Resource | ItemKind::Template, Some(_)) => true,
            (ItemKind::Prompt | ItemKind::Tool | ItemKind::Instructions, Some(_)) => self.welcome.contains(server),
        }
    }

    /// Whether something of one of these kinds can be asked for, as far as pins go.
    pub(crate) fn has_usable(&self, server: &ServerId, kinds: &[ItemKind]) -> bool {
        let of_server = self.items.partition_point(|item| item.id.server < *server);
        let of_server = self.items.get(of_server..).unwrap_or_default().iter();
        let mut of_server = of_server.take_while(|item| item.id.server == *server);
        kinds.iter().any(|kind| self.may_be_unlisted(server, *kind))
            || of_server.any(|item| kinds.contains(&item.id.kind) && item.standing == Standing::Approved)
    }
}

/// What is approved of each kind on each server; the items are in order.
pub(super) fn marks(items: &[Arc<ItemEntry>]) -> BTreeMap<(ServerId, ItemKind), Digest> {
    let approved = items.iter().filter(|item| item.standing == Standing::Approved);
    let mut pieces: BTreeMap<(ServerId, ItemKind), Vec<&[u8]>> = BTreeMap::new();
    for item in approved {
        let of_kind = pieces.entry((item.id.server.clone(), item.id.kind)).or_default();
        of_kind.push(item.definition_hash.as_bytes());
    }
    pieces
        .into_iter()
        .map(|(of, pieces)| (of, Digest::of_pieces(pieces)))
        .collect()
}

/// What the pin and the operator's word come to.
pub(super) fn standing(seen: Digest, approved: Option<Digest>, trust: Trust, word: &Word) -> Standing {
    match (approved, trust) {
        _ if word.disabled.is_some() => Standing::Disabled,
        (Some(approved), _) if approved == seen => Standing::Approved,
        (Some(approved), _) => Standing::Quarantined(QuarantineCause::Changed { approved }),
        (None, Trust::Unknown) => Standing::Quarantined(QuarantineCause::FirstSight),
        (None, Trust::Internal | Trust::Verified | Trust::Community) => Standing::Quarantined(QuarantineCause::NewTool),
    }
}

/// The prompts, resources and templates that a server offers.
pub(super) fn offered<'a>(facts: &'a ServerFacts, stored: &'a StoredServer) -> impl Iterator<Item = ItemEntry> + 'a {
    let offered = stored.items.iter().filter(|item| item.presence == Presence::Offered);
    offered.filter_map(move |item| entry(facts, stored, item))
}

/// What the server does not offer now, and has a pin.
pub(super) fn vanished(stored: &StoredServer) -> impl Iterator<Item = ItemId> + '_ {
    let gone = stored.items.iter().filter(|item| item.presence == Presence::Vanished);
    gone.map(|item| ItemId {
        server: stored.id.clone(),
        kind: item.kind,
        name: item.name.clone(),
    })
}

fn entry(facts: &ServerFacts, stored: &StoredServer, item: &StoredItem) -> Option<ItemEntry> {
    // The pin is compared with a digest computed anew, so that an edited store approves nothing.
    let (name, seen) = read_item(item.kind, &item.definition).ok()?;
    let item = StoredItem { seen, ..item.clone() };
    let word = stored.word(item.kind, &name).cloned().unwrap_or_default();
    let own = standing(seen, item.approved, facts.trust, &word);
    Some(ItemEntry {
        trust: facts.trust,
        definition: item.definition.clone(),
        definition_hash: seen,
        standing: stored.as_this_server(facts, (item.kind, &name, seen), own),
        approved: item.approved,
        before: item
            .approved_definition()
            .filter(|_| item.approved != Some(seen))
            .filter(|kept| {
                let digest = read_item(item.kind, kept).ok().map(|(_, digest)| digest);
                digest == item.approved
            })
            .cloned(),
        word,
        id: ItemId {
            server: facts.id.clone(),
            kind: item.kind,
            name,
        },
    })
}

/// The instructions of a server, if it has some.
pub(super) fn instructions(facts: &ServerFacts, stored: &StoredServer) -> Option<ItemEntry> {
    let pinned = &stored.instructions;
    let text = pinned.seen.as_deref()?;
    let seen = Digest::of(text.as_bytes());
    let word = stored.word(ItemKind::Instructions, "").cloned().unwrap_or_default();
    let before = pinned.approved_text.as_deref().map(str::as_bytes);
    let own = standing(seen, pinned.approved, facts.trust, &word);
    Some(ItemEntry {
        id: ItemId {
            server: facts.id.clone(),
            kind: ItemKind::Instructions,
            name: "".into(),
        },
        trust: facts.trust,
        definition: text.as_bytes().into(),
        definition_hash: seen,
        standing: stored.as_this_server(facts, (ItemKind::Instructions, "", seen), own),
        approved: pinned.approved,
        before: before
            .filter(|text| pinned.approved == Some(Digest::of(text)))
            .map(Arc::from),
        word,
    })
}
