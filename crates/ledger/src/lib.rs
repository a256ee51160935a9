//! Remembers every ending: one record per request in a hash-chained log of canonical JSON lines,
//! written before the answer is released. A [`Receipt`] is the proof that the record was written;
//! nothing outside this crate can make one. [`verify`] and [`LedgerReader`] work on the files alone.

mod settings;
mod screening;
mod ending;
mod approval;
mod incident;
mod harness;
mod event;
mod entry;
mod record;
mod chain;
mod tree;
mod segment;
mod tiles;
mod checkpoint;
mod key;
mod receipt;
mod sign;
mod witness;
mod retention;
mod payload;
mod append;
mod verify;
mod prove;
mod open;

#[cfg(test)]
mod sample;

pub use append::Ledger;
pub use approval::{ApprovalAction, ApprovalStep};
pub use chain::BreakKind;
pub use checkpoint::{Checkpoint, CheckpointFault};
pub use ending::{
    ApprovalFacts, Arrival, CredentialFacts, DecisionFacts, Ending, Intent, MessageFacts, Outcome, Status, StepUp,
    TokenMode, TokenSource, Verdict,
};
pub use event::{EgressAttempt, EgressCall, EgressResult, Event, Fact, Note};
pub use harness::{
    AttemptClass, HarnessAttempt, HarnessOutput, HarnessResult, HarnessSubject, HarnessUsage, HarnessWalls, RunReason,
    RunStatus,
};
pub use incident::{IncidentAction, IncidentMark, IncidentStep};
pub use key::{LedgerKeyFault, stored_key};
pub use open::{OpenError, Opened, stored_origin};
pub use payload::{KeptPayloads, Payload, PayloadFault, PayloadKind, PayloadRef, Payloads};
pub use prove::{
    CannotProve, FoundRecord, FoundRecords, ProofFault, Wanted, check_proof, find_records, latest_checkpoint,
    newest_seq, prove,
};
pub use receipt::{EventReceipt, IntentReceipt, LedgerDown, Receipt, Recorded};
pub use retention::{Retention, Room, room};
pub use screening::{
    FindingNote, Judgement, ScreeningAct, ScreeningDecision, ScreeningGuard, ScreeningMode, ScreeningStage,
    ScreeningSubject,
};
pub use segment::{LedgerReader, Lines, Position, Span};
pub use settings::{Durability, Settings};
pub use sign::SignFault;
pub use tiles::TileFault;
pub use verify::{Break, CannotVerify, Fault, Finding, Intact, Question, Report, verify, verify_files, verify_state};
