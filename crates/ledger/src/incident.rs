//! Steps of an incident, and the mark that every request's record carries while one is on.

use std::sync::Arc;

use vocabulary::{Timestamp, words};

words! {
    /// What became of an incident.
    pub enum IncidentAction {
        /// It was started.
        Started = "started",
        /// It goes on after a start of the gateway.
        Continued = "continued",
        /// One person wants it to end; a second has to say so too.
        EndWanted = "end_wanted",
        /// It was ended.
        Ended = "ended",
        /// Its time is over.
        Expired = "expired",
    }
}

/// What records say of incidents: the strictest that is on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IncidentMark {
    /// Its name.
    pub id: Arc<str>,
    /// How much it leaves.
    pub stage: &'static str,
}

/// One step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IncidentStep {
    /// What became of it.
    pub action: IncidentAction,
    /// Who did that, or `system`.
    pub actor: String,
    /// Its name.
    pub id: String,
    /// How much it leaves.
    pub stage: &'static str,
    /// Of what.
    pub scope: String,
    /// Why, in somebody's words.
    pub reason: String,
    /// When it was started.
    pub started: Timestamp,
    /// When it ends by itself.
    pub expires: Option<Timestamp>,
    /// What the records after this one say.
    pub then: Option<IncidentMark>,
}
