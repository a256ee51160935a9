//! Records that are not requests: what operators did, what happened to the inventory, and what servers tried to reach.

use std::borrow::Cow;

use vocabulary::{Digest, ReceiptId, words};

use crate::approval::ApprovalStep;
use crate::ending::Verdict;
use crate::harness::{HarnessAttempt, HarnessResult};
use crate::incident::IncidentStep;
use crate::screening::ScreeningDecision;

/// Something worth a record that is not a request on the data plane.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// An operator changed something, or was refused.
    Admin(Note),
    /// A server or a tool was discovered, changed, quarantined or approved.
    Inventory(Note),
    /// A person was asked, answered, or their answer was used.
    Approval(Box<ApprovalStep>),
    /// An incident was started, goes on or is over.
    Incident(Box<IncidentStep>),
    /// A server's process tried to reach something.
    Egress(Box<EgressAttempt>),
    /// Something a server sent was withheld, edited or let through with a warning.
    Screening(Box<ScreeningDecision>),
    /// An agent's runtime ran once, under the harness.
    HarnessAttempt(Box<HarnessAttempt>),
    /// A run of an agent under the harness ended.
    HarnessResult(Box<HarnessResult>),
}

words! {
    /// What came of an attempt to reach something.
    pub enum EgressResult {
        /// It was let through.
        Allowed = "allowed",
        /// It was not.
        Blocked = "blocked",
    }
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
    /// What came of it.
    pub result: EgressResult,
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
            Self::Approval(step) => step.receipt_id,
            Self::Egress(attempt) => attempt.call().map(|call| call.receipt_id),
            Self::Incident(_) => None,
            Self::Screening(decision) => decision.subject.receipt_id,
            Self::HarnessAttempt(attempt) => Some(attempt.subject.receipt_id),
            Self::HarnessResult(result) => Some(result.subject.receipt_id),
        }
    }
}

/// Something that must be on record before anything follows from it. It writes its own record, so that whoever has it
/// recorded cannot have something else recorded in its place.
pub trait Fact {
    /// What the fact itself does not know: what it is about.
    type Subject;

    /// The record.
    fn event(&self, subject: Self::Subject) -> Event;
}
