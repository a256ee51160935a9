//! Names that strangers write, before they stand in a record: looked through for secrets, without what a terminal would
//! obey, and short.
//! ADR 0061: what leaves and what is recorded is looked through in one place each.

use std::borrow::Cow;
use std::sync::{Arc, PoisonError, RwLock};

use crate::detect::{Detector, Excuse, Joins, Piece, PieceKind, Redact};
use crate::utterance;

/// A name as it can be recorded: secrets in it are masked, and at most 128 bytes of it are kept.
#[must_use]
pub fn recordable(name: &str) -> String {
    // What is taken out must not bring together what stood apart.
    let plain: String = name.chars().filter(|letter| !letter.is_control()).collect();
    bounded(&without_secrets(&plain))
}

/// A name of which somebody else took care that it is short: secrets in it are masked.
#[must_use]
pub fn without_secrets(name: &str) -> Cow<'_, str> {
    let Some(detector) = utterance::embedded() else {
        return MASKED.into();
    };
    if is_foreseen(name) {
        return MASKED.into();
    }
    if !holds_secret(name, detector) {
        return name.into();
    }
    let masked = utterance::presentable(name, None).filter(|masked| !holds_secret(masked, detector));
    // What only looks like a secret once it is taken apart has no place to put a mask over.
    masked.map_or_else(|| MASKED.into(), Cow::from)
}

/// The operator's rules, which a name is held to beside ours: what they refuse is not kept either.
static FORESEEN: RwLock<Option<Arc<Detector>>> = RwLock::new(None);

/// From now on names are looked through by these rules, too.
pub fn foresee(rules: Option<Arc<Detector>>) {
    *FORESEEN.write().unwrap_or_else(PoisonError::into_inner) = rules;
}

fn is_foreseen(name: &str) -> bool {
    let rules = FORESEEN.read().unwrap_or_else(PoisonError::into_inner).clone();
    rules.is_some_and(|rules| {
        holds_secret(name, &rules) && utterance::embedded().is_none_or(|ours| !holds_secret(name, ours))
    })
}

/// Whether a name can be told as it is: short, plainly seen, and no secret.
pub(crate) fn is_tellable(name: &str, detector: &Detector) -> bool {
    let plain = |letter: char| matches!(letter, ' '..='~') || letter.is_alphanumeric();
    name.len() <= LONGEST_TOLD
        && name.chars().all(plain)
        && !holds_secret(name, detector)
        && utterance::embedded().is_some_and(|ours| !holds_secret(name, ours))
}

fn holds_secret(name: &str, detector: &Detector) -> bool {
    let raw = utterance::literal(name);
    let piece = Piece {
        raw: &raw,
        name: None,
        joins: Joins::Nothing,
        kind: PieceKind::Text,
    };
    let nobody = Excuse { server: "", tool: "" };
    let found = detector.find(&[piece], &nobody);
    found.iter().any(|finding| finding.redact == Redact::Mask)
}

/// At most 128 bytes, no control characters.
pub(crate) fn bounded(name: &str) -> String {
    let mut kept = String::with_capacity(name.len().min(LONGEST));
    for letter in name.chars().filter(|letter| !letter.is_control()) {
        if kept.len() + letter.len_utf8() > LONGEST {
            break;
        }
        kept.push(letter);
    }
    kept
}

const LONGEST: usize = 128;
const LONGEST_TOLD: usize = 64;
const MASKED: &str = "[REDACTED]";

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = concat!("gh", "p_R7kT2mQ9vX4bN8cL1wZ6yH3jF5dS0gAaPpEe");

    #[test]
    fn a_name_is_recorded_as_it_is_where_it_holds_no_secret() {
        assert_eq!(recordable("file:///srv/a%20b?x=1#é"), "file:///srv/a%20b?x=1#é");
        assert_eq!(recordable("a\u{1b}[31m\nb"), "a[31mb");
        assert_eq!(recordable(&"é".repeat(100)).len(), 128);
    }

    #[test]
    fn a_secret_is_masked_wherever_it_stands_in_a_name() {
        assert_eq!(recordable(TOKEN), "[REDACTED:api_token]");
        assert_eq!(
            recordable(&format!("https://x.example/?token={TOKEN}&y=1")),
            "https://x.example/?token=[REDACTED:api_token]&y=1"
        );
        // Where the cut would have left half of it.
        let (head, tail) = TOKEN.split_at(9);
        let late = recordable(&format!("{}{TOKEN}", "x ".repeat(55)));
        assert!(!late.contains(head), "{late}");
        assert_eq!(recordable(&format!("{head}\u{200b}{tail}")), "[REDACTED:api_token]");
        for between in ["\t", "\n", "\r", "\u{1}", "\u{7f}"] {
            let name = recordable(&format!("{head}{between}{tail}"));
            assert_eq!(name, "[REDACTED:api_token]", "{between:?}");
        }
    }
}
