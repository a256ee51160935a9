//! Pins: what was seen of a server before, what was approved, and what a new discovery changes.
//! A changed definition is quarantined whoever the server belongs to.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use vocabulary::{Digest, ServerId, Timestamp, ToolName, Trust};

use super::ServerFacts;
use super::entry::{DefinitionFault, MAX_DEFINITION_BYTES, QuarantineCause, ReadDefinition, Standing, read};

/// What is kept of a server between discoveries and across restarts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredServer {
    /// The server.
    pub id: ServerId,
    /// When it was discovered first; `None` before that.
    pub discovered: Option<Timestamp>,
    /// Its instructions and their pin.
    pub instructions: StoredInstructions,
    /// Its tools in order of name, vanished ones included.
    pub tools: Vec<StoredTool>,
}

/// A server's instructions with their pin.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StoredInstructions {
    /// The text of the latest discovery; `None` if there was none.
    pub seen: Option<String>,
    /// The digest of the approved text.
    pub approved: Option<Digest>,
}

impl StoredInstructions {
    /// The text, if it is the approved one; a changed one is withheld.
    #[must_use]
    pub fn released(&self) -> Option<&str> {
        self.seen
            .as_deref()
            .filter(|text| self.approved == Some(Digest::of(text.as_bytes())))
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
    /// Whether the latest discovery had it.
    pub presence: Presence,
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

/// What a server said of itself: all pages of `tools/list`, raw.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Discovery {
    /// The server.
    pub server: ServerId,
    /// Its instructions, if it has some.
    pub instructions: Option<String>,
    /// The tool objects, byte for byte.
    pub definitions: Vec<Arc<[u8]>>,
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

/// A change in the inventory, for the log; names and digests, no contents.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InventoryEvent {
    /// The server it is about.
    pub server: ServerId,
    /// What happened.
    pub change: Change,
}

/// What happened to a server's entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// The server answered its first discovery.
    Discovered {
        /// How many usable tools it offers.
        tools: usize,
    },
    /// A tool was seen that was not there before.
    ToolAdded {
        /// The tool.
        tool: ToolName,
        /// Its digest.
        seen: Digest,
        /// Whether it may be used.
        standing: Standing,
    },
    /// A tool's definition differs from the one seen before.
    ToolChanged {
        /// The tool.
        tool: ToolName,
        /// Its digest now.
        seen: Digest,
        /// Whether it may be used: it may if the approved definition came back.
        standing: Standing,
    },
    /// A tool is not offered any more.
    ToolVanished {
        /// The tool.
        tool: ToolName,
    },
    /// A definition was left out of the inventory.
    ToolRejected {
        /// Its place in the discovery, from 0.
        position: usize,
        /// Its name, where it has a usable one.
        tool: Option<ToolName>,
        /// What is wrong with it.
        fault: DefinitionFault,
    },
    /// A tool's definition was approved.
    ToolApproved {
        /// The tool.
        tool: ToolName,
        /// The approved digest.
        approved: Digest,
    },
    /// The instructions differ from those seen before, or are withheld at first sight.
    InstructionsChanged {
        /// Their digest now; `None` if there are none any more.
        seen: Option<Digest>,
    },
    /// The instructions were approved.
    InstructionsApproved {
        /// The approved digest.
        approved: Digest,
    },
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Discovered { tools } => write!(f, "the server was discovered with {tools} usable tool(s)"),
            Self::ToolAdded { seen, standing, .. } => write!(f, "a tool was added ({seen}): {standing}"),
            Self::ToolChanged { seen, standing, .. } => write!(f, "the definition changed (now {seen}): {standing}"),
            Self::ToolVanished { .. } => f.write_str("the tool is not offered any more"),
            Self::ToolRejected { position, fault, .. } => write!(f, "definition {position} was left out: {fault}"),
            Self::ToolApproved { approved, .. } => write!(f, "the definition was approved ({approved})"),
            Self::InstructionsChanged { .. } => f.write_str("the instructions changed and are withheld until approved"),
            Self::InstructionsApproved { approved } => write!(f, "the instructions were approved ({approved})"),
        }
    }
}

impl Change {
    /// The name of the change in records.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Discovered { .. } => "server_discovered",
            Self::ToolAdded { .. } => "tool_added",
            Self::ToolChanged { .. } => "tool_changed",
            Self::ToolVanished { .. } => "tool_vanished",
            Self::ToolRejected { .. } => "tool_rejected",
            Self::ToolApproved { .. } => "tool_approved",
            Self::InstructionsChanged { .. } => "instructions_changed",
            Self::InstructionsApproved { .. } => "instructions_approved",
        }
    }

    /// The tool it is about, if it is about one that has a name.
    #[must_use]
    pub fn tool(&self) -> Option<&ToolName> {
        match self {
            Self::ToolAdded { tool, .. }
            | Self::ToolChanged { tool, .. }
            | Self::ToolVanished { tool }
            | Self::ToolApproved { tool, .. } => Some(tool),
            Self::ToolRejected { tool, .. } => tool.as_ref(),
            Self::Discovered { .. } | Self::InstructionsChanged { .. } | Self::InstructionsApproved { .. } => None,
        }
    }

    /// The digest that was seen or approved, where there is one.
    #[must_use]
    pub fn digest(&self) -> Option<Digest> {
        match self {
            Self::ToolAdded { seen, .. } | Self::ToolChanged { seen, .. } => Some(*seen),
            Self::ToolApproved { approved, .. } | Self::InstructionsApproved { approved } => Some(*approved),
            Self::InstructionsChanged { seen } => *seen,
            Self::Discovered { .. } | Self::ToolVanished { .. } | Self::ToolRejected { .. } => None,
        }
    }
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Approved => f.write_str("approved"),
            Self::Quarantined(QuarantineCause::FirstSight) => f.write_str("quarantined: server of unknown trust"),
            Self::Quarantined(QuarantineCause::NewTool) => f.write_str("quarantined: new tool"),
            Self::Quarantined(QuarantineCause::Doubtful) => {
                f.write_str("quarantined: the definition holds what nobody sees, or a secret")
            }
            Self::Quarantined(QuarantineCause::Changed { .. }) => f.write_str("quarantined: definition changed"),
            Self::Quarantined(QuarantineCause::BadDefinition(fault)) => write!(f, "quarantined: {fault}"),
        }
    }
}

/// Why an approval was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ApproveFault {
    /// The server does not offer it.
    #[error("the server offers no such tool")]
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
    let before = stored.unwrap_or(StoredServer {
        id: server.clone(),
        discovered: None,
        instructions: StoredInstructions::default(),
        tools: Vec::new(),
    });
    let arrival = Arrival {
        trust: facts.trust,
        first,
        doubtful: &seen.doubtful,
    };
    let mut changes = Vec::new();
    let readable = sort_out(seen.definitions, &mut changes);
    if first {
        changes.insert(0, Change::Discovered { tools: readable.len() });
    }
    let tools = merge_tools(before.tools, readable, arrival, &mut changes);
    let instructions = merge_instructions(before.instructions, seen.instructions, arrival, &mut changes);
    let discovered = before.discovered.or(Some(now));
    Merged {
        stored: StoredServer {
            id: server.clone(),
            discovered,
            instructions,
            tools,
        },
        events: changes
            .into_iter()
            .map(|change| InventoryEvent {
                server: server.clone(),
                change,
            })
            .collect(),
    }
}

/// Approves a tool's definition as it was seen last.
///
/// # Errors
/// When the server does not offer the tool, or offers it with a definition that cannot be used.
pub fn approve(stored: &mut StoredServer, tool: &str) -> Result<InventoryEvent, ApproveFault> {
    let offered = |known: &&mut StoredTool| known.name.as_str() == tool && known.presence == Presence::Offered;
    let known = stored.tools.iter_mut().find(offered).ok_or(ApproveFault::NotOffered)?;
    read(&known.definition)
        .and_then(|definition| definition.schemas)
        .map_err(ApproveFault::BadDefinition)?;
    known.approved = Some(known.seen);
    let change = Change::ToolApproved {
        tool: known.name.clone(),
        approved: known.seen,
    };
    Ok(InventoryEvent {
        server: stored.id.clone(),
        change,
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
    Ok(InventoryEvent {
        server: stored.id.clone(),
        change: Change::InstructionsApproved { approved },
    })
}

/// How something new is met.
#[derive(Clone, Copy)]
struct Arrival<'a> {
    trust: Trust,
    first: bool,
    doubtful: &'a BTreeSet<Digest>,
}

impl Arrival<'_> {
    /// Whether something never seen before is approved at sight.
    fn welcomes(self, raw: &[u8]) -> bool {
        let trusted = match self.trust {
            Trust::Internal | Trust::Verified => true,
            Trust::Community => self.first,
            Trust::Unknown => false,
        };
        trusted && !self.doubts(raw)
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

/// The definitions that have a name of their own; the others are reported and left out.
fn sort_out(definitions: Vec<Arc<[u8]>>, changes: &mut Vec<Change>) -> BTreeMap<ToolName, (Arc<[u8]>, ReadDefinition)> {
    let mut readable = BTreeMap::new();
    let mut doubled = BTreeSet::new();
    let mut reject = |position, tool, fault| changes.push(Change::ToolRejected { position, tool, fault });
    for (position, definition) in definitions.into_iter().enumerate() {
        match read(&definition) {
            Err(fault) => reject(position, None, fault),
            Ok(known) if readable.contains_key(&known.name) => {
                reject(position, Some(known.name.clone()), DefinitionFault::DuplicateName);
                doubled.insert(known.name);
            }
            Ok(known) if readable.len() >= MAX_TOOLS => reject(position, Some(known.name), DefinitionFault::TooMany),
            Ok(known) => {
                if let Err(fault) = known.schemas {
                    reject(position, Some(known.name.clone()), fault);
                }
                readable.insert(known.name.clone(), (definition, known));
            }
        }
    }
    // Of two definitions with one name neither can be believed.
    readable.retain(|name, _| !doubled.contains(name));
    readable
}

fn merge_tools(
    before: Vec<StoredTool>,
    mut offered: BTreeMap<ToolName, (Arc<[u8]>, ReadDefinition)>,
    arrival: Arrival<'_>,
    changes: &mut Vec<Change>,
) -> Vec<StoredTool> {
    let mut tools = Vec::with_capacity(offered.len());
    let mut vanished = Vec::new();
    for mut known in before {
        match offered.remove(&known.name) {
            Some((definition, now)) => {
                let (seen_before, approved_before) = (known.seen, known.approved);
                let returned = known.presence == Presence::Vanished;
                known.presence = Presence::Offered;
                known.definition = definition;
                known.seen = now.hash;
                let vouched_for = matches!(arrival.trust, Trust::Internal | Trust::Verified);
                if known.approved.is_none() && vouched_for && !arrival.doubts(&known.definition) {
                    known.approved = Some(known.seen);
                }
                let (tool, seen, standing) = (known.name.clone(), known.seen, arrival.standing(&known));
                if returned {
                    changes.push(Change::ToolAdded { tool, seen, standing });
                } else if seen != seen_before {
                    changes.push(Change::ToolChanged { tool, seen, standing });
                } else if known.approved != approved_before {
                    changes.push(Change::ToolApproved { tool, approved: seen });
                }
                tools.push(known);
            }
            None => {
                if known.presence == Presence::Offered {
                    changes.push(Change::ToolVanished {
                        tool: known.name.clone(),
                    });
                }
                // A pin nobody approved protects nothing; the rest are kept up to a bound.
                known.presence = Presence::Vanished;
                vanished.extend(known.approved.is_some().then_some(known));
            }
        }
    }
    for (name, (definition, now)) in offered {
        let approved = arrival.welcomes(&definition).then_some(now.hash);
        let tool = StoredTool {
            name,
            definition,
            seen: now.hash,
            approved,
            presence: Presence::Offered,
        };
        let standing = arrival.standing(&tool);
        changes.push(Change::ToolAdded {
            tool: tool.name.clone(),
            seen: tool.seen,
            standing,
        });
        tools.push(tool);
    }
    vanished.truncate(MAX_VANISHED);
    tools.extend(vanished);
    tools.sort_by(|one, other| one.name.cmp(&other.name));
    tools
}

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
    let now = StoredInstructions { seen, approved };
    let withheld = now.seen.is_some() && now.released().is_none();
    if now.seen != before.seen && (withheld || before.seen.is_some()) {
        changes.push(Change::InstructionsChanged { seen: digest });
    }
    now
}

/// The most tools one server may have in the inventory.
const MAX_TOOLS: usize = 4096;
/// The most pins of vanished tools that are kept of one server.
const MAX_VANISHED: usize = 4096;

#[cfg(test)]
mod tests;
