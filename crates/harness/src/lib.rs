//! Runs an agent's runtime in the sandbox, takes its output as untrusted bytes, judges those bytes by a declared schema
//! and publishes exactly them or nothing. [`Validated`] is made by [`Contract::validate`] alone, [`Released`] only after
//! publishing and recording; conditions, hooks and standard output take nothing less. No flag, key or variable goes
//! around it.

mod advice;
mod check;
mod codeowners;
mod config;
mod contract;
mod dialect;
mod feedback;
mod fit;
mod hooks;
mod intake;
mod integrity;
mod launch;
mod lock;
mod pipeline;
mod ports;
mod record;
mod refusal;
mod regular;
mod released;
mod removal;
mod report;
mod run;
mod run_directory;
mod runtime;
mod token_lease;
mod usage;

pub use advice::Advice;
pub use check::{Dialect, Request, check, check_unlocked};
pub use config::{
    Agent, AgentLimits, AgentName, Condition, Document, FILE, FORMAT, Fault, Faults, Harness, Hooks, OutputRule,
    Pipeline, Reference, Retry, Source, Stage, Unreadable, WallRule, read_document,
};
pub use contract::{Contract, ContractFault, Findings, Secrets, Validated};
pub use feedback::{Feedback, FeedbackLimits, Marker};
pub use fit::fit;
pub use hooks::{HookFailure, HookKind};
pub use intake::{OutputPlace, RawOutput, take_file};
pub use launch::StartFailure;
pub use lock::{LOCK_FILE, Lock, LockFault};
pub use pipeline::{PipelineReport, run_pipeline};
pub use ports::{
    HostEnvironment, IssuedToken, Later, Progress, Recorder, Step, Stop, TokenIssuer, TokenRequest, Unavailable,
};
pub use record::Recorded;
pub use refusal::{Guard, MOST_VIOLATIONS, Refusal};
pub use released::{Published, RecordOfAnother, Released};
pub use report::{AgentReport, AttemptNote, exit, refusal_code};
pub use run::{Context, Given, InputFiles, Run, RunError, Setting, run_agent};
pub use run_directory::RunDirectory;
pub use schema::Violation;
