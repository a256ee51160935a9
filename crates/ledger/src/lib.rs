//! Remembers every ending: one record per request in a hash-chained log of canonical JSON lines,
//! written before the answer is released. A [`Receipt`] is the proof that the record was written;
//! nothing outside this crate can make one. [`verify`] and [`LedgerReader`] work on the files alone.

mod append;
mod chain;
mod ending;
mod event;
mod harness;
mod open;
mod receipt;
mod record;
mod segment;
mod verify;

#[cfg(test)]
mod sample;

pub use append::{Durability, Ledger, LedgerDown, Settings};
pub use ending::{
    Arrival, CredentialFacts, DecisionFacts, Ending, Era, Intent, MessageFacts, Outcome, Status, TokenMode,
    TokenSource, Verdict,
};
pub use event::{EgressAttempt, EgressCall, Event, FindingNote, Note, ScreeningDecision};
pub use harness::{
    AttemptClass, HarnessAttempt, HarnessOutput, HarnessResult, HarnessSubject, HarnessUsage, HarnessWalls, RunReason,
    RunStatus,
};
pub use open::{OpenError, Opened, stored_origin};
pub use receipt::{EventReceipt, IntentReceipt, Receipt};
pub use segment::{LedgerReader, Lines, Position, Span};
pub use verify::{Break, BreakKind, Finding, Intact, verify};
