//! Edits of raw bytes: a list of ranges and what stands there instead, applied once. Everything outside of the ranges
//! leaves as it came.

pub(in crate::result) mod units;

use std::borrow::Cow;
use std::ops::Range;

use bytes::{Bytes, BytesMut};

/// One range and its replacement; an empty range is an insertion.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Edit {
    /// What goes: offsets into the message, or into a literal where it says so.
    pub range: Range<usize>,
    /// What comes, as it is spelled in JSON.
    pub with: Cow<'static, str>,
}

impl Edit {
    /// Takes a range away.
    #[must_use]
    pub fn removal(range: Range<usize>) -> Self {
        Self {
            range,
            with: Cow::Borrowed(""),
        }
    }
}

/// Edits that cannot be applied together, or not to these bytes. Our own fault, never a server's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("two edits overlap, or one lies outside of the message")]
pub struct Overlap;

/// How much of one message may still be edited: what a server sends must not grow to many times its size here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::result) struct Room {
    edits: usize,
    bytes: usize,
}

impl Room {
    /// For a message of as many bytes.
    pub(in crate::result) fn of(length: usize) -> Self {
        Self {
            edits: MOST_EDITS,
            bytes: length + SPARE,
        }
    }

    /// Takes room for the edits of a literal; false if there is none left.
    pub(in crate::result) fn holds(&mut self, edits: &[Edit]) -> bool {
        let added = edits.iter().map(|edit| edit.with.len()).sum();
        match (self.edits.checked_sub(edits.len()), self.bytes.checked_sub(added)) {
            (Some(edits), Some(bytes)) => {
                *self = Self { edits, bytes };
                true
            }
            _ => false,
        }
    }
}

/// The most edits of one message.
pub(in crate::result) const MOST_EDITS: usize = 1 << 20;

/// A message may double, and a short one grow by as much.
const SPARE: usize = 1 << 20;

/// All edits of one message.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Edits(Vec<Edit>);

impl Edits {
    /// Adds one. Insertions at the same place follow each other as they were added.
    pub fn add(&mut self, edit: Edit) {
        self.0.push(edit);
    }

    /// Adds those of a literal that begins at `start`.
    pub fn add_at(&mut self, start: usize, edits: Vec<Edit>) {
        self.0.extend(edits.into_iter().map(|edit| Edit {
            range: edit.range.start + start..edit.range.end + start,
            with: edit.with,
        }));
    }

    /// The message with all edits; without any, the very bytes that came.
    ///
    /// # Errors
    /// When edits overlap or lie outside.
    pub fn apply(mut self, bytes: &Bytes) -> Result<Bytes, Overlap> {
        if self.0.is_empty() {
            return Ok(bytes.clone());
        }
        sort(&mut self.0);
        let added: usize = self.0.iter().map(|edit| edit.with.len()).sum();
        let mut edited = BytesMut::with_capacity(bytes.len() + added);
        let mut at = 0;
        for edit in &self.0 {
            // A range that begins before the last one ended has no prefix.
            edited.extend_from_slice(bytes.get(at..edit.range.start).ok_or(Overlap)?);
            edited.extend_from_slice(edit.with.as_bytes());
            at = edit.range.end.max(edit.range.start);
        }
        edited.extend_from_slice(bytes.get(at..).ok_or(Overlap)?);
        Ok(edited.freeze())
    }
}

/// Puts `removals` of a literal (in order, apart) beneath `edits` of it (likewise): where both are, the edit stays.
#[must_use]
pub fn removed_beneath(edits: Vec<Edit>, removals: &[Range<usize>]) -> Vec<Edit> {
    let mut all = Vec::with_capacity(edits.len() + removals.len());
    let mut above = edits.iter().peekable();
    for removal in removals {
        let mut at = removal.start;
        while let Some(edit) = above.next_if(|edit| edit.range.end <= removal.end) {
            if at < edit.range.start {
                all.push(Edit::removal(at..edit.range.start));
            }
            at = at.max(edit.range.end);
        }
        let end = above
            .peek()
            .map_or(removal.end, |edit| edit.range.start.min(removal.end));
        if at < end {
            all.push(Edit::removal(at..end));
        }
    }
    all.extend(edits);
    sort(&mut all);
    all
}

/// A literal under edit, piece by piece.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::result) enum Piece<'a> {
    /// This range of it stays.
    Kept(Range<usize>),
    Edited(&'a Edit),
}

/// The pieces of a literal of `length` bytes, in order; nothing empty is kept.
pub(in crate::result) fn pieces(length: usize, edits: &[Edit]) -> impl Iterator<Item = Piece<'_>> {
    let starts = std::iter::once(0).chain(edits.iter().map(|edit| edit.range.end));
    let ends = edits.iter().map(Some).chain(std::iter::once(None));
    starts.zip(ends).flat_map(move |(start, next)| {
        let end = next.map_or(length, |edit| edit.range.start);
        let kept = (start < end).then_some(Piece::Kept(start..end));
        kept.into_iter().chain(next.map(Piece::Edited))
    })
}

/// By place. Keeps the order of insertions at one place; they come before what replaces the text there.
pub(in crate::result) fn sort(edits: &mut [Edit]) {
    edits.sort_by_key(|edit| (edit.range.start, edit.range.end));
}

#[cfg(test)]
mod tests;
