//! The chokepoint: everything a server sends becomes a [`ScreenedResult`] here, or is withheld.
//! What comes in is a trait (ADR 0002); what is edited and what withholds is told in ADR 0025.

pub mod decision;
pub mod edit;
mod guard;
pub(crate) mod judgement;
mod pipeline;
pub mod redact;
pub mod rules;
mod search;
pub mod spotlight;
pub mod strip;
pub mod truncate;
pub mod validate;
pub mod walk;

use bytes::Bytes;
use ledger::{ScreeningAct, ScreeningGuard};
use vocabulary::ReasonCode;
use vocabulary::json::scanned::Scanned;

use guard::{Breach, Seen};

pub(crate) use pipeline::may_be_forged;

pub use decision::{Decision, Screening};
pub use judgement::FindingNote;
pub use rules::{Origin, OutputTrust, ResponseAction, Rules, Sanitisation, Spotlight, Truncation};

/// Something a server sent: the raw span of a JSON-RPC `result`, untrusted.
pub trait Received {
    /// What came.
    fn into_raw(self) -> Raw;
}

/// The bytes of a server, with or without the evidence that they were read through.
#[derive(Clone, Debug)]
pub enum Raw {
    /// Nobody looked at them yet.
    Unread(Bytes),
    /// They are well-formed, and their depth is known.
    Scanned(Scanned),
}

impl Raw {
    /// How many bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.bytes().len()
    }

    /// The bytes, untrusted.
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        match self {
            Self::Unread(bytes) => bytes,
            Self::Scanned(scanned) => scanned.bytes(),
        }
    }

    /// The bytes, untrusted.
    fn into_bytes(self) -> Bytes {
        match self {
            Self::Unread(bytes) => bytes,
            Self::Scanned(scanned) => scanned.into_bytes(),
        }
    }
}

impl Received for Raw {
    fn into_raw(self) -> Raw {
        self
    }
}

/// What was screened can be screened again, by other rules.
impl Received for ScreenedResult {
    fn into_raw(self) -> Raw {
        Raw::Unread(self.bytes)
    }
}

/// Absolute limits on any message of a server (`[limits] result`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Guards {
    /// Bytes.
    pub max_bytes: usize,
    /// Nesting: a scalar is 1, `{"a":1}` is 2.
    pub max_depth: usize,
}

/// A result that may reach a client.
///
/// Only [`screen`] makes one. It cannot be built elsewhere:
///
/// ```compile_fail,E0451
/// use portreeve_screening::result::ScreenedResult;
/// fn forge(honest: ScreenedResult, other: bytes::Bytes) -> ScreenedResult {
///     ScreenedResult { bytes: other, ..honest }
/// }
/// ```
///
/// while what was screened can be read:
///
/// ```
/// use portreeve_screening::result::ScreenedResult;
/// fn honest(screened: ScreenedResult, other: bytes::Bytes) -> (ScreenedResult, bool) {
///     let same = *screened.bytes() == other;
///     (screened, same)
/// }
/// ```
#[derive(Debug)]
pub struct ScreenedResult {
    bytes: Bytes,
    tool_error: ToolError,
    result_type: Said,
    kept: Vec<Kept>,
    acts: Vec<ScreeningAct>,
    fences: usize,
}

/// A text that was cut: the whole of it, sanitised, and the key the caller was given.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Kept {
    /// The key.
    pub key: String,
    /// The text.
    pub whole: String,
    /// Where its pages lie.
    pub index: truncate::Index,
}

/// What a result says of its type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Said {
    /// Nothing.
    Nothing,
    /// That it is complete.
    Complete,
    /// Something else, or the same in another spelling.
    Otherwise,
}

/// Whether a result calls itself an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ToolError {
    No,
    Yes,
}

impl ScreenedResult {
    fn new(bytes: Bytes, seen: Seen, kept: Vec<Kept>) -> Self {
        let tool_error = if seen.is_error { ToolError::Yes } else { ToolError::No };
        Self {
            bytes,
            tool_error,
            result_type: seen.result_type,
            kept,
            acts: Vec::new(),
            fences: 0,
        }
    }

    /// How many texts of it were fenced.
    #[must_use]
    pub fn fences(&self) -> usize {
        self.fences
    }

    /// What was done about it, for the receipt.
    #[must_use]
    pub fn acts(&self) -> &[ScreeningAct] {
        &self.acts
    }

    /// What was cut out of it, to be kept for whoever reads on.
    pub fn take_kept(&mut self) -> Vec<Kept> {
        std::mem::take(&mut self.kept)
    }

    /// The bytes to forward.
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// A piece of what was screened is screened; `None` for bytes from anywhere else.
    #[must_use]
    pub fn part(&self, piece: &Bytes) -> Option<Self> {
        let (whole, part) = (self.bytes.as_ptr_range(), piece.as_ptr_range());
        (whole.start <= part.start && part.end <= whole.end).then(|| Self {
            bytes: piece.clone(),
            tool_error: ToolError::No,
            result_type: Said::Nothing,
            kept: Vec::new(),
            acts: Vec::new(),
            fences: 0,
        })
    }

    /// What `resultType` at the top of the result says.
    #[must_use]
    pub fn result_type(&self) -> Said {
        self.result_type
    }

    /// Whether the tool reports that it failed (`isError: true` at the top of the result).
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.tool_error == ToolError::Yes
    }
}

/// A result that is not passed on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Withheld {
    /// The reason for the receipt.
    pub code: ReasonCode,
    /// A sentence for the caller; nothing of the payload in it.
    pub message: String,
}

/// Screens what a server sent. On the clean path the very bytes that came are given on.
pub fn screen<R: Received>(raw: R, origin: &Origin<'_>, rules: &Rules) -> Screening {
    let raw = raw.into_raw();
    pipeline::Run::new(origin, rules, &raw).through(raw)
}

/// What a broken limit leads to, and its name.
fn breached(breach: Breach, guards: &Guards) -> (Withheld, Option<ScreeningGuard>) {
    let (cause, guard) = match breach {
        Breach::TooLarge => (
            format!("the result has more than {} bytes", guards.max_bytes),
            ScreeningGuard::ResultMaxBytes,
        ),
        Breach::TooDeep => (
            format!("the result is nested deeper than {} levels", guards.max_depth),
            ScreeningGuard::ResultMaxDepth,
        ),
        Breach::Malformed => return (unreadable(), None),
    };
    let withheld = Withheld {
        code: ReasonCode::WithheldSchema,
        message: format!("output schema validation failed: {cause}"),
    };
    (withheld, Some(guard))
}

/// The member that holds structured output.
const STRUCTURED: &str = "structuredContent";

fn unreadable() -> Withheld {
    Withheld {
        code: ReasonCode::ErrorUpstream,
        message: "the result is not well-formed JSON".to_owned(),
    }
}

#[cfg(test)]
mod tests;
