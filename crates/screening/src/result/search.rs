//! Secrets of one message: its literals as pieces for the detector, and what is found as places in the message.

use std::borrow::Cow;
use std::ops::Range;

use bytes::Bytes;

use super::STRUCTURED;
use super::edit::units::decoded;
use super::judgement::{FindingNote, MOST_NOTED};
use super::pipeline::Run;
use super::redact::Hit;
use super::validate::Declared;
use super::walk::{Literal, LiteralKind, Message, Scanned, Walked, pointers};
use crate::detect::{
    ARMOUR, Detector, Excuse, Finding, Joins, Piece, PieceKind, Redact, Severity, Work, decode_base64,
};

/// A message to look through.
pub(super) struct Secrets<'a> {
    pub(super) run: &'a Run<'a>,
    pub(super) bytes: &'a Bytes,
    pub(super) walked: &'a Walked,
}

/// A finding, by the literals it lies in.
pub(super) struct Found {
    finding: Finding,
    parts: Vec<(usize, Range<usize>)>,
}

impl Found {
    pub(super) fn is_critical(&self) -> bool {
        self.finding.severity == Severity::Critical
    }

    pub(super) fn is_masked(&self) -> bool {
        self.finding.redact == Redact::Mask
    }

    pub(super) fn hit(&self) -> Hit<'_> {
        Hit {
            parts: self.parts.clone(),
            category: self.finding.category.as_str(),
        }
    }
}

/// A search through a message.
struct Look<'a> {
    detector: &'a Detector,
    /// What its rules may still read, over all of the message.
    work: Work,
    found: Vec<Found>,
}

impl Secrets<'_> {
    pub(super) fn find(&self, detector: &Detector) -> Vec<Found> {
        let mut look = Look {
            detector,
            work: Work::of(self.bytes.len()),
            found: Vec::new(),
        };
        let mut gathered = Vec::with_capacity(GATHERED);
        self.in_order(|index, joins| {
            if joins == Joins::Nothing && gathered.len() >= GATHERED {
                self.look(&gathered, &mut look);
                gathered.clear();
            }
            gathered.push((index, joins));
        });
        self.look(&gathered, &mut look);
        self.inside(&mut look);
        look.found
    }

    /// Looks into files. What is found in one lies in all of it: a file is let through or not.
    fn inside(&self, look: &mut Look<'_>) {
        let Look { detector, work, found } = look;
        let literals = self.walked.literals().iter().enumerate();
        for (index, literal) in literals.filter(|(_, literal)| self.walked.scanned(literal) == Scanned::Inside) {
            let raw = self.bytes.get(literal.span()).unwrap_or_default();
            let file = decode_base64(decoded(raw).as_bytes());
            // What is no text was perhaps never encoded.
            let written = std::str::from_utf8(&file).is_err().then_some(raw);
            for raw in std::iter::once(file.as_slice()).chain(written) {
                let piece = Piece {
                    raw,
                    name: None,
                    joins: Joins::Nothing,
                    kind: PieceKind::Text,
                };
                let parts = vec![(index, 0..literal.span().len())];
                let findings = detector.find_with(&[piece], &self.excuse(), work);
                found.extend(findings.into_iter().map(|finding| Found {
                    finding,
                    parts: parts.clone(),
                }));
            }
        }
    }

    fn excuse(&self) -> Excuse<'_> {
        Excuse {
            server: self.run.origin.server,
            tool: self.tool(),
        }
    }

    /// Looks through some literals.
    fn look(&self, some: &[(usize, Joins)], look: &mut Look<'_>) {
        let Look { detector, work, found } = look;
        let names: Vec<Option<Cow<'_, str>>> = some.iter().map(|(index, _)| self.name(*index)).collect();
        let piece = |((index, joins), name): (&(usize, Joins), _)| {
            let literal = self.walked.literals().get(*index)?;
            Some(Piece {
                raw: self.bytes.get(literal.span())?,
                name,
                joins: *joins,
                kind: match literal.kind() {
                    LiteralKind::Text => PieceKind::Text,
                    LiteralKind::Name => PieceKind::Name,
                    LiteralKind::Number => PieceKind::Number,
                },
            })
        };
        let names = names.iter().map(Option::as_deref);
        let pieces: Vec<Piece<'_>> = some.iter().zip(names).filter_map(piece).collect();
        let excuse = self.excuse();
        let by_literal = |(piece, range): &(usize, Range<usize>)| Some((some.get(*piece)?.0, range.clone()));
        found.extend(detector.find_with(&pieces, &excuse, work).into_iter().map(|finding| {
            let parts = finding.parts.iter().filter_map(by_literal).collect();
            Found { finding, parts }
        }));
    }

    /// The tool that sent this. A prompt or a resource of the same name is none, nor is what a server says beside.
    fn tool(&self) -> &str {
        match self.run.origin.message {
            Message::ToolResult | Message::TaskState => self.run.origin.name,
            Message::ResourceRead | Message::PromptGet | Message::Other | Message::Error | Message::Definitions => "",
        }
    }

    /// Literals that are looked through: texts of blocks first, one behind the other, so that they can be joined.
    fn in_order(&self, mut give: impl FnMut(usize, Joins)) {
        let joins = |joined: bool| if joined { Joins::Previous } else { Joins::Nothing };
        let scanned = || {
            let literals = self.walked.literals().iter().enumerate();
            literals.filter(|(_, literal)| self.walked.scanned(literal) == Scanned::Yes)
        };
        let mut last = None;
        for (index, literal) in scanned() {
            if let Some(block) = self.walked.text_of(literal) {
                let joined = last.is_some() && (last == Some(block) || self.walked.joins_previous(block));
                give(index, joins(joined));
                last = Some(block);
            }
        }
        // The lines of a key as an array: none of them is one alone.
        let mut key: Option<&Literal> = None;
        for (index, literal) in scanned() {
            if self.walked.text_of(literal).is_none() {
                let joined = key.is_some_and(|key| key.is_beside(literal));
                give(index, joins(joined));
                let raw = self.bytes.get(literal.span()).unwrap_or_default();
                let begins = raw.starts_with(ARMOUR) && memchr::memmem::find(raw, b"-----END").is_none();
                key = (begins || (joined && !raw.starts_with(b"-----END"))).then_some(literal);
            }
        }
    }

    fn name(&self, index: usize) -> Option<Cow<'_, str>> {
        match self.walked.literals().get(index)?.kind() {
            LiteralKind::Text | LiteralKind::Number => self.walked.spoken_of(self.bytes, index),
            LiteralKind::Name => None,
        }
    }

    /// For the record: where, and how long, and nothing of what.
    pub(super) fn notes(&self, found: &[Found]) -> Vec<FindingNote> {
        let start = |found: &Found| {
            let (literal, _) = found.parts.first()?;
            Some(self.walked.literals().get(*literal)?.span().start)
        };
        let mut places: Vec<usize> = found.iter().take(MOST_NOTED).filter_map(start).collect();
        places.sort_unstable();
        places.dedup();
        let pointers = pointers(self.bytes, &places, &|name| self.is_known(name)).unwrap_or_default();
        let place_of = |found: &Found| {
            let index = start(found).and_then(|start| places.binary_search(&start).ok());
            index.and_then(|index| pointers.get(index).cloned()).unwrap_or_default()
        };
        // Those beyond what is noted are only counted, so that no place is looked for.
        let note = |found: &Found| FindingNote {
            category: found.finding.category,
            rule: found.finding.rule.to_string(),
            place: place_of(found),
            length: found.parts.iter().map(|(_, range)| range.len()).sum(),
        };
        found.iter().map(note).collect()
    }

    fn is_known(&self, name: &str) -> bool {
        let declared = match self.run.origin.declared {
            Declared::Schema(schema) => schema.knows(name),
            Declared::Nothing | Declared::Uncompilable { .. } => false,
        };
        declared || PROTOCOL.contains(&name)
    }
}

/// Literals that are looked through at a time: what is remembered of each must not add up over a large message.
const GATHERED: usize = 1024;

/// Names that the protocol itself uses.
const PROTOCOL: [&str; 24] = [
    "_meta",
    "annotations",
    "blob",
    "completion",
    "content",
    "contents",
    "data",
    "description",
    "error",
    "isError",
    "message",
    "messages",
    "mimeType",
    "name",
    "params",
    "resource",
    "result",
    "role",
    STRUCTURED,
    "text",
    "title",
    "type",
    "uri",
    "values",
];
