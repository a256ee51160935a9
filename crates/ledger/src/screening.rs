//! What is recorded of screening: what was done about a message, by which step, and why. Nothing of what was found or
//! removed belongs in any of it.

use vocabulary::{Digest, ReceiptId, words};

words! {
    /// What was done about a message.
    #[derive(PartialOrd, Ord)]
    pub enum ScreeningAct {
        /// It was withheld.
        Blocked = "blocked",
        /// It was let through although something is wrong with it.
        Warning = "warning",
        /// Secrets in it were masked.
        Redacted = "redacted",
        /// Something was taken out of it.
        Stripped = "stripped",
    }
}

words! {
    /// The step that decided.
    pub enum ScreeningStage {
        /// Absolute limits.
        Guard = "guard",
        /// Structured output against its schema.
        Validation = "validation",
        /// The search for secrets.
        Detection = "detection",
        /// Characters that nobody sees or a terminal would obey.
        Strip = "strip",
        /// Members of `_meta` under our own name.
        Meta = "meta",
        /// Errors that look like a refusal of ours.
        Refusal = "refusal",
        /// What models and people read before a call.
        Definition = "definition",
        /// What a client sends.
        Arguments = "arguments",
    }
}

words! {
    /// The setting that was decided by.
    pub enum ScreeningMode {
        /// No setting changes it.
        Always = "always",
        /// Validation is off.
        Off = "off",
        /// Let through and recorded.
        Warn = "warn",
        /// Withheld where it does not conform.
        Strict = "strict",
        /// Secrets are masked.
        Redact = "redact",
        /// Secrets are not let through.
        Block = "block",
        /// Characters are taken out.
        Strip = "strip",
    }
}

words! {
    /// A limit that was broken.
    pub enum ScreeningGuard {
        /// Bytes of structured output.
        MaxBytes = "max_bytes",
        /// Depth of structured output.
        MaxDepth = "max_depth",
        /// Bytes of any message.
        ResultMaxBytes = "limits.result.max_bytes",
        /// Depth of any message.
        ResultMaxDepth = "limits.result.max_depth",
        /// Edits of one message.
        Edits = "edits",
        /// Messages beside one answer that could not be passed on as they came.
        Messages = "messages",
    }
}

/// What was decided about one message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Judgement {
    /// What was done.
    pub act: ScreeningAct,
    /// The step that decided.
    pub stage: ScreeningStage,
    /// The setting it decided by.
    pub mode: ScreeningMode,
    /// The guard that was broken.
    pub guard: Option<ScreeningGuard>,
    /// Where, by names the schema knows.
    pub path: Option<String>,
    /// The keyword of the schema, or the word for why nothing could be done.
    pub keyword: Option<String>,
    /// The schema.
    pub schema_hash: Option<Digest>,
    /// What was found.
    pub findings: Vec<FindingNote>,
    /// What was taken out: classes and counts, in the order of their names.
    pub stripped: Vec<(&'static str, u64)>,
    /// A sentence for people.
    pub message: String,
}

impl Judgement {
    /// One without particulars.
    #[must_use]
    pub fn new(act: ScreeningAct, stage: ScreeningStage, mode: ScreeningMode, message: String) -> Self {
        Self {
            act,
            stage,
            mode,
            guard: None,
            path: None,
            keyword: None,
            schema_hash: None,
            findings: Vec::new(),
            stripped: Vec::new(),
            message,
        }
    }
}

/// A finding, without the text that was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FindingNote {
    /// Its category.
    pub category: String,
    /// The rule.
    pub rule: String,
    /// Where, by known names.
    pub place: String,
    /// How many bytes.
    pub length: u64,
}

/// What a judgement is about: the request, and where the message came from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScreeningSubject {
    /// The request it belongs to.
    pub receipt_id: Option<ReceiptId>,
    /// Who asked.
    pub principal: Option<String>,
    /// The digest of the client's session.
    pub session: Option<Digest>,
    /// The server that sent it.
    pub server_id: String,
    /// The tool, or the name of what else was asked for.
    pub tool_name: Option<String>,
}

/// The record of a judgement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScreeningDecision {
    /// About what.
    pub subject: ScreeningSubject,
    /// What was decided.
    pub judgement: Judgement,
}

impl ScreeningDecision {
    /// What was decided, and about what.
    #[must_use]
    pub fn about(subject: ScreeningSubject, judgement: Judgement) -> Self {
        Self { subject, judgement }
    }
}
