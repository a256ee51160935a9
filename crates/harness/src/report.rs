//! What is told about a run: an object for programs, exit codes with fixed meanings. Words of ours and of the schema.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ledger::{AttemptClass, HarnessUsage, RunReason, RunStatus};
use schema::Violation;
use serde_json::{Value, json};
use vocabulary::{Digest, ReceiptId};

use crate::config::AgentName;

/// Exit codes of the harness's commands.
pub mod exit {
    /// Well, or skipped.
    pub const OK: u8 = 0;
    /// Our own work could not be done: no record, no disk.
    pub const BROKEN: u8 = 1;
    /// Wrongly called.
    pub const USAGE: u8 = 2;
    /// Configuration, schema or lock; nothing ran.
    pub const CONFIG: u8 = 3;
    /// Schema or guard, retries exhausted.
    pub const REFUSED: u8 = 10;
    /// No output or not JSON, retries exhausted.
    pub const NO_DOCUMENT: u8 = 11;
    /// The runtime failed.
    pub const RUNTIME: u8 = 12;
    /// Time was over.
    pub const TIMEOUT: u8 = 13;
    /// Files of the harness changed.
    pub const INTEGRITY: u8 = 14;
    /// A hook before the runtime failed.
    pub const PRE_HOOK: u8 = 15;
    /// A hook after publishing failed.
    pub const POST_HOOK: u8 = 16;
    /// The sandbox cannot be built as it is asked for.
    pub const SANDBOX: u8 = 17;
    /// A stage of a pipeline failed, or its budget is spent.
    pub const PIPELINE: u8 = 20;
}

/// One attempt, for the summary.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AttemptNote {
    /// Which, from 1.
    pub number: u32,
    /// What came of it.
    pub class: AttemptClass,
    /// How long it took.
    pub took: Duration,
    /// What the runtime says it used.
    pub usage: Option<HarnessUsage>,
    /// The code of a runtime that failed; above 128 it may stand for a signal, as in a shell.
    pub exit: Option<u64>,
    /// The last lines that a runtime wrote to standard error before it failed, without secrets and terminal sequences.
    pub last_words: Vec<String>,
}

/// What a run of an agent came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AgentReport {
    /// The agent.
    pub agent: AgentName,
    /// What it came to.
    pub status: RunStatus,
    /// Why.
    pub reason: RunReason,
    /// Every attempt.
    pub attempts: Vec<AttemptNote>,
    /// What was wrong with the last one.
    pub violations: Vec<Violation>,
    /// The exit code.
    pub exit: u8,
    /// The record that says so.
    pub receipt_id: ReceiptId,
    /// What was published.
    pub output: Option<(PathBuf, Digest)>,
    /// How long all of it took.
    pub took: Duration,
    /// A sentence more, for people.
    pub told: Option<String>,
}

impl AgentReport {
    /// The class of the last attempt.
    #[must_use]
    pub fn class(&self) -> Option<AttemptClass> {
        self.attempts.last().map(|note| note.class)
    }

    /// The object for programs.
    #[must_use]
    pub fn to_json(&self, run: &str, directory: &Path) -> Value {
        let history: Vec<Value> = self
            .attempts
            .iter()
            .map(|note| {
                json!({
                    "attempt": note.number,
                    "class": note.class.as_str(),
                    "duration_ms": millis(note.took),
                    "usage": note.usage.as_ref().map(usage_json),
                    "exit_code": note.exit,
                    "stderr": note.last_words,
                })
            })
            .collect();
        json!({
            "run": run,
            "directory": directory.display().to_string(),
            "agent": self.agent.as_str(),
            "status": self.status.as_str(),
            "reason": self.reason.as_str(),
            "class": self.class().map(AttemptClass::as_str),
            "attempts": self.attempts.len(),
            "history": history,
            "violations": self.violations.iter().map(violation_json).collect::<Vec<_>>(),
            "output": self.output.as_ref().map(|(path, hash)| json!({
                "file": path.display().to_string(),
                "hash": hash.to_string(),
            })),
            "duration_ms": millis(self.took),
            "exit": self.exit,
            "receipt_id": self.receipt_id.to_string(),
        })
    }
}

/// A violation for programs.
pub(crate) fn violation_json(violation: &Violation) -> Value {
    json!({ "path": violation.path, "keyword": violation.keyword, "expected": violation.expected })
}

fn usage_json(usage: &HarnessUsage) -> Value {
    json!({
        "cost_usd_micros": usage.cost_usd_micros,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
    })
}

pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The exit code of an agent that ran alone.
pub(crate) fn code(status: RunStatus, reason: RunReason, class: Option<AttemptClass>) -> u8 {
    match (status, reason) {
        (RunStatus::Ok | RunStatus::Skipped, _) => exit::OK,
        (RunStatus::Failed, RunReason::PreHook) => exit::PRE_HOOK,
        (RunStatus::Failed, RunReason::Sandbox) => exit::SANDBOX,
        (RunStatus::Failed, RunReason::Integrity) => exit::INTEGRITY,
        (RunStatus::Failed, RunReason::Gateway) => exit::CONFIG,
        (RunStatus::Failed, RunReason::TotalTime) => exit::TIMEOUT,
        (RunStatus::Failed, RunReason::Budget) => exit::PIPELINE,
        (
            RunStatus::Failed,
            RunReason::Stopped
            | RunReason::Valid
            | RunReason::SkippedByHook
            | RunReason::ConditionFalse
            | RunReason::PointerMissing
            | RunReason::NeedSkipped,
        ) => exit::BROKEN,
        (RunStatus::Failed, RunReason::RuntimeExit) => exit::RUNTIME,
        (RunStatus::Failed, RunReason::Exhausted | RunReason::SameOutput) => class.map_or(exit::BROKEN, refusal_code),
    }
}

/// The exit code of an attempt that was the last.
#[must_use]
pub fn refusal_code(class: AttemptClass) -> u8 {
    match class {
        AttemptClass::SchemaViolation | AttemptClass::GuardViolation => exit::REFUSED,
        AttemptClass::NotJson | AttemptClass::NoOutput => exit::NO_DOCUMENT,
        AttemptClass::RuntimeExit => exit::RUNTIME,
        AttemptClass::Timeout => exit::TIMEOUT,
        AttemptClass::Integrity => exit::INTEGRITY,
        AttemptClass::Stopped => exit::BROKEN,
        AttemptClass::Ok => exit::OK,
    }
}
