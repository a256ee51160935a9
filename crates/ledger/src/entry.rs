//! What is to be recorded, before it is a line.

use crate::ending::{Arrival, Ending, Intent};
use crate::event::Event;
use crate::payload::PayloadRef;

/// One record to be.
pub(crate) enum Entry {
    Final(Box<Final>),
    Intent(Box<Announced>),
    Event(Event),
}

/// A call that is about to leave.
pub(crate) struct Announced {
    pub(crate) arrival: Arrival,
    pub(crate) intent: Intent,
}

/// The final record of a request, or of `count` refusals that share it.
pub(crate) struct Final {
    pub(crate) arrival: Arrival,
    pub(crate) ending: Ending,
    pub(crate) size_bytes_out: u64,
    pub(crate) count: u64,
    /// Where the answer is kept, if it is.
    pub(crate) result_ref: Option<PayloadRef>,
}
