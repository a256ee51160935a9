//! A request of a server that its client may be asked: screened, decided, and with what its record will say.

use ledger::{Arrival, DecisionFacts, MessageFacts};
use mcp::mrtr::InputMethod;
use policy::Permit;
use screening::result::ScreenedResult;

use crate::state::event_budget::PassedOn;

/// See the module.
pub(crate) struct AllowedRequest {
    pub(crate) method: InputMethod,
    pub(crate) params: Option<ScreenedResult>,
    pub(crate) facts: MessageFacts,
    pub(crate) decision: DecisionFacts,
    pub(crate) arrival: Arrival,
    /// Held so that nothing is put to a client that no policy allowed.
    pub(crate) _permit: Permit,
}

impl AllowedRequest {
    /// Whether anything had to be changed about it.
    pub(crate) fn passed_on(&self) -> PassedOn {
        match &self.params {
            Some(params) if !params.acts().is_empty() => PassedOn::Troublesome,
            Some(_) | None => PassedOn::Unchanged,
        }
    }
}
