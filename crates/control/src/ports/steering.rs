//! What the control plane needs of approvals and incidents.

use std::time::Duration;

use ledger::LedgerDown;
use policy::{Answered, ApprovalFault, Incident, IncidentEndFault, IncidentScope, IncidentStage};
use vocabulary::Timestamp;

use super::{Later, PortError};

/// A person's word on a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ApprovalWord {
    /// What.
    pub answer: Answered,
    /// Whose.
    pub by: String,
    /// Why, in their words.
    pub reason: Option<String>,
}

/// Why a word was not taken.
#[derive(Debug)]
pub enum NotDecided {
    /// There is no such question.
    Unknown,
    /// It does not count.
    Fault(ApprovalFault),
    /// It could not be put on record.
    Unrecorded(LedgerDown),
}

/// What a call that waits for a person would be made with: canonical JSON.
pub struct ShownArguments {
    /// The arguments.
    pub arguments: Vec<u8>,
    /// Those that were approved last of the same caller and tool, and when.
    pub last: Option<(Vec<u8>, Timestamp)>,
}

/// Keeps what people are asked.
pub trait ApprovalsPort: Send + Sync {
    /// Every approval that is kept, newest first, each where it stands now.
    ///
    /// # Errors
    /// When the store fails.
    fn list(&self) -> Result<Vec<policy::Approval>, PortError>;

    /// One approval, where it stands now.
    ///
    /// # Errors
    /// When the store fails.
    fn find(&self, id: &str) -> Result<Option<policy::Approval>, PortError>;

    /// The arguments of an approval that waits; nobody else's are kept.
    ///
    /// # Errors
    /// When the store fails.
    fn arguments(&self, approval: &policy::Approval) -> Result<Option<ShownArguments>, PortError>;

    /// Takes a person's word; it is on record before it counts.
    fn decide(
        &self,
        id: &str,
        word: ApprovalWord,
    ) -> Later<'_, Result<Result<policy::Approval, NotDecided>, PortError>>;
}

/// An incident to be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewIncident {
    /// How much is still allowed.
    pub stage: IncidentStage,
    /// Of what.
    pub scope: IncidentScope,
    /// Why.
    pub reason: String,
    /// How long it lasts, where it ends by itself.
    pub ttl: Option<Duration>,
    /// Who starts it.
    pub by: String,
}

/// What went wrong with starting an incident. It is on and denies all the same.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NotStarted {
    /// A restart would lose it.
    OnAndNotKept(Incident),
    /// The log does not say so.
    OnAndNotRecorded(Incident),
}

/// What came of ending one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EndOfIncident {
    /// It is over.
    Over(Incident),
    /// It goes on until a second person says so.
    Half(Incident),
}

/// Why nothing came of it.
#[derive(Debug)]
pub enum NotEnded {
    /// There is none, or the same person said so before.
    Fault(IncidentEndFault),
    /// It could not be put on record.
    Unrecorded(LedgerDown),
}

/// Keeps incidents.
pub trait IncidentsPort: Send + Sync {
    /// Those that are on.
    fn status(&self) -> Vec<Incident>;

    /// Starts one: it denies before this returns, whatever comes of keeping and recording it.
    fn start(&self, wanted: NewIncident) -> Later<'_, Result<Result<Incident, NotStarted>, PortError>>;

    /// Ends one, or notes that somebody wants it to; on record before anything is allowed again.
    fn end(&self, id: &str, by: &str) -> Later<'_, Result<Result<EndOfIncident, NotEnded>, PortError>>;
}
