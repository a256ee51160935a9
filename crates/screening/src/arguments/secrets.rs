//! Secrets in what is about to leave: found by the rules that results are searched with, told without a word of them.

use std::fmt::Write as _;

use vocabulary::words;

use crate::detect::{Category, Detector, Excuse, Finding, Joins, Piece, PieceKind, Redact};
use crate::recorded;
use crate::result::FindingNote;
use crate::result::walk::{Literal, LiteralKind, Message, pointers, walk};

words! {
    /// Where something of a client's can stand that leaves toward a server. Nothing else leaves: requests to servers are built
    /// from nothing, headers that repeat arguments are made from those that were looked through, and notifications of clients
    /// end at the gateway.
    pub enum OutgoingPlace {
        /// The arguments of a tool.
        Arguments = "arguments",
        /// Another member of `params`: a URI, a prompt's name and arguments, a reference and an argument to complete, what
        /// an extension or nobody knows.
        Member = "params",
        /// A member of `_meta`.
        Meta = "_meta",
        /// What a client without a session brings for a server that asked, in its next request.
        InputResponses = "inputResponses",
        /// What a client with a session answers to a server that asked.
        AnswerResult = "result",
        /// The error it answers with.
        AnswerError = "error",
        /// A resource that a client without a session subscribes to.
        Subscription = "resourceSubscriptions",
    }
}

/// Something that is about to leave.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    /// Where it stands.
    pub place: OutgoingPlace,
    /// The name of the member it is the value of; empty where there is none.
    pub name: &'a str,
    /// It, as raw JSON that was checked.
    pub raw: &'a [u8],
}

/// What looks like a secret in what is about to leave.
#[must_use]
pub fn secrets(leaving: &[Outgoing<'_>], detector: &Detector, excuse: &Excuse<'_>) -> Vec<FindingNote> {
    let mut found = Vec::new();
    for outgoing in leaving {
        let of_name = outgoing.of_name(detector, excuse);
        found.extend(of_name.into_iter().chain(outgoing.of_value(detector, excuse)));
        if found.len() >= MOST {
            break;
        }
    }
    found.truncate(MOST);
    found
}

impl Outgoing<'_> {
    /// A member of `params` or `_meta` leaves with its name, which may say anything.
    fn of_name(&self, detector: &Detector, excuse: &Excuse<'_>) -> Vec<FindingNote> {
        match self.place {
            OutgoingPlace::Member | OutgoingPlace::Meta => {}
            OutgoingPlace::Arguments
            | OutgoingPlace::InputResponses
            | OutgoingPlace::AnswerResult
            | OutgoingPlace::AnswerError
            | OutgoingPlace::Subscription => return Vec::new(),
        }
        let raw = crate::utterance::literal(self.name);
        let piece = Piece {
            raw: &raw,
            name: None,
            joins: Joins::Nothing,
            kind: PieceKind::Name,
        };
        let found = detector.find(&[piece], excuse);
        let masked = found.iter().filter(|finding| finding.redact == Redact::Mask);
        masked.map(|finding| note(finding, self.beginning(detector))).collect()
    }

    fn of_value(&self, detector: &Detector, excuse: &Excuse<'_>) -> Vec<FindingNote> {
        let raw = self.raw;
        let Ok(walked) = walk(raw, Message::Other) else {
            return Vec::new();
        };
        let literals = walked.literals();
        // A value that is no object is spoken of by the name of its member.
        let own = Some(self.name).filter(|name| !name.is_empty());
        let names: Vec<_> = (0..literals.len()).map(|index| walked.spoken_of(raw, index)).collect();
        let piece = |(literal, name): (&Literal, _)| Piece {
            raw: raw.get(literal.span()).unwrap_or_default(),
            name,
            joins: Joins::Nothing,
            kind: match literal.kind() {
                LiteralKind::Text => PieceKind::Text,
                LiteralKind::Name => PieceKind::Name,
                LiteralKind::Number => PieceKind::Number,
            },
        };
        let names = names.iter().map(|name| name.as_deref().or(own));
        let pieces: Vec<Piece<'_>> = literals.iter().zip(names).map(piece).collect();
        let mut found = detector.find(&pieces, excuse);
        found.retain(|finding| finding.redact == Redact::Mask);
        // Names are the caller's own as much as values are: only those are told that hold nothing.
        let place = |finding: &Finding| {
            let (literal, _) = finding.parts.first()?;
            let start = literals.get(*literal)?.span().start;
            let is_tellable = |name: &str| recorded::is_tellable(name, detector);
            pointers(raw, &[start], &is_tellable).ok()?.pop()
        };
        let told = found.iter().take(MOST).map(|finding| {
            let whole = format!("{}{}", self.beginning(detector), place(finding).unwrap_or_default());
            note(finding, recorded::bounded(&whole))
        });
        told.collect()
    }

    /// Where the pointer to a finding begins: in the arguments of a tool, else in the message.
    fn beginning(&self, detector: &Detector) -> String {
        let name = match self.name {
            name if recorded::is_tellable(name, detector) => name.replace('~', "~0").replace('/', "~1"),
            _ => "<unexpected key>".to_owned(),
        };
        match self.place {
            OutgoingPlace::Arguments => String::new(),
            OutgoingPlace::Member => format!("/{name}"),
            OutgoingPlace::Meta => format!("/_meta/{name}"),
            place @ (OutgoingPlace::InputResponses
            | OutgoingPlace::AnswerResult
            | OutgoingPlace::AnswerError
            | OutgoingPlace::Subscription) => format!("/{place}"),
        }
    }
}

fn note(finding: &Finding, place: String) -> FindingNote {
    FindingNote {
        category: finding.category,
        rule: finding.rule.to_string(),
        place,
        length: finding.parts.iter().map(|(_, range)| range.len()).sum(),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_of_a_pair_is_known_by_its_name_on_the_way_out_too() {
        let detector = Detector::embedded().unwrap();
        let secret = concat!("wJx2lrXUtnFEMI/K7MDENG", "/bPxRfiCYZk3mPqL9s");
        let found = |name: &str| {
            let raw = format!(r#"{{"env":[{{"name":"{name}","value":"{secret}"}}]}}"#);
            let outgoing = Outgoing {
                place: OutgoingPlace::Arguments,
                name: "",
                raw: raw.as_bytes(),
            };
            secrets(&[outgoing], &detector, &Excuse { server: "", tool: "" }).len()
        };
        assert_eq!([found("AWS_SECRET_ACCESS_KEY"), found("COMMIT")], [1, 0]);
        let raw = format!("\"{secret}\"");
        let bare = |name| {
            let place = OutgoingPlace::Member;
            places(&[Outgoing {
                place,
                name,
                raw: raw.as_bytes(),
            }])
            .len()
        };
        assert_eq!([bare("AWS_SECRET_ACCESS_KEY"), bare("commit")], [1, 0]);
    }

    fn token(digit: usize) -> String {
        format!("ptr_agt_{digit:x}{}", "123456789abcdef".repeat(5).split_at(63).0)
    }

    fn places(leaving: &[Outgoing<'_>]) -> Vec<String> {
        let detector = Detector::embedded().unwrap();
        let found = secrets(leaving, &detector, &Excuse { server: "", tool: "" });
        found.into_iter().map(|note| note.place).collect()
    }

    #[test]
    fn every_thing_that_leaves_is_looked_through_and_not_the_first_alone() {
        let (honest, raw) = (b"\"x\"".as_slice(), format!("{{\"a\":\"{}\"}}", token(7)));
        let places_of = |raw: &[u8], other: &[u8]| {
            let [first, second] = [(raw, "uri"), (other, "ref")].map(|(raw, name)| Outgoing {
                place: OutgoingPlace::Member,
                name,
                raw,
            });
            places(&[first, second])
        };
        assert_eq!(places_of(honest, raw.as_bytes()), ["/ref/a"]);
        assert_eq!(places_of(raw.as_bytes(), raw.as_bytes()), ["/uri/a", "/ref/a"]);
    }

    #[test]
    fn a_name_of_a_member_that_is_a_secret_is_found_and_not_told() {
        let name = token(3);
        let places_in = |place| {
            places(&[Outgoing {
                place,
                name: &name,
                raw: b"1",
            }])
        };
        assert_eq!(places_in(OutgoingPlace::Member), ["/<unexpected key>"]);
        assert_eq!(places_in(OutgoingPlace::Meta), ["/_meta/<unexpected key>"]);
        // Elsewhere the name is none of the message's.
        assert_eq!(places_in(OutgoingPlace::Arguments), [""; 0]);
        let name = "a~b/c";
        let raw = format!("\"{}\"", token(5));
        let outgoing = Outgoing {
            place: OutgoingPlace::Meta,
            name,
            raw: raw.as_bytes(),
        };
        assert_eq!(places(&[outgoing]), ["/_meta/a~0b~1c"]);
    }

    #[test]
    fn no_more_than_32_are_told_however_they_are_spread() {
        let tokens: Vec<String> = (0..16).map(|digit| format!("\"{}\"", token(digit))).collect();
        let raw = format!("[{}]", tokens.join(","));
        let outgoing = Outgoing {
            place: OutgoingPlace::AnswerResult,
            name: "",
            raw: raw.as_bytes(),
        };
        assert_eq!(
            [1, 2, 3].map(|times| places(&vec![outgoing; times]).len()),
            [16, 32, 32]
        );
    }

    #[test]
    fn what_was_found_is_counted_by_category() {
        let note = |category| FindingNote {
            category,
            rule: String::new(),
            place: String::new(),
            length: 0,
        };
        let [first, second, ..] = Category::ALL;
        assert_eq!(counted(&[]), "");
        let text = counted(&[note(second), note(first), note(second)]);
        assert_eq!(text, format!("1 {}, 2 {}", first.as_str(), second.as_str()));
    }
}
