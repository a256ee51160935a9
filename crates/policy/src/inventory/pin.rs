//! Pins: what was seen of a server before, what was approved, and what a new discovery changes.
//! A changed definition is quarantined whoever the server belongs to.

mod change;
mod merge;

use std::collections::BTreeSet;
use std::sync::Arc;

use vocabulary::{Audience, Digest, Era, ServerId, Timestamp, ToolName, Trust};

pub use self::change::{Change, InventoryEvent};
use self::merge::merge_tools;
use super::ServerFacts;
use super::beside::StoredItem;
use super::entry::{DefinitionFault, MAX_DEFINITION_BYTES, QuarantineCause, Standing, read};
use super::identity::{Bound, ServerIdentity, meet};
use super::offered::{Shown, differ, offered};
use super::word::{ItemKind, Word, Words};

/// What is kept of a server between discoveries and across restarts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredServer {
    /// The server.
    pub id: ServerId,
    /// By what it was known when it was met last; `None` where nobody has kept that.
    pub identity: Option<ServerIdentity>,
    /// As whom it was known when each definition was approved.
    pub bound: Bound,
    /// When it was discovered first; `None` before that.
    pub discovered: Option<Timestamp>,
    /// The eras it was seen in last; empty where nobody has kept that.
    pub eras: BTreeSet<Era>,
    /// Whether pins of vanished tools were given up, because there were too many: then no name of it is new.
    pub forgot_pins: bool,
    /// Its instructions and their pin.
    pub instructions: StoredInstructions,
    /// Its tools in order of name, vanished ones included.
    pub tools: Vec<StoredTool>,
    /// Its prompts, resources and templates, vanished ones included.
    pub items: Vec<StoredItem>,
    /// The kinds of those that were discovered at least once.
    pub listed: BTreeSet<ItemKind>,
    /// What operators said of single things of it.
    pub words: Words,
}

impl StoredServer {
    /// Whether the server was seen to offer this.
    #[must_use]
    pub fn has(&self, kind: ItemKind, name: &str) -> bool {
        match kind {
            ItemKind::Tool => self.tools.iter().any(|tool| tool.name.as_str() == name),
            ItemKind::Instructions => name.is_empty() && self.instructions.seen.is_some(),
            ItemKind::Prompt | ItemKind::Resource | ItemKind::Template => {
                self.items.iter().any(|item| item.kind == kind && &*item.name == name)
            }
        }
    }

    /// The digests of the definitions that it offers of something now.
    #[must_use]
    pub fn digests(&self, kind: ItemKind, name: &str) -> Vec<Digest> {
        match kind {
            ItemKind::Tool => {
                let tools = self.tools.iter().filter(|tool| tool.name.as_str() == name);
                tools.map(|tool| tool.seen).collect()
            }
            ItemKind::Instructions => {
                let text = self.instructions.seen.as_ref().filter(|_| name.is_empty());
                text.map(|text| Digest::of(text.as_bytes())).into_iter().collect()
            }
            ItemKind::Prompt | ItemKind::Resource | ItemKind::Template => {
                let offered = self.items.iter().filter(|item| item.presence == Presence::Offered);
                let named = offered.filter(|item| item.kind == kind && &*item.name == name);
                named.map(|item| item.seen).collect()
            }
        }
    }

    /// What operators said of one thing of it.
    #[must_use]
    pub fn word(&self, kind: ItemKind, name: &str) -> Option<&Word> {
        match self.words.is_empty() {
            true => None,
            false => self.words.get(&(kind, Arc::from(name))),
        }
    }
}

/// A server's instructions with their pin.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StoredInstructions {
    /// The text of the latest discovery; `None` if there was none.
    pub seen: Option<String>,
    /// The digest of the approved text.
    pub approved: Option<Digest>,
    /// The approved text, where another one was seen since.
    pub approved_text: Option<String>,
}

impl StoredInstructions {
    /// The text, if it is the approved one; a changed one is withheld.
    #[must_use]
    pub fn released(&self) -> Option<&str> {
        self.seen
            .as_deref()
            .filter(|text| self.approved == Some(Digest::of(text.as_bytes())))
    }

    /// The approved text, if it was kept.
    #[must_use]
    pub fn approved_text(&self) -> Option<&str> {
        self.released().or(self.approved_text.as_deref())
    }
}

/// One tool with its pin.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredTool {
    /// Its name.
    pub name: ToolName,
    /// The raw definition that was seen last.
    pub definition: Arc<[u8]>,
    /// The digest of that definition's canonical form.
    pub seen: Digest,
    /// The digest that was approved.
    pub approved: Option<Digest>,
    /// The raw definition that was approved, where another one was seen since. Pins of releases that did not keep it have none.
    pub approved_definition: Option<Arc<[u8]>>,
    /// Whether the latest discovery had it.
    pub presence: Presence,
    /// To whom it is shown; a tool that has another definition for others is stored once for each.
    pub audience: Audience,
}

/// Whether the latest discovery had a tool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Presence {
    /// It had.
    Offered,
    /// It had not; the pin is kept, so that the tool cannot come back changed.
    Vanished,
}

impl StoredTool {
    /// The approved definition, if it was kept.
    #[must_use]
    pub fn approved_definition(&self) -> Option<&Arc<[u8]>> {
        match self.approved {
            Some(approved) if approved == self.seen => Some(&self.definition),
            Some(_) => self.approved_definition.as_ref(),
            None => None,
        }
    }

    /// Whether the pin lets the tool be used.
    #[must_use]
    pub fn standing(&self, trust: Trust) -> Standing {
        match (self.approved, trust) {
            (Some(approved), _) if approved == self.seen => Standing::Approved,
            (Some(approved), _) => Standing::Quarantined(QuarantineCause::Changed { approved }),
            (None, Trust::Unknown) => Standing::Quarantined(QuarantineCause::FirstSight),
            (None, Trust::Internal | Trust::Verified | Trust::Community) => {
                Standing::Quarantined(QuarantineCause::NewTool)
            }
        }
    }
}

/// What a server said of itself: all pages of `tools/list`, raw, as each kind of client gets them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Discovery {
    /// The server.
    pub server: ServerId,
    /// Its instructions, if it has some.
    pub instructions: Option<String>,
    /// What it showed, by whom it was shown to.
    pub shown: Vec<Shown>,
    /// The tools that it showed in sessions or processes of clients that it told of a change there: a list for each.
    pub told: Vec<Vec<Arc<[u8]>>>,
    /// Why there is more than was read, where there is.
    pub cut: Option<&'static str>,
    /// Digests, of the bytes as they came, of definitions and instructions that a person is to look at first: they hold
    /// what nobody sees, or a secret.
    pub doubtful: BTreeSet<Digest>,
}

/// A discovery laid over what was stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Merged {
    /// What is to be stored now.
    pub stored: StoredServer,
    /// What changed, for the log.
    pub events: Vec<InventoryEvent>,
}

/// Why an approval was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ApproveFault {
    /// The server does not offer it.
    #[error("the server offers no such thing")]
    NotOffered,
    /// The definition is of no use, approved or not.
    #[error("the definition cannot be used")]
    BadDefinition(#[source] DefinitionFault),
    /// The server has no instructions.
    #[error("the server has no instructions")]
    NoInstructions,
}

/// Lays a discovery over what was stored of the server.
#[must_use]
pub fn merge(stored: Option<StoredServer>, seen: Discovery, facts: &ServerFacts, now: Timestamp) -> Merged {
    let server = seen.server;
    let first = stored.as_ref().is_none_or(|stored| stored.discovered.is_none());
    let mut before = stored.unwrap_or(StoredServer {
        id: server.clone(),
        identity: None,
        bound: Bound::new(),
        discovered: None,
        eras: BTreeSet::new(),
        forgot_pins: false,
        instructions: StoredInstructions::default(),
        tools: Vec::new(),
        items: Vec::new(),
        listed: BTreeSet::new(),
        words: Words::new(),
    });
    let other = meet(&mut before, facts);
    let arrival = Arrival {
        trust: facts.trust,
        first,
        forgot_pins: before.forgot_pins,
        doubtful: &seen.doubtful,
    };
    let eras = seen.shown.iter().map(|shown| shown.to.era).collect();
    let (mut offered, mut changes) = offered(seen.shown);
    differ(&mut offered, seen.told, &before.tools, &mut changes);
    if first {
        changes.insert(0, Change::Discovered { tools: offered.len() });
    }
    let (tools, forgot_now) = merge_tools(before.tools, offered, arrival, &mut changes);
    let instructions = merge_instructions(before.instructions, seen.instructions, arrival, &mut changes);
    let mut stored = StoredServer {
        id: server.clone(),
        identity: before.identity,
        bound: before.bound,
        discovered: before.discovered.or(Some(now)),
        eras,
        forgot_pins: before.forgot_pins || forgot_now,
        instructions,
        tools,
        items: before.items,
        listed: before.listed,
        words: before.words,
    };
    stored.bind_approved(&facts.identity);
    let changes = match first {
        true => changes,
        false => capped(changes),
    };
    let changes = changes.into_iter().map(|change| InventoryEvent {
        server: server.clone(),
        change,
    });
    Merged {
        stored,
        events: other.into_iter().chain(changes).collect(),
    }
}

/// Approves a definition of a tool, as it was seen last, for all it is shown to.
///
/// # Errors
/// When the server does not offer the tool with that definition, or it cannot be used.
pub fn approve(stored: &mut StoredServer, tool: &str, seen: Digest) -> Result<InventoryEvent, ApproveFault> {
    let mut tools = stored.tools.iter_mut();
    let wanted = |known: &&mut StoredTool| {
        known.name.as_str() == tool && known.presence == Presence::Offered && known.seen == seen
    };
    let known: Vec<&mut StoredTool> = tools.by_ref().filter(wanted).collect();
    let first = known.first().ok_or(ApproveFault::NotOffered)?;
    read(&first.definition)
        .and_then(|definition| definition.schemas)
        .map_err(ApproveFault::BadDefinition)?;
    let change = Change::ToolApproved {
        tool: first.name.clone(),
        approved: seen,
    };
    let name = Arc::from(first.name.as_str());
    for known in known {
        known.approved = Some(seen);
        known.approved_definition = None;
    }
    let offered = stored.tools.iter().filter(|known| known.name.as_str() == tool);
    let offered: BTreeSet<Digest> = offered.map(|known| known.seen).collect();
    let settled = &mut stored.words.entry((ItemKind::Tool, name)).or_default().settled;
    settled.retain(|digest| offered.contains(digest));
    settled.insert(seen);
    Ok(InventoryEvent {
        server: stored.id.clone(),
        change,
    })
}

/// Approves a definition of a prompt, a resource or a template, as it was seen last.
///
/// # Errors
/// When the server does not offer it with that definition.
pub fn approve_listed(
    stored: &mut StoredServer,
    (kind, name): (ItemKind, &str),
    seen: Digest,
) -> Result<InventoryEvent, ApproveFault> {
    let wanted = |item: &&mut StoredItem| {
        item.kind == kind && &*item.name == name && item.seen == seen && item.presence == Presence::Offered
    };
    let mut items = stored.items.iter_mut();
    let item = items.find(wanted).ok_or(ApproveFault::NotOffered)?;
    item.approved = Some(seen);
    item.approved_definition = None;
    let name = item.name.clone();
    Ok(InventoryEvent {
        server: stored.id.clone(),
        change: Change::ItemApproved {
            kind,
            name,
            approved: seen,
        },
    })
}

/// Approves a server's instructions as they were seen last.
///
/// # Errors
/// When the server has none.
pub fn approve_instructions(stored: &mut StoredServer) -> Result<InventoryEvent, ApproveFault> {
    let text = stored
        .instructions
        .seen
        .as_deref()
        .ok_or(ApproveFault::NoInstructions)?;
    let approved = Digest::of(text.as_bytes());
    stored.instructions.approved = Some(approved);
    stored.instructions.approved_text = None;
    Ok(InventoryEvent {
        server: stored.id.clone(),
        change: Change::InstructionsApproved { approved },
    })
}

/// How something new is met.
#[derive(Clone, Copy)]
pub(super) struct Arrival<'a> {
    pub(super) trust: Trust,
    pub(super) first: bool,
    /// Whether what looks new may be something that was pinned once.
    pub(super) forgot_pins: bool,
    pub(super) doubtful: &'a BTreeSet<Digest>,
}

impl Arrival<'_> {
    /// Whether something never seen before is approved at sight.
    pub(super) fn welcomes(self, raw: &[u8]) -> bool {
        let trusted = match self.trust {
            Trust::Internal | Trust::Verified => true,
            Trust::Community => self.first,
            Trust::Unknown => false,
        };
        trusted && !self.forgot_pins && !self.doubts(raw)
    }

    fn doubts(self, raw: &[u8]) -> bool {
        !self.doubtful.is_empty() && self.doubtful.contains(&Digest::of(raw))
    }

    /// What the pin says, and why it is so where somebody is to look first.
    fn standing(self, tool: &StoredTool) -> Standing {
        if tool.approved.is_none() && self.doubts(&tool.definition) {
            return Standing::Quarantined(QuarantineCause::Doubtful);
        }
        tool.standing(self.trust)
    }
}

/// As many changes as one discovery puts on record, and how many more there were: a server that changes everything all the time
/// does not fill the log.
pub(super) fn capped(mut changes: Vec<Change>) -> Vec<Change> {
    let further = changes.len().saturating_sub(MOST_CHANGES);
    if further > 0 {
        changes.truncate(MOST_CHANGES);
        changes.push(Change::Further { changes: further });
    }
    changes
}

/// The most changes that one discovery puts on record one by one.
const MOST_CHANGES: usize = 100;

fn merge_instructions(
    before: StoredInstructions,
    seen: Option<String>,
    arrival: Arrival<'_>,
    changes: &mut Vec<Change>,
) -> StoredInstructions {
    let seen = seen.filter(|text| text.len() <= MAX_DEFINITION_BYTES);
    let digest = seen.as_ref().map(|text| Digest::of(text.as_bytes()));
    let welcome = seen.as_ref().is_some_and(|text| arrival.welcomes(text.as_bytes()));
    let approved = before.approved.or(digest.filter(|_| welcome));
    let now = StoredInstructions {
        approved_text: before.approved_text().filter(|_| approved != digest).map(str::to_owned),
        seen,
        approved,
    };
    let withheld = now.seen.is_some() && now.released().is_none();
    if now.seen != before.seen && (withheld || before.seen.is_some()) {
        changes.push(Change::InstructionsChanged { seen: digest });
    }
    now
}

#[cfg(test)]
mod tests;
