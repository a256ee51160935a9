//! Secrets in what is about to leave: found by the rules that results are searched with, told without a word of them.

use std::fmt::Write as _;

use crate::detect::{Category, Detector, Excuse, Joins, Piece, PieceKind, Redact};
use crate::result::FindingNote;
use crate::result::walk::{LiteralKind, Message, pointers, walk};

/// What looks like a secret in `raw`, arguments or params that were checked.
#[must_use]
pub fn secrets(raw: &[u8], detector: &Detector, excuse: &Excuse<'_>) -> Vec<FindingNote> {
    let Ok(walked) = walk(raw, Message::Other) else {
        return Vec::new();
    };
    let literals = walked.literals();
    let names: Vec<_> = literals.iter().map(|literal| literal.name(raw)).collect();
    let piece = |(literal, name): (&crate::result::walk::Literal, _)| Piece {
        raw: raw.get(literal.span()).unwrap_or_default(),
        name,
        joins: Joins::Nothing,
        kind: match literal.kind() {
            LiteralKind::Text => PieceKind::Text,
            LiteralKind::Name => PieceKind::Name,
            LiteralKind::Number => PieceKind::Number,
        },
    };
    let pieces: Vec<Piece<'_>> = literals
        .iter()
        .zip(names.iter().map(Option::as_deref))
        .map(piece)
        .collect();
    let mut found = detector.find(&pieces, excuse);
    found.retain(|finding| finding.redact == Redact::Mask);
    let place = |finding: &crate::detect::Finding| {
        let (literal, _) = finding.parts.first()?;
        let start = literals.get(*literal)?.span().start;
        // Names of arguments are the tool's own, or the caller's: neither is a server's to choose.
        pointers(raw, &[start], &|_| true).ok()?.pop()
    };
    let note = |finding: &crate::detect::Finding| FindingNote {
        category: finding.category,
        rule: finding.rule.to_string(),
        place: place(finding).unwrap_or_default(),
        length: finding.parts.iter().map(|(_, range)| range.len()).sum(),
    };
    found.iter().take(MOST).map(note).collect()
}

/// More are not told.
const MOST: usize = 32;

/// `2 api_token, 1 private_key`
#[must_use]
pub fn counted(findings: &[FindingNote]) -> String {
    let mut text = String::new();
    for category in Category::ALL {
        let count = findings.iter().filter(|finding| finding.category == category).count();
        if count > 0 {
            let comma = if text.is_empty() { "" } else { ", " };
            // Writing to a string cannot fail.
            let _ = write!(text, "{comma}{count} {}", category.as_str());
        }
    }
    text
}
