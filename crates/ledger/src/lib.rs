//! Remembers every ending: one record per request in a hash-chained log of canonical JSON lines,
//! written before the answer is released. A [`Receipt`] is the proof that the record was written;
//! nothing outside this crate can make one. [`verify`] and [`LedgerReader`] work on the files alone.

mod settings;
mod screening;
mod ending;
mod harness;
mod event;
mod entry;
mod record;
mod chain;
mod segment;
mod receipt;
mod append;
mod verify;
mod open;

#[cfg(test)]
mod sample;

pub use append::Ledger;
pub use chain::BreakKind;
pub use ending::{
    Arrival, CredentialFacts, DecisionFacts, Ending, Intent, MessageFacts, Outcome, Status, TokenMode, TokenSource,
    Verdict,
};
pub use event::{EgressAttempt, EgressCall, EgressResult, Event, Fact, Note};
pub use harness::{
    AttemptClass, HarnessAttempt, HarnessOutput, HarnessResult, HarnessSubject, HarnessUsage, HarnessWalls, RunReason,
    RunStatus,
};
pub use open::{OpenError, Opened, stored_origin};
pub use receipt::{EventReceipt, IntentReceipt, LedgerDown, Receipt, Recorded};
pub use screening::{
    FindingNote, Judgement, ScreeningAct, ScreeningDecision, ScreeningGuard, ScreeningMode, ScreeningStage,
    ScreeningSubject,
};
pub use segment::{LedgerReader, Lines, Position, Span};
pub use settings::{Durability, Settings};
pub use verify::{Break, Finding, Intact, verify};
