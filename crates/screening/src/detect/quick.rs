//! Most results hold nothing. One pass over all pieces together tells which of them could hold something, and only
//! those are looked at closely. It may suspect too much, never too little.

use std::ops::Range;

use super::hidden::{Written, spoken, written};
use super::view::{Hidden, Seen, unfold};
use super::{ARMOUR, Detector, Joins, Piece, PieceKind, card, digits, encoded};

/// The indices of pieces that a rule could find something in, in order. Where pieces are joined it is all of them.
pub(super) fn suspects(detector: &Detector, pieces: &[Piece<'_>]) -> Vec<usize> {
    let mut batch = Batch {
        detector,
        text: Vec::new(),
        entries: Vec::new(),
        suspects: Vec::new(),
    };
    let mut names = Names::new(detector);
    let mut start = 0;
    for group in pieces.chunk_by(|_, next| next.joins == Joins::Previous) {
        for (offset, piece) in group.iter().enumerate() {
            let index = start + offset;
            match piece.kind {
                // Only a card's number counts, under whatever name.
                PieceKind::Number if CARD.contains(&piece.raw.len()) && card::is_card(piece.raw) => {
                    batch.suspect(index..index + 1)
                }
                PieceKind::Number => {}
                PieceKind::Text | PieceKind::Name if names.wake(piece.name) => batch.suspect(index..index + 1),
                PieceKind::Text | PieceKind::Name => batch.add(index..index + 1, &[*piece]),
            }
        }
        if group.len() > 1 {
            batch.add(start..start + group.len(), group);
        }
        start += group.len();
    }
    batch.look();
    batch.suspects.sort_unstable();
    batch.suspects.dedup();
    batch.suspects
}

/// Texts of many pieces, apart from each other.
struct Batch<'a> {
    detector: &'a Detector,
    text: Vec<u8>,
    /// Where a text begins, and the pieces it is made of.
    entries: Vec<(usize, Range<usize>)>,
    suspects: Vec<usize>,
}

impl Batch<'_> {
    /// Adds the text of pieces that belong together.
    fn add(&mut self, indices: Range<usize>, pieces: &[Piece<'_>]) {
        let plain = pieces.iter().all(|piece| reads_plain(piece.raw, self.detector));
        if let ([piece], true) = (pieces, plain)
            && piece.raw.len() >= ENOUGH
        {
            return look(self.detector, piece.raw, |_| {
                suspect(&mut self.suspects, indices.clone())
            });
        }
        self.entries.push((self.text.len(), indices.clone()));
        for piece in pieces {
            if plain {
                self.text.extend_from_slice(piece.raw);
            } else {
                let text = &mut self.text;
                let seen = unfold(piece.raw, Hidden::Removed, |_, bytes| text.extend_from_slice(bytes));
                if seen == Seen::Yes {
                    self.suspect(indices.clone());
                }
            }
        }
        self.text.push(APART);
        if self.text.len() >= ENOUGH {
            self.look();
        }
    }

    fn suspect(&mut self, indices: Range<usize>) {
        suspect(&mut self.suspects, indices);
    }

    /// Looks through what was gathered, and forgets it.
    fn look(&mut self) {
        let Self {
            detector,
            text,
            entries,
            suspects,
        } = self;
        look(detector, text, |at| {
            let behind = entries.partition_point(|(start, _)| *start <= at);
            if let Some((_, indices)) = behind.checked_sub(1).and_then(|entry| entries.get(entry)) {
                suspect(suspects, indices.clone());
            }
        });
        text.clear();
        entries.clear();
    }
}

fn suspect(suspects: &mut Vec<usize>, indices: Range<usize>) {
    // A flood of keywords in one text must not fill the memory.
    if suspects.last() != indices.clone().last().as_ref() {
        suspects.extend(indices);
    }
}

/// Gives a place in everything that could be, or hide, a secret.
fn look(detector: &Detector, text: &[u8], mut give: impl FnMut(usize)) {
    detector.keywords.each(text, |hit| give(hit.start));
    digits::each(text, |run| give(run.start));
    encoded::hints(text, give);
}

/// Whether keywords, digits and encoded runs can be found in the raw content of a string as well as in its text:
/// nothing is hidden, and escapes stand only for what is part of none of them. The letter of an escape is then read as
/// text, which can make something look suspicious that is not.
fn reads_plain(raw: &[u8], detector: &Detector) -> bool {
    match written(raw) {
        Written::Plainly => true,
        Written::WithSimpleEscapes => detector.keywords.are_within_lines(),
        Written::Otherwise => false,
    }
}

/// Whether nothing in a JSON value could be, or hide, a secret. Every string of it can be read in the raw bytes, and
/// what stands between them belongs to no keyword's inside, no digits and nothing encoded, so no piece of it is
/// suspected: neither for its text nor for its name. Nor are strings read together where no armour begins.
pub(super) fn is_quiet(detector: &Detector, json: &[u8]) -> bool {
    let mut quiet = reads_plain(json, detector) && memchr::memmem::find(json, ARMOUR).is_none();
    if quiet {
        look(detector, json, |_| quiet = false);
    }
    quiet
}

/// Whether a piece's name speaks of secrets. The same few names come again and again.
struct Names<'a> {
    detector: &'a Detector,
    known: [(&'a str, bool); KNOWN],
}

impl<'a> Names<'a> {
    fn new(detector: &'a Detector) -> Self {
        Self {
            detector,
            known: [("", false); KNOWN],
        }
    }

    fn wake(&mut self, name: Option<&'a str>) -> bool {
        let Some((name, [first, .., last] | [first @ last])) = name.map(|name| (name, name.as_bytes())) else {
            return false;
        };
        let place = name.len() + usize::from(*first) + 8 * usize::from(*last);
        let Some(known) = self.known.get_mut(place % KNOWN) else {
            return false;
        };
        if known.0 != name {
            *known = (name, self.detector.keywords.any(spoken(name).as_bytes()));
        }
        known.1
    }
}

/// Digits of card numbers.
const CARD: std::ops::RangeInclusive<usize> = 13..=19;

/// Names that are remembered at a time.
const KNOWN: usize = 64;

/// Stands between texts: no keyword goes over it, and nothing encoded.
const APART: u8 = 0;

/// Bytes that are looked through at once.
const ENOUGH: usize = 32 << 10;
