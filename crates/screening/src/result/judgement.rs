//! The judgements of the steps, for the record: what was done, where and why, and never a word of what was removed.

use std::fmt::Write as _;

use ledger::{Judgement, ScreeningAct, ScreeningGuard, ScreeningMode, ScreeningStage};
use schema::SchemaFault;

use super::strip::{Class, Counts};
use super::validate::{Guard, Mode, Violation, ViolationOutcome};
use crate::arguments::secrets::counted;
use crate::detect::Category;

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

impl From<&FindingNote> for ledger::FindingNote {
    fn from(found: &FindingNote) -> Self {
        Self {
            category: found.category.as_str().to_owned(),
            rule: found.rule.clone(),
            place: found.place.clone(),
            length: found.length as u64,
        }
    }
}

/// An absolute limit was broken; no mode lets that through.
pub(super) fn limit(guard: ScreeningGuard, message: &str) -> Judgement {
    let mut decision = Judgement::new(
        ScreeningAct::Blocked,
        ScreeningStage::Guard,
        ScreeningMode::Always,
        message.to_owned(),
    );
    decision.guard = Some(guard);
    decision
}

/// So much would have to be edited that nothing is.
pub(super) fn overfull() -> Judgement {
    let message = "tool output blocked by sanitisation policy: more would have to be taken out, masked or marked than is done in one message";
    limit(ScreeningGuard::Edits, message)
}

/// Structured output is not what the tool declared.
pub(super) fn violation(violation: &Violation, mode: Mode) -> Judgement {
    let act = match violation.outcome {
        ViolationOutcome::Forward => ScreeningAct::Warning,
        ViolationOutcome::Withhold => ScreeningAct::Blocked,
    };
    let mode = match mode {
        Mode::Off => ScreeningMode::Off,
        Mode::Warn => ScreeningMode::Warn,
        Mode::Strict => ScreeningMode::Strict,
    };
    Judgement {
        guard: violation.guard.map(|guard| match guard {
            Guard::MaxBytes => ScreeningGuard::MaxBytes,
            Guard::MaxDepth => ScreeningGuard::MaxDepth,
        }),
        path: Some(violation.path.clone()),
        keyword: violation
            .keyword
            .clone()
            .or_else(|| Some(violation.kind.as_str().to_owned())),
        schema_hash: Some(violation.schema_hash),
        ..Judgement::new(act, ScreeningStage::Validation, mode, violation.message.clone())
    }
}

/// Something was found, and this was done about it.
pub(super) fn found(
    act: ScreeningAct,
    mode: ScreeningMode,
    keyword: Option<&str>,
    mut findings: Vec<FindingNote>,
) -> Judgement {
    let counts = counted(&findings);
    let message = match (act, keyword) {
        (ScreeningAct::Blocked, None) => format!("tool output blocked by sanitisation policy: {counts}"),
        (ScreeningAct::Blocked, Some(word)) => format!("tool output blocked by sanitisation policy: {word}: {counts}"),
        (ScreeningAct::Redacted, _) => format!("secrets were masked: {counts}"),
        (ScreeningAct::Warning | ScreeningAct::Stripped, _) => format!("let through with findings: {counts}"),
    };
    findings.truncate(MOST_NOTED);
    Judgement {
        keyword: keyword.map(str::to_owned),
        findings: findings.iter().map(ledger::FindingNote::from).collect(),
        ..Judgement::new(act, ScreeningStage::Detection, mode, message)
    }
}

/// Characters were taken out.
pub(super) fn stripped(counts: Counts) -> Judgement {
    let stripped = listed(counts);
    let mut message = "characters were taken out: ".to_owned();
    for (index, (class, count)) in stripped.iter().enumerate() {
        let comma = if index > 0 { ", " } else { "" };
        // Writing to a string cannot fail.
        let _ = write!(message, "{comma}{count} {class}");
    }
    Judgement {
        stripped,
        ..Judgement::new(
            ScreeningAct::Stripped,
            ScreeningStage::Strip,
            ScreeningMode::Strip,
            message,
        )
    }
}

/// Characters stay where nothing may be edited.
pub(super) fn left_in_place(counts: Counts) -> Judgement {
    let message = "characters that would be taken out of text stay in a block that is never edited".to_owned();
    Judgement {
        stripped: listed(counts),
        ..Judgement::new(
            ScreeningAct::Warning,
            ScreeningStage::Strip,
            ScreeningMode::Strip,
            message,
        )
    }
}

/// Members under our own name were taken out of `_meta`.
pub(super) fn forged(members: usize) -> Judgement {
    let message = "members of `_meta` that only the gateway may write were taken out".to_owned();
    Judgement {
        stripped: vec![("forged_meta", members as u64)],
        ..Judgement::new(
            ScreeningAct::Stripped,
            ScreeningStage::Meta,
            ScreeningMode::Always,
            message,
        )
    }
}

/// Members by which an error would be taken for a refusal of ours were taken out of its `data`.
pub(super) fn feigned(members: usize) -> Judgement {
    let message = "members of an error's `data` that make it look like a refusal of the gateway were taken out";
    Judgement {
        stripped: vec![("forged_refusal", members as u64)],
        ..Judgement::new(
            ScreeningAct::Stripped,
            ScreeningStage::Refusal,
            ScreeningMode::Always,
            message.to_owned(),
        )
    }
}

/// A definition holds a schema that cannot be used.
pub(crate) fn unusable_schema(fault: &SchemaFault) -> Judgement {
    let message = format!("the definition holds a schema that cannot be used: {fault}");
    let mut decision = Judgement::new(
        ScreeningAct::Blocked,
        ScreeningStage::Definition,
        ScreeningMode::Always,
        message,
    );
    decision.keyword = Some("uncompilable_schema".to_owned());
    decision
}

/// A definition holds what no reader would see.
pub(super) fn definition(counts: Counts) -> Judgement {
    let message = "the definition holds characters that nobody sees or a terminal would obey".to_owned();
    Judgement {
        stripped: listed(counts),
        ..Judgement::new(
            ScreeningAct::Blocked,
            ScreeningStage::Definition,
            ScreeningMode::Always,
            message,
        )
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
