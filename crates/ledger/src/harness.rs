//! What is recorded of harness runs: every attempt of an agent, and what the run came to. Names, numbers and digests; no
//! word of what an agent wrote belongs in any of it.

use vocabulary::{Digest, ReceiptId, words};

words! {
    /// What came of one attempt.
    pub enum AttemptClass {
        /// The output is valid.
        Ok = "ok",
        /// JSON, but not of the schema.
        SchemaViolation = "schema_violation",
        /// Not one JSON document in UTF-8 without repeated names.
        NotJson = "not_json",
        /// The file is missing or empty.
        NoOutput = "no_output",
        /// Too large, too deep, refused text, or not a regular file.
        GuardViolation = "guard_violation",
        /// The runtime ended with another code than 0, or by a signal.
        RuntimeExit = "runtime_exit",
        /// The attempt's or the run's time was over.
        Timeout = "timeout",
        /// Files of the harness changed while the runtime ran.
        Integrity = "integrity",
        /// Nobody wanted the output any more, and the runtime was ended.
        Stopped = "stopped",
    }
}

words! {
    /// What a run of an agent came to.
    pub enum RunStatus {
        /// Its output was published.
        Ok = "ok",
        /// Nothing was published.
        Failed = "failed",
        /// It was not to run.
        Skipped = "skipped",
    }
}

words! {
    /// Why a run came to that.
    pub enum RunReason {
        /// The output is valid.
        Valid = "valid",
        /// No attempt that was allowed gave a valid output.
        Exhausted = "exhausted",
        /// The runtime of the last attempt ended with another code than 0, or by a signal.
        RuntimeExit = "runtime_exit",
        /// An attempt gave the same invalid bytes as the one before.
        SameOutput = "same_output",
        /// The time for all attempts was over.
        TotalTime = "total_time",
        /// The pipeline's attempts or time were spent.
        Budget = "budget",
        /// Files of the harness changed.
        Integrity = "integrity",
        /// A hook before the runtime failed.
        PreHook = "pre_hook",
        /// The sandbox could not be built as it is asked for.
        Sandbox = "sandbox",
        /// The agent is to use tools, and no gateway gave it a token.
        Gateway = "gateway",
        /// Somebody else failed, or the harness was told to end.
        Stopped = "stopped",
        /// A hook before the runtime said that there is nothing to do.
        SkippedByHook = "skipped_by_hook",
        /// Its condition did not hold.
        ConditionFalse = "condition_false",
        /// What its condition looks at is not there.
        PointerMissing = "pointer_missing",
        /// Something it needs was skipped.
        NeedSkipped = "need_skipped",
    }
}

/// Which agent of which run a record is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HarnessSubject {
    /// The record's own name.
    pub receipt_id: ReceiptId,
    /// The run.
    pub run: String,
    /// The pipeline, if the agent ran in one.
    pub pipeline: Option<String>,
    /// The agent.
    pub agent: String,
}

/// Bytes that were read: how many and which.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HarnessOutput {
    /// How many bytes.
    pub bytes: u64,
    /// Their digest.
    pub hash: Digest,
}

/// What the runtime says it used; nobody checks it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HarnessUsage {
    /// Money, in millionths of a US dollar.
    pub cost_usd_micros: Option<u64>,
    /// Tokens read.
    pub input_tokens: Option<u64>,
    /// Tokens written.
    pub output_tokens: Option<u64>,
}

/// What stood around the runtime, as the launcher reported it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HarnessWalls {
    /// How files were confined.
    pub fs_policy: String,
    /// The sandbox's name.
    pub instance: String,
    /// Every wall, in the order of building.
    pub layers: Vec<String>,
    /// How the network was confined.
    pub net_policy: String,
    /// The digest of the plan.
    pub policy_hash: String,
    /// The strength.
    pub tier: String,
}

/// One attempt of an agent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HarnessAttempt {
    /// Whose.
    pub subject: HarnessSubject,
    /// Which, from 1.
    pub attempt: u32,
    /// How many there may be.
    pub max_attempts: u32,
    /// What came of it.
    pub class: AttemptClass,
    /// The guard that was broken.
    pub guard: Option<String>,
    /// The code the runtime ended with; 128 and the signal where one ended it.
    pub exit: Option<u64>,
    /// From before the sandbox was built until everything was judged.
    pub duration_us: u64,
    /// The bytes that were read, if any were.
    pub output: Option<HarnessOutput>,
    /// How many violations were told.
    pub violations: u64,
    /// The digest of what is wrong, in the schema's words: equal for equal mistakes.
    pub violation_fingerprint: Option<Digest>,
    /// The digest of the feedback this attempt was given.
    pub feedback_hash: Option<Digest>,
    /// Secrets that were found: categories and counts, in the order of their names.
    pub findings: Vec<(String, u64)>,
    /// What the runtime says it used.
    pub usage: Option<HarnessUsage>,
    /// What stood around it; `None` where it was never started.
    pub walls: Option<HarnessWalls>,
}

/// What a run of an agent came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HarnessResult {
    /// Whose.
    pub subject: HarnessSubject,
    /// What it came to.
    pub status: RunStatus,
    /// Why.
    pub reason: RunReason,
    /// The class of the last attempt, if there was one.
    pub class: Option<AttemptClass>,
    /// How many attempts were made.
    pub attempts: u32,
    /// The digest of `harness.toml`.
    pub config_hash: Digest,
    /// The digest of the schema.
    pub schema_hash: Digest,
    /// The digest of the prompt.
    pub prompt_hash: Digest,
    /// What was published.
    pub output: Option<HarnessOutput>,
    /// The results whose output this agent was given.
    pub inputs: Vec<ReceiptId>,
    /// From the start of the run to this record.
    pub duration_us: u64,
    /// What all attempts say they used.
    pub usage: Option<HarnessUsage>,
    /// What stood around the last attempt.
    pub walls: Option<HarnessWalls>,
}
