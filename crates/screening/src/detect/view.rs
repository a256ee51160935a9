//! The text that rules read, and the way back from it to raw bytes.

use std::borrow::Cow;
use std::ops::Range;

use super::escape::{Sign, character, sign};
use super::hidden::{is_hidden, plain_length, sequence_end};

/// A text to scan with the places its bytes come from.
#[derive(Default, Debug)]
pub(super) struct View<'a> {
    text: Cow<'a, [u8]>,
    /// In the order of the text; what no segment covers was added for context and lies nowhere.
    segments: Vec<Segment>,
    hidden: Seen,
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
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Seen {
    #[default]
    No,
    Yes,
}

impl<'a> View<'a> {
    /// A piece that is its own view.
    pub(super) fn plain(piece: usize, raw: &'a [u8]) -> Self {
        let whole = Segment {
            at: 0,
            length: raw.len(),
            piece,
            from: 0,
            raw_length: raw.len(),
        };
        Self {
            text: Cow::Borrowed(raw),
            segments: vec![whole],
            hidden: Seen::No,
        }
    }

    /// A view that begins with context that no place in the document belongs to.
    pub(super) fn after(context: String) -> Self {
        Self {
            text: Cow::Owned(context.into_bytes()),
            ..Self::default()
        }
    }

    pub(super) fn text(&self) -> &[u8] {
        &self.text
    }

    /// Whether [`Hidden::Separates`] would give another text.
    pub(super) fn had_hidden(&self) -> bool {
        self.hidden == Seen::Yes
    }

    /// Appends the content of a string, decoded and without what is hidden.
    pub(super) fn append(&mut self, piece: usize, raw: &[u8], hidden: Hidden) {
        let (mut run, mut at) = (0, 0);
        self.text.to_mut().reserve(raw.len());
        self.segments.reserve(raw.len() / 32);
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
            self.copy(piece, raw, run..at);
            let Some((found, next)) = sign(raw, at) else { break };
            at = self.take(piece, raw, (found, at..next), hidden);
            run = at;
        }
        self.copy(piece, raw, run..raw.len());
    }

    /// Takes one decoded sign; gives the place behind it, or behind the sequence it begins.
    fn take(&mut self, piece: usize, raw: &[u8], (found, from): (Sign, Range<usize>), hidden: Hidden) -> usize {
        let next = from.end;
        match found {
            Sign::Byte(byte) => self.push(piece, from, &[byte]),
            Sign::Char(found) if !is_hidden(found) => {
                self.push(piece, from, found.encode_utf8(&mut [0; 4]).as_bytes());
            }
            Sign::Char(found) => {
                self.hidden = Seen::Yes;
                match hidden {
                    Hidden::Removed => return sequence_end(raw, found, next).unwrap_or(next),
                    Hidden::Separates => self.push(piece, from, b" "),
                }
            }
        }
        next
    }

    fn copy(&mut self, piece: usize, raw: &[u8], range: Range<usize>) {
        if let Some(bytes) = raw.get(range.clone()).filter(|bytes| !bytes.is_empty()) {
            self.push(piece, range, bytes);
        }
    }

    fn push(&mut self, piece: usize, from: Range<usize>, bytes: &[u8]) {
        let text = self.text.to_mut();
        self.segments.push(Segment {
            at: text.len(),
            length: bytes.len(),
            piece,
            from: from.start,
            raw_length: from.len(),
        });
        text.extend_from_slice(bytes);
    }

    /// Where bytes of the text come from: one range for each piece, what was taken out between them included.
    pub(super) fn parts(&self, range: Range<usize>) -> Vec<(usize, Range<usize>)> {
        let first = self
            .segments
            .partition_point(|segment| segment.at + segment.length <= range.start);
        let mut parts: Vec<(usize, Range<usize>)> = Vec::new();
        let touched = self
            .segments
            .iter()
            .skip(first)
            .take_while(|segment| segment.at < range.end);
        for segment in touched {
            let place = segment.raw(&range);
            match parts.last_mut() {
                Some((piece, whole)) if *piece == segment.piece => whole.end = place.end,
                Some(_) | None => parts.push((segment.piece, place)),
            }
        }
        parts
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
