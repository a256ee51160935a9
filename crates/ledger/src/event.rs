//! Records that are not requests: what operators did, what happened to the inventory, and what servers tried to reach.

use std::borrow::Cow;

use vocabulary::{Digest, ReceiptId};

use crate::ending::Verdict;
use crate::harness::{HarnessAttempt, HarnessResult};

/// Something worth a record that is not a request on the data plane.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// An operator changed something, or was refused.
    Admin(Note),
    /// A server or a tool was discovered, changed, quarantined or approved.
    Inventory(Note),
    /// A server's process tried to reach something.
    Egress(Box<EgressAttempt>),
    /// Something a server sent was withheld, edited or let through with a warning.
    Screening(Box<ScreeningDecision>),
    /// An agent's runtime ran once, under the harness.
    HarnessAttempt(Box<HarnessAttempt>),
    /// A run of an agent under the harness ended.
    HarnessResult(Box<HarnessResult>),
}

/// A decision of the chokepoint. Nothing of what was removed belongs in any of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScreeningDecision {
    /// The request it belongs to.
    pub receipt_id: Option<ReceiptId>,
    /// Who asked.
    pub principal: Option<String>,
    /// The digest of the client's session.
    pub session: Option<Digest>,
    /// The server that sent it.
    pub server_id: String,
    /// The tool, or the name of what else was asked for.
    pub tool_name: Option<String>,
    /// What was done: `blocked`, `warning`, `redacted` or `stripped`.
    pub status: &'static str,
    /// The step that decided.
    pub stage: &'static str,
    /// The setting it decided by.
    pub mode: &'static str,
    /// The guard that was broken.
    pub guard: Option<&'static str>,
    /// Where, by names the schema knows.
    pub path: Option<String>,
    /// The keyword of the schema.
    pub keyword: Option<String>,
    /// The schema.
    pub schema_hash: Option<Digest>,
    /// What was found.
    pub findings: Vec<FindingNote>,
    /// What was taken out: classes and counts, in the order of their names.
    pub stripped: Vec<(&'static str, u64)>,
    /// A sentence for people.
    pub message: String,
}

/// A finding, without the text that was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FindingNote {
    /// Its category.
    pub category: String,
    /// The rule.
    pub rule: String,
    /// Where, by known names.
    pub place: String,
    /// How many bytes.
    pub length: u64,
}

/// An attempt of a server's process to reach something, or several alike.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EgressAttempt {
    /// The server.
    pub server_id: String,
    /// The sandbox of its process.
    pub instance: String,
    /// The way it was tried.
    pub event: Cow<'static, str>,
    /// `allowed` or `blocked`.
    pub result: Cow<'static, str>,
    /// Where to: escaped and bounded by whoever saw it.
    pub host: String,
    /// Which port; 0 if none was named.
    pub port: u16,
    /// Why it was or was not let through.
    pub reason: Cow<'static, str>,
    /// How many attempts this stands for.
    pub count: u64,
    /// The harness run, where an agent's runtime tried it.
    pub run: Option<String>,
    /// The calls that were open in that process: if it is one, the attempt was made for it.
    pub open: Vec<EgressCall>,
}

/// A call an attempt may have been made for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EgressCall {
    /// Its receipt.
    pub receipt_id: ReceiptId,
    /// Its tool.
    pub tool_name: Option<String>,
    /// The digest of the client's session.
    pub session: Option<Digest>,
}

impl EgressAttempt {
    /// The call it was made for, where that is certain.
    pub(crate) fn call(&self) -> Option<&EgressCall> {
        match self.open.as_slice() {
            [only] => Some(only),
            _ => None,
        }
    }
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
    /// The request it belongs to, if any.
    pub(crate) fn receipt_id(&self) -> Option<ReceiptId> {
        match self {
            Self::Admin(note) | Self::Inventory(note) => note.receipt_id,
            Self::Egress(attempt) => attempt.call().map(|call| call.receipt_id),
            Self::Screening(decision) => decision.receipt_id,
            Self::HarnessAttempt(attempt) => Some(attempt.subject.receipt_id),
            Self::HarnessResult(result) => Some(result.subject.receipt_id),
        }
    }
}
