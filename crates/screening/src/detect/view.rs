//! The text that rules read, and the way back from it to raw bytes.

use std::borrow::Cow;
use std::ops::Range;

use super::Piece;
use super::escape::{Sign, character, sign};
use super::hidden::{is_hidden, plain_length, sequence_end};

/// A text to scan. Where its bytes come from is worked out only if something is found in it.
#[derive(Debug)]
pub(super) struct View<'a> {
    text: Cow<'a, [u8]>,
    source: Source<'a>,
    hidden: Seen,
    /// Places in the text where something was taken out, or another piece begins, in order.
    cuts: Vec<usize>,
}

#[derive(Debug)]
enum Source<'a> {
    /// The text is the raw content of this piece.
    Plain(usize),
    /// It was decoded.
    Decoded {
        /// Bytes at its start that lie nowhere in the document.
        context: usize,
        pieces: &'a [Piece<'a>],
        /// The index of the first piece.
        start: usize,
        hidden: Hidden,
    },
}

/// What is done with what is hidden.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Hidden {
    /// It is taken out, control sequences with their parameters and payload, as stripping does.
    Removed,
    /// It separates what is around it, and control sequences are read as text: if nothing is stripped, that is what a
    /// client gets.
    Separates,
}

/// Whether anything in a text is hidden.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Seen {
    No,
    Yes,
}

impl<'a> View<'a> {
    /// A piece that is its own view.
    pub(super) fn plain(piece: usize, raw: &'a [u8]) -> Self {
        Self {
            text: Cow::Borrowed(raw),
            source: Source::Plain(piece),
            hidden: Seen::No,
            cuts: Vec::new(),
        }
    }

    /// Pieces one behind the other, decoded, of which the first has the index `start`; before them `context`, which no
    /// place in the document belongs to.
    pub(super) fn decoded(context: &str, pieces: &'a [Piece<'a>], start: usize, hidden: Hidden) -> Self {
        let length: usize = pieces.iter().map(|piece| piece.raw.len()).sum();
        let mut text = Vec::with_capacity(context.len() + length);
        text.extend_from_slice(context.as_bytes());
        let (mut seen, mut cuts) = (Seen::No, Vec::new());
        for (offset, piece) in pieces.iter().enumerate() {
            if offset > 0 {
                cuts.push(text.len());
            }
            let found = unfold(piece.raw, hidden, |_, bytes| {
                if bytes.is_empty() {
                    cuts.push(text.len());
                }
                text.extend_from_slice(bytes);
            });
            if found == Seen::Yes {
                seen = Seen::Yes;
            }
        }
        cuts.dedup();
        Self {
            text: Cow::Owned(text),
            source: Source::Decoded {
                context: context.len(),
                pieces,
                start,
                hidden,
            },
            hidden: seen,
            cuts,
        }
    }

    pub(super) fn text(&self) -> &[u8] {
        &self.text
    }

    /// Where a reader may see a border that the text does not show.
    pub(super) fn cuts(&self) -> &[usize] {
        &self.cuts
    }

    /// Whether [`Hidden::Separates`] would give another text.
    pub(super) fn had_hidden(&self) -> bool {
        self.hidden == Seen::Yes
    }

    /// Where each byte of the text comes from.
    pub(super) fn places(&self) -> Places {
        let mut places = Places {
            segments: Vec::new(),
            end: 0,
        };
        match self.source {
            Source::Plain(piece) => places.add(piece, 0..self.text.len(), self.text.len()),
            Source::Decoded {
                context,
                pieces,
                start,
                hidden,
            } => {
                places.end = context;
                for (offset, piece) in pieces.iter().enumerate() {
                    let _ = unfold(piece.raw, hidden, |from, bytes| {
                        places.add(start + offset, from, bytes.len());
                    });
                }
            }
        }
        places
    }
}

/// The way back from a text to the pieces it was made of.
pub(super) struct Places {
    /// In the order of the text; what no segment covers was added for context and lies nowhere.
    segments: Vec<Segment>,
    end: usize,
}

/// Bytes of the text that come from bytes of one piece: one to one if the lengths are equal, else together.
#[derive(Clone, Copy, Debug)]
struct Segment {
    at: usize,
    length: usize,
    piece: usize,
    from: usize,
    raw_length: usize,
}

impl Places {
    fn add(&mut self, piece: usize, from: Range<usize>, length: usize) {
        if length == 0 {
            return;
        }
        self.segments.push(Segment {
            at: self.end,
            length,
            piece,
            from: from.start,
            raw_length: from.len(),
        });
        self.end += length;
    }

    /// Where bytes of the text come from; `None` if they lie nowhere.
    pub(super) fn parts(&self, range: &Range<usize>) -> Option<Parts> {
        let first = self
            .segments
            .partition_point(|segment| segment.at + segment.length <= range.start);
        let behind = self.segments.partition_point(|segment| segment.at < range.end);
        // A text may be cut into segments of a byte each, and a finding may cover thousands of them.
        let mut touched = self.segments.get(first..behind).unwrap_or_default();
        let mut next = || {
            let first = touched.first()?;
            let of_piece = touched.partition_point(|segment| segment.piece == first.piece);
            let (here, others) = touched.split_at_checked(of_piece)?;
            touched = others;
            Some((first.piece, first.raw(range).start..here.last()?.raw(range).end))
        };
        let (piece, place) = next()?;
        Some(match next() {
            None => Parts::One(piece, place),
            Some(second) => Parts::Several(
                [(piece, place), second]
                    .into_iter()
                    .chain(std::iter::from_fn(next))
                    .collect(),
            ),
        })
    }
}

/// Bytes of the document: one range for each piece, what was taken out between them included. Most lie in one piece,
/// and there may be very many of them.
#[derive(Debug)]
pub(super) enum Parts {
    One(usize, Range<usize>),
    /// In document order.
    Several(Vec<(usize, Range<usize>)>),
}

impl Parts {
    /// The piece and the place where they begin, and those where they end.
    pub(super) fn ends(&self) -> [(usize, usize); 2] {
        match self {
            Self::One(piece, range) => [(*piece, range.start), (*piece, range.end)],
            Self::Several(parts) => [
                parts.first().map_or((0, 0), |(piece, range)| (*piece, range.start)),
                parts.last().map_or((0, 0), |(piece, range)| (*piece, range.end)),
            ],
        }
    }

    pub(super) fn map(self, mut change: impl FnMut(usize, Range<usize>) -> Range<usize>) -> Self {
        match self {
            Self::One(piece, range) => Self::One(piece, change(piece, range)),
            Self::Several(parts) => {
                let each = parts.into_iter().map(|(piece, range)| (piece, change(piece, range)));
                Self::Several(each.collect())
            }
        }
    }

    pub(super) fn into_vec(self) -> Vec<(usize, Range<usize>)> {
        match self {
            Self::One(piece, range) => vec![(piece, range)],
            Self::Several(parts) => parts,
        }
    }
}

impl Segment {
    fn raw(&self, wanted: &Range<usize>) -> Range<usize> {
        if self.length != self.raw_length {
            return self.from..self.from + self.raw_length;
        }
        let start = wanted.start.max(self.at) - self.at;
        let end = wanted.end.min(self.at + self.length) - self.at;
        self.from + start..self.from + end
    }
}

/// Decodes the content of a string: gives its text bit by bit, each with the raw bytes it comes from; of what
/// is taken out it gives nothing. Tells whether anything was hidden.
pub(super) fn unfold(raw: &[u8], hidden: Hidden, mut give: impl FnMut(Range<usize>, &[u8])) -> Seen {
    let (mut run, mut at) = (0, 0);
    let mut seen = Seen::No;
    let copy = |range: Range<usize>, give: &mut dyn FnMut(Range<usize>, &[u8])| {
        if let Some(bytes) = raw.get(range.clone()).filter(|bytes| !bytes.is_empty()) {
            give(range, bytes);
        }
    };
    loop {
        at += plain_length(raw.get(at..).unwrap_or_default());
        let Some(byte) = raw.get(at) else { break };
        if !byte.is_ascii() {
            let found = character(raw.get(at..).unwrap_or_default());
            if !found.is_some_and(is_hidden) {
                at += found.map_or(1, char::len_utf8);
                continue;
            }
        }
        copy(run..at, &mut give);
        let Some((found, next)) = sign(raw, at) else { break };
        let from = at..next;
        at = next;
        match found {
            Sign::Byte(byte) => give(from, &[byte]),
            Sign::Char(found) if !is_hidden(found) => give(from, found.encode_utf8(&mut [0; 4]).as_bytes()),
            Sign::Char(found) => {
                seen = Seen::Yes;
                match hidden {
                    Hidden::Removed => {
                        at = sequence_end(raw, found, next).unwrap_or(next);
                        give(from.start..at, b"");
                    }
                    Hidden::Separates => give(from, b" "),
                }
            }
        }
        run = at;
    }
    copy(run..raw.len(), &mut give);
    seen
}
