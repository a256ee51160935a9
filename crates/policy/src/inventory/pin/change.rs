//! What changes in the inventory, as the log tells it.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use vocabulary::{Digest, Risk, ServerId, Shadowing, ToolName};

use crate::inventory::entry::{DefinitionFault, QuarantineCause, Standing};
use crate::inventory::identity::ServerIdentity;
use crate::inventory::word::ItemKind;

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
    /// The server is another than the one that had its name before.
    IdentityChanged {
        /// Who it was.
        before: ServerIdentity,
        /// Who it is.
        now: ServerIdentity,
        /// How many approvals of the other do not count for it.
        waiting: usize,
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
    /// A prompt, resource or template was seen that was not there before.
    ItemAdded {
        /// What it is.
        kind: ItemKind,
        /// Its name, URI or template.
        name: Arc<str>,
        /// Its digest.
        seen: Digest,
        /// Whether it may be used.
        standing: Standing,
    },
    /// A prompt, resource or template differs from what was seen before.
    ItemChanged {
        /// What it is.
        kind: ItemKind,
        /// Its name, URI or template.
        name: Arc<str>,
        /// Its digest now.
        seen: Digest,
        /// Whether it may be used: it may if the approved definition came back.
        standing: Standing,
    },
    /// A prompt, resource or template is not offered any more.
    ItemVanished {
        /// What it is.
        kind: ItemKind,
        /// Its name, URI or template.
        name: Arc<str>,
    },
    /// A definition that is no tool's was left out of the inventory.
    ItemRejected {
        /// What it would be.
        kind: ItemKind,
        /// Its place in its list, from 0.
        position: usize,
        /// What is wrong with it.
        fault: DefinitionFault,
    },
    /// A definition that is no tool's was approved.
    ItemApproved {
        /// What it is.
        kind: ItemKind,
        /// Its name, URI or template.
        name: Arc<str>,
        /// The approved digest.
        approved: Digest,
    },
    /// More changed in one discovery than is put on record one by one.
    Further {
        /// How much more.
        changes: usize,
    },
    /// A tool was quarantined beside the tools of other servers, its definition unchanged.
    Shadowing {
        /// The tool.
        tool: ToolName,
        /// Why.
        why: Shadowing,
    },
    /// An operator disabled something.
    Disabled {
        /// What it is.
        kind: ItemKind,
        /// Its name.
        name: Arc<str>,
    },
    /// An operator enabled it again.
    Enabled {
        /// What it is.
        kind: ItemKind,
        /// Its name.
        name: Arc<str>,
    },
    /// An operator said how dangerous a tool is.
    Classified {
        /// The tool.
        tool: Arc<str>,
        /// How dangerous.
        risk: Risk,
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
            Self::IdentityChanged {
                before,
                now,
                waiting: 0,
            } => write!(
                f,
                "the server is another: it was {before}, it is {now}; what was approved counts for it"
            ),
            Self::IdentityChanged { before, now, waiting } => write!(
                f,
                "the server is another: it was {before}, it is {now}; {waiting} approval(s) of the other do not count for it"
            ),
            Self::ToolAdded { seen, standing, .. } => write!(f, "a tool was added ({seen}): {standing}"),
            Self::ToolChanged { seen, standing, .. } => write!(f, "the definition changed (now {seen}): {standing}"),
            Self::ToolVanished { .. } => f.write_str("the tool is not offered any more"),
            Self::ToolRejected { position, fault, .. } => write!(f, "definition {position} was left out: {fault}"),
            Self::ToolApproved { approved, .. } => write!(f, "the definition was approved ({approved})"),
            Self::ItemAdded {
                kind, seen, standing, ..
            } => write!(f, "a {kind} was added ({seen}): {}", of_kind(*kind, standing)),
            Self::ItemChanged {
                kind, seen, standing, ..
            } => write!(f, "the {kind} changed (now {seen}): {}", of_kind(*kind, standing)),
            Self::ItemVanished { kind, .. } => write!(f, "the {kind} is not offered any more"),
            Self::ItemRejected { kind, position, fault } => {
                write!(f, "definition {position} of a {kind} was left out: {fault}")
            }
            Self::ItemApproved { kind, approved, .. } => write!(f, "the {kind} was approved ({approved})"),
            Self::Further { changes } => write!(
                f,
                "{changes} further changes of what the server offers were seen in the same discovery; `portreeve tool list` tells them"
            ),
            Self::Shadowing { why, .. } => write!(f, "the tool is quarantined: {why}"),
            Self::Disabled { kind, .. } => write!(f, "the {kind} was disabled"),
            Self::Enabled { kind, .. } => write!(f, "the {kind} was enabled again"),
            Self::Classified { risk, .. } => write!(f, "the tool was classified as {risk}"),
            Self::InstructionsChanged { .. } => f.write_str("the instructions changed and are withheld until approved"),
            Self::InstructionsApproved { approved } => write!(f, "the instructions were approved ({approved})"),
        }
    }
}

impl Change {
    /// The name of the change in records.
    #[must_use]
    pub fn action(&self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Self::Discovered { .. } => "server_discovered",
            Self::IdentityChanged { .. } => "server_identity_changed",
            Self::ToolAdded { .. } => "tool_added",
            Self::ToolChanged { .. } => "tool_changed",
            Self::ToolVanished { .. } => "tool_vanished",
            Self::ToolRejected { .. } => "definition_refused",
            Self::ToolApproved { .. } => "tool_approved",
            Self::Classified { .. } => "tool_classified",
            Self::Shadowing { .. } => "tool_quarantined",
            Self::InstructionsChanged { .. } => "instructions_changed",
            Self::InstructionsApproved { .. } => "instructions_approved",
            Self::Further { .. } => "inventory_changed",
            Self::ItemRejected { .. } => "definition_refused",
            Self::ItemAdded { kind, .. } => return Cow::Owned(format!("{kind}_added")),
            Self::ItemChanged { kind, .. } => return Cow::Owned(format!("{kind}_changed")),
            Self::ItemVanished { kind, .. } => return Cow::Owned(format!("{kind}_vanished")),
            Self::ItemApproved { kind, .. } => return Cow::Owned(format!("{kind}_approved")),
            Self::Disabled { kind, .. } => return Cow::Owned(format!("{kind}_disabled")),
            Self::Enabled { kind, .. } => return Cow::Owned(format!("{kind}_enabled")),
        })
    }

    /// The name of what it is about, if that has one.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::ToolAdded { tool, .. }
            | Self::ToolChanged { tool, .. }
            | Self::ToolVanished { tool }
            | Self::Shadowing { tool, .. }
            | Self::ToolApproved { tool, .. } => Some(tool.as_str()),
            Self::ToolRejected { tool, .. } => tool.as_ref().map(ToolName::as_str),
            Self::ItemAdded { name, .. }
            | Self::ItemChanged { name, .. }
            | Self::ItemVanished { name, .. }
            | Self::ItemApproved { name, .. } => Some(name),
            Self::Classified { tool: name, .. } | Self::Disabled { name, .. } | Self::Enabled { name, .. } => {
                Some(name).filter(|name| !name.is_empty()).map(AsRef::as_ref)
            }
            Self::Discovered { .. }
            | Self::IdentityChanged { .. }
            | Self::ItemRejected { .. }
            | Self::Further { .. }
            | Self::InstructionsChanged { .. }
            | Self::InstructionsApproved { .. } => None,
        }
    }

    /// The digest that was seen or approved, where there is one.
    #[must_use]
    pub fn digest(&self) -> Option<Digest> {
        match self {
            Self::ToolAdded { seen, .. }
            | Self::ToolChanged { seen, .. }
            | Self::ItemAdded { seen, .. }
            | Self::ItemChanged { seen, .. } => Some(*seen),
            Self::ToolApproved { approved, .. }
            | Self::ItemApproved { approved, .. }
            | Self::InstructionsApproved { approved } => Some(*approved),
            Self::InstructionsChanged { seen } => *seen,
            Self::Discovered { .. }
            | Self::IdentityChanged { .. }
            | Self::ToolVanished { .. }
            | Self::ToolRejected { .. }
            | Self::ItemVanished { .. }
            | Self::ItemRejected { .. }
            | Self::Further { .. }
            | Self::Shadowing { .. }
            | Self::Disabled { .. }
            | Self::Enabled { .. }
            | Self::Classified { .. } => None,
        }
    }
}

/// How a definition stands, in words that fit its kind.
fn of_kind(kind: ItemKind, standing: &Standing) -> String {
    match standing {
        Standing::Quarantined(QuarantineCause::NewTool) => format!("quarantined: new {kind}"),
        Standing::Approved | Standing::Disabled | Standing::Quarantined(_) => standing.to_string(),
    }
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Approved => f.write_str("approved"),
            Self::Disabled => f.write_str("disabled"),
            Self::Quarantined(QuarantineCause::FirstSight) => f.write_str("quarantined: server of unknown trust"),
            Self::Quarantined(QuarantineCause::NewTool) => f.write_str("quarantined: new tool"),
            Self::Quarantined(QuarantineCause::Doubtful) => {
                f.write_str("quarantined: the definition holds what nobody sees, or a secret")
            }
            Self::Quarantined(QuarantineCause::Changed { .. }) => f.write_str("quarantined: definition changed"),
            Self::Quarantined(QuarantineCause::IdentityChanged(_)) => {
                f.write_str("quarantined: approved of another server that had this name")
            }
            Self::Quarantined(QuarantineCause::BadDefinition(fault)) => write!(f, "quarantined: {fault}"),
            Self::Quarantined(QuarantineCause::Shadowing(why)) => write!(f, "quarantined: {why}"),
        }
    }
}
