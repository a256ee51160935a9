//! Takes out of a string literal what a reader cannot see and a terminal would obey: control sequences, control
//! characters, direction marks and characters without width, however they are spelled.
//!
//! The machine for sequences is our own: parsers of terminals take bytes and tell what they draw, while here the place
//! of every byte must be known, and a sequence may be written in escapes of the literal, in escapes inside the text, or
//! in both by turns.

mod cursor;
mod pass;
mod tables;

use std::ops::Range;

use super::edit::MOST_EDITS;
use crate::detect::{Written, written};
use pass::Pass;

pub(crate) use tables::class_of;

vocabulary::words! {
    /// What can be taken out.
    pub enum Class {
        /// Control sequences (ECMA-48) with all they carry.
        Ansi = "ansi",
        /// Control characters but tab, line feed and carriage return.
        C0C1 = "c0c1",
        /// Marks that turn the direction of writing.
        Bidi = "bidi",
        /// Characters without width that belong to no picture.
        ZeroWidth = "zero_width",
    }
}

/// The classes that are switched on.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Classes(u8);

impl Classes {
    /// Every class, as detection wants it.
    pub const ALL: Self = Self(0b1111);

    /// Whether a class is among them.
    #[must_use]
    pub fn holds(self, class: Class) -> bool {
        self.0 & 1 << class as u8 != 0
    }
}

impl FromIterator<Class> for Classes {
    fn from_iter<I: IntoIterator<Item = Class>>(classes: I) -> Self {
        Self(classes.into_iter().fold(0, |bits, class| bits | 1 << class as u8))
    }
}

/// How much was taken out: sequences of `ansi`, characters of the others.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// Sequences.
    pub ansi: usize,
    /// Control characters outside of sequences.
    pub c0c1: usize,
    /// Direction marks.
    pub bidi: usize,
    /// Characters without width.
    pub zero_width: usize,
}

impl Counts {
    /// Counts one more.
    fn add(&mut self, class: Class) {
        match class {
            Class::Ansi => self.ansi += 1,
            Class::C0C1 => self.c0c1 += 1,
            Class::Bidi => self.bidi += 1,
            Class::ZeroWidth => self.zero_width += 1,
        }
    }

    /// Adds those of another literal.
    pub fn add_all(&mut self, other: Self) {
        self.ansi += other.ansi;
        self.c0c1 += other.c0c1;
        self.bidi += other.bidi;
        self.zero_width += other.zero_width;
    }
}

/// What is to be taken out of one literal.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Stripped {
    /// Ranges of the literal: in order, apart from each other, whole escapes and characters. They may reach over ranges
    /// that are masked; the mask stays. If there are more than a million, the rest was not looked for: such a text does
    /// not go anywhere.
    pub removals: Vec<Range<usize>>,
    /// How much it was.
    pub counts: Counts,
}

impl Stripped {
    /// Whether everything was looked for.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.removals.len() <= MOST_EDITS
    }
}

/// Looks through what stands between the quotes of a literal. `masked` are ranges of it that a mask will stand for, in
/// order and apart: no sequence is read through one, except that what a sequence carries reaches over it.
///
/// What is left holds nothing of `classes`, also after the edges have closed: stripped once more, it stays.
#[must_use]
pub fn strip(raw: &[u8], classes: Classes, masked: &[Range<usize>]) -> Stripped {
    let mut stripped = Stripped::default();
    // Nothing that is hidden, and nothing that could spell it.
    if classes == Classes::default() || written(raw) != Written::Otherwise {
        return stripped;
    }
    let pass = Pass { raw, classes, masked };
    // What is taken out can bring together what then spells something anew (`\u00` … `1b`), so it is looked at again.
    // Honest text is done after two passes.
    for _ in 0..MOST_PASSES {
        let found = pass.run(&stripped.removals, &mut stripped.counts);
        if found.is_empty() {
            return stripped;
        }
        stripped.removals = merged(&stripped.removals, found);
        if !stripped.is_complete() {
            return stripped;
        }
    }
    // Something nested like that was made to outlast us. Without backslashes and lone halves of pairs nothing can be
    // spelled any more, and what stands for itself takes one pass.
    let spelling = pass.spelling(&stripped.removals);
    stripped.removals = merged(&stripped.removals, spelling);
    let found = pass.run(&stripped.removals, &mut stripped.counts);
    stripped.removals = merged(&stripped.removals, found);
    stripped
}

const MOST_PASSES: usize = 4;

/// Two ordered lists as one; ranges that touch or overlap become one.
fn merged(before: &[Range<usize>], found: Vec<Range<usize>>) -> Vec<Range<usize>> {
    if before.is_empty() {
        return found;
    }
    let mut all: Vec<Range<usize>> = Vec::with_capacity(before.len() + found.len());
    let (mut left, mut right) = (before.iter().peekable(), found.iter().peekable());
    loop {
        let next = match (left.peek(), right.peek()) {
            (Some(old), Some(new)) if new.start < old.start => right.next(),
            (Some(_), _) => left.next(),
            (None, _) => right.next(),
        };
        let Some(next) = next else { return all };
        add(&mut all, next.clone());
    }
}

/// Adds a range that begins no earlier than the last one.
fn add(ranges: &mut Vec<Range<usize>>, next: Range<usize>) {
    match ranges.last_mut() {
        Some(last) if next.start <= last.end => last.end = last.end.max(next.end),
        Some(_) | None => ranges.push(next),
    }
}

#[cfg(test)]
mod tests;
