//! A name that a caller wrote and the tool does not know, made fit to be told back: escaped, cut, and masked if it looks
//! like a secret. What it says goes to the caller alone, who wrote it.

use std::fmt::Write as _;

use schema::ToldName;

use crate::detect::{Excuse, Joins, Piece, PieceKind, Redact};
use crate::utterance;

/// So many characters of a name are told.
const LONGEST: usize = 64;

/// The name as it can be told.
pub(super) fn told(name: &str) -> ToldName {
    let Some(detector) = utterance::embedded() else {
        return ToldName::Masked("[REDACTED]".to_owned());
    };
    let raw = utterance::literal(name);
    let piece = |kind| Piece {
        raw: &raw,
        name: None,
        joins: Joins::Nothing,
        kind,
    };
    let excuse = Excuse { server: "", tool: "" };
    let mut found = detector.find(&[piece(PieceKind::Text)], &excuse);
    found.extend(detector.find(&[piece(PieceKind::Name)], &excuse));
    let secret = found.iter().find(|finding| finding.redact == Redact::Mask);
    match secret {
        Some(finding) => ToldName::Masked(format!("[REDACTED:{}]", finding.category.as_str())),
        None => ToldName::Shown(escaped(name)),
    }
}

/// Letters, digits and what is plainly seen stay; everything else is spelled out.
pub(super) fn escaped(name: &str) -> String {
    let mut shown = String::new();
    for (count, letter) in name.chars().enumerate() {
        if count == LONGEST {
            shown.push('…');
            break;
        }
        match letter {
            '"' | '\\' => shown.extend(['\\', letter]),
            ' '..='~' => shown.push(letter),
            _ if letter.is_alphanumeric() => shown.push(letter),
            // Writing to a string cannot fail.
            _ => drop(write!(shown, "\\u{{{:x}}}", u32::from(letter))),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(name: &str) -> String {
        match told(name) {
            ToldName::Shown(name) | ToldName::Masked(name) => name,
        }
    }

    #[test]
    fn a_name_is_told_as_it_was_written_as_far_as_it_can_be_shown() {
        assert_eq!(shown("file path/é"), "file path/é");
        assert_eq!(
            shown("a\"b\\\n\u{1b}[31m\u{202e}\u{200b}"),
            "a\\\"b\\\\\\u{a}\\u{1b}[31m\\u{202e}\\u{200b}"
        );
        assert_eq!(shown(&"x".repeat(64)), "x".repeat(64));
        assert_eq!(shown(&"é".repeat(65)), format!("{}…", "é".repeat(64)));
    }

    #[test]
    fn a_secret_is_masked_also_where_its_end_would_have_been_cut_off() {
        let token = concat!("gh", "p_R7kT2mQ9vX4bN8cL1wZ6yH3jF5dS0gAaPpEe");
        assert_eq!(told(token), ToldName::Masked("[REDACTED:api_token]".to_owned()));
        let late = format!("{} {token}", "x".repeat(40));
        assert_eq!(told(&late), ToldName::Masked("[REDACTED:api_token]".to_owned()));
    }
}
