//! A record as canonical JSON, written by hand: member names stand in their sorted order here, so that no tree is
//! built and nothing is sorted for a request.

mod line;
mod request;
mod approval;
mod events;
mod incident;
mod harness;

use vocabulary::Digest;

use crate::event::Event;

pub(crate) use line::{HASH_MEMBER_PREFIX, Seal, write_text};
pub(crate) use request::{Request, write_request};

/// Appends an event's line, newline included, to `out`; gives back its hash.
pub(crate) fn write_event(out: &mut Vec<u8>, event: &Event, seal: &Seal<'_>) -> Digest {
    match event {
        Event::Admin(note) => events::write_note(out, "admin", note, seal),
        Event::Inventory(note) => events::write_note(out, "inventory", note, seal),
        Event::Approval(step) => approval::write_step(out, step, seal),
        Event::Incident(step) => incident::write_step(out, step, seal),
        Event::Egress(attempt) => events::write_egress(out, attempt, seal),
        Event::Screening(decision) => events::write_screening(out, decision, seal),
        Event::HarnessAttempt(attempt) => harness::write_attempt(out, attempt, seal),
        Event::HarnessResult(result) => harness::write_result(out, result, seal),
    }
}

#[cfg(test)]
mod tests;
