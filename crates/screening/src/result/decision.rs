//! What the chokepoint decided, for the record: what was done, where and why, and never a word of what was removed.

use std::fmt::Write as _;

use schema::SchemaFault;
use vocabulary::{Digest, ReasonCode};

use super::strip::{Class, Counts};
use super::validate::{Guard, Mode, Violation, ViolationOutcome};
use super::{ScreenedResult, Withheld};
use crate::arguments::secrets::counted;
use crate::detect::Category;

/// One decision; each leaves one record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Decision {
    /// What was done.
    pub act: Act,
    /// The step that decided.
    pub stage: &'static str,
    /// The setting it decided by.
    pub mode: &'static str,
    /// The guard that was broken.
    pub guard: Option<&'static str>,
    /// Where, by names the schema knows.
    pub path: Option<String>,
    /// The keyword of the schema, or the word for why nothing could be done.
    pub keyword: Option<String>,
    /// The schema.
    pub schema_hash: Option<Digest>,
    /// What was found.
    pub findings: Vec<FindingNote>,
    /// What was taken out: names in order, and counts.
    pub stripped: Vec<(&'static str, u64)>,
    /// A sentence for people.
    pub message: String,
}

/// What was done about a message.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Act {
    /// It was withheld.
    Blocked,
    /// It was let through although something is wrong with it.
    Warning,
    /// Secrets in it were masked.
    Redacted,
    /// Something was taken out of it.
    Stripped,
}

impl Act {
    /// The word in records.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Blocked => "blocked",
            Self::Warning => "warning",
            Self::Redacted => "redacted",
            Self::Stripped => "stripped",
        }
    }
}

/// A finding without the text that was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FindingNote {
    /// What it is.
    pub category: Category,
    /// The rule.
    pub rule: String,
    /// Where, by known names.
    pub place: String,
    /// How many bytes.
    pub length: usize,
}

/// More are counted, not listed: a record is of bounded size whatever a server sends.
pub(super) const MOST_NOTED: usize = 256;

/// What screening came to. The message itself is given out against a receipt for every decision.
#[must_use]
#[derive(Debug)]
pub struct Screening {
    outcome: Result<ScreenedResult, Withheld>,
    decisions: Vec<Decision>,
}

impl Screening {
    pub(super) fn new(outcome: Result<ScreenedResult, Withheld>, decisions: Vec<Decision>) -> Self {
        Self { outcome, decisions }
    }

    /// Nothing of it is let through, for this one reason.
    pub(crate) fn withheld(decision: Decision) -> Self {
        let withheld = Withheld {
            code: ReasonCode::WithheldSanitisation,
            message: decision.message.clone(),
        };
        Self::new(Err(withheld), vec![decision])
    }

    /// What is to be recorded first.
    #[must_use]
    pub fn decisions(&self) -> &[Decision] {
        &self.decisions
    }

    /// The message, once every decision about it has its receipt.
    ///
    /// # Errors
    /// When it is withheld, and when a receipt is missing.
    pub fn release<Receipt>(self, receipts: &[Receipt]) -> Result<ScreenedResult, Withheld> {
        if receipts.len() < self.decisions.len() {
            return Err(Withheld {
                code: ReasonCode::DenyReceiptUnavailable,
                message: "the gateway cannot record what it decided about the result, so nothing is released"
                    .to_owned(),
            });
        }
        let acts = self.acts();
        self.outcome.map(|result| ScreenedResult { acts, ..result })
    }

    fn acts(&self) -> Vec<Act> {
        let mut acts: Vec<Act> = self.decisions.iter().map(|decision| decision.act).collect();
        acts.sort_unstable();
        acts.dedup();
        acts
    }
}

impl Decision {
    fn of(act: Act, stage: &'static str, mode: &'static str, message: String) -> Self {
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

    /// An absolute limit was broken; no mode lets that through.
    pub(super) fn limit(guard: &'static str, message: &str) -> Self {
        let mut decision = Self::of(Act::Blocked, "guard", "always", message.to_owned());
        decision.guard = Some(guard);
        decision
    }

    /// So much would have to be edited that nothing is.
    pub(super) fn overfull() -> Self {
        let message = "tool output blocked by sanitisation policy: more would have to be taken out, masked or marked than is done in one message";
        Self::limit("edits", message)
    }

    /// Structured output is not what the tool declared.
    pub(super) fn violation(violation: &Violation, mode: Mode) -> Self {
        let act = match violation.outcome {
            ViolationOutcome::Forward => Act::Warning,
            ViolationOutcome::Withhold => Act::Blocked,
        };
        let mode = match mode {
            Mode::Off => "off",
            Mode::Warn => "warn",
            Mode::Strict => "strict",
        };
        Self {
            guard: violation.guard.map(Guard::as_str),
            path: Some(violation.path.clone()),
            keyword: violation
                .keyword
                .clone()
                .or_else(|| Some(violation.kind.as_str().to_owned())),
            schema_hash: Some(violation.schema_hash),
            ..Self::of(act, "validation", mode, violation.message.clone())
        }
    }

    /// Something was found, and this was done about it.
    pub(super) fn found(act: Act, mode: &'static str, keyword: Option<&str>, mut findings: Vec<FindingNote>) -> Self {
        let counts = counted(&findings);
        let message = match (act, keyword) {
            (Act::Blocked, None) => format!("tool output blocked by sanitisation policy: {counts}"),
            (Act::Blocked, Some(word)) => format!("tool output blocked by sanitisation policy: {word}: {counts}"),
            (Act::Redacted, _) => format!("secrets were masked: {counts}"),
            (Act::Warning | Act::Stripped, _) => format!("let through with findings: {counts}"),
        };
        findings.truncate(MOST_NOTED);
        Self {
            keyword: keyword.map(str::to_owned),
            findings,
            ..Self::of(act, "detection", mode, message)
        }
    }

    /// Characters were taken out.
    pub(super) fn stripped(counts: Counts) -> Self {
        let stripped = listed(counts);
        let mut message = "characters were taken out: ".to_owned();
        for (index, (class, count)) in stripped.iter().enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            // Writing to a string cannot fail.
            let _ = write!(message, "{comma}{count} {class}");
        }
        Self {
            stripped,
            ..Self::of(Act::Stripped, "strip", "strip", message)
        }
    }

    /// Characters stay where nothing may be edited.
    pub(super) fn left_in_place(counts: Counts) -> Self {
        let message = "characters that would be taken out of text stay in a block that is never edited".to_owned();
        Self {
            stripped: listed(counts),
            ..Self::of(Act::Warning, "strip", "strip", message)
        }
    }

    /// Members under our own name were taken out of `_meta`.
    pub(super) fn forged(members: usize) -> Self {
        let message = "members of `_meta` that only the gateway may write were taken out".to_owned();
        Self {
            stripped: vec![("forged_meta", members as u64)],
            ..Self::of(Act::Stripped, "meta", "always", message)
        }
    }

    /// Members by which an error would be taken for a refusal of ours were taken out of its `data`.
    pub(super) fn feigned(members: usize) -> Self {
        let message = "members of an error's `data` that make it look like a refusal of the gateway were taken out";
        Self {
            stripped: vec![("forged_refusal", members as u64)],
            ..Self::of(Act::Stripped, "refusal", "always", message.to_owned())
        }
    }

    /// A definition holds a schema that cannot be used.
    pub(crate) fn unusable_schema(fault: &SchemaFault) -> Self {
        let message = format!("the definition holds a schema that cannot be used: {fault}");
        let mut decision = Self::of(Act::Blocked, "definition", "always", message);
        decision.keyword = Some("uncompilable_schema".to_owned());
        decision
    }

    /// A definition holds what no reader would see.
    pub(super) fn definition(counts: Counts) -> Self {
        let message = "the definition holds characters that nobody sees or a terminal would obey".to_owned();
        Self {
            stripped: listed(counts),
            ..Self::of(Act::Blocked, "definition", "always", message)
        }
    }
}

fn listed(counts: Counts) -> Vec<(&'static str, u64)> {
    let all = [
        (Class::Ansi, counts.ansi),
        (Class::Bidi, counts.bidi),
        (Class::C0C1, counts.c0c1),
        (Class::ZeroWidth, counts.zero_width),
    ];
    let some = all.into_iter().filter(|(_, count)| *count > 0);
    some.map(|(class, count)| (class.as_str(), count as u64)).collect()
}
