//! Records that are not requests: what operators did, and what happened to the inventory.

use vocabulary::ReceiptId;

use crate::Verdict;

/// Something worth a record that is not a request on the data plane.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// An operator changed something, or was refused.
    Admin(Note),
    /// A server or a tool was discovered, changed, quarantined or approved.
    Inventory(Note),
}

/// What an event says. No payload and no secret belongs in any of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Note {
    /// What was done, as `noun.verb`: `token.create`, `tool.quarantine`.
    pub action: String,
    /// Who did it.
    pub actor: String,
    /// What it was done to: a token id, `server` or `server/tool`.
    pub subject: Option<String>,
    /// Whether it was let happen.
    pub result: Verdict,
    /// A sentence for people.
    pub message: String,
    /// The request it belongs to, if any.
    pub receipt_id: Option<ReceiptId>,
}

impl Note {
    /// Something that was done.
    #[must_use]
    pub fn done(action: &str, actor: &str, subject: Option<&str>, message: &str) -> Self {
        Self {
            action: action.to_owned(),
            actor: actor.to_owned(),
            subject: subject.map(str::to_owned),
            result: Verdict::Allow,
            message: message.to_owned(),
            receipt_id: None,
        }
    }

    /// Something that was refused.
    #[must_use]
    pub fn refused(action: &str, actor: &str, subject: Option<&str>, message: &str) -> Self {
        Self {
            result: Verdict::Deny,
            ..Self::done(action, actor, subject, message)
        }
    }
}

impl Event {
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Admin(_) => "admin",
            Self::Inventory(_) => "inventory",
        }
    }

    pub(crate) fn note(&self) -> &Note {
        match self {
            Self::Admin(note) | Self::Inventory(note) => note,
        }
    }
}
