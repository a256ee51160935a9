//! How far an armoured key goes behind its first line.

use std::ops::Range;

use memchr::memmem;

/// Where END lines and lines of keys are in a text, found in one pass however many BEGIN lines ask.
pub(super) struct Ends {
    marks: Option<Marks>,
}

struct Marks {
    /// Where END lines begin.
    ends: Vec<usize>,
    /// Words that look like a part of a key.
    words: Vec<Range<usize>>,
}

impl Ends {
    pub(super) fn new() -> Self {
        Self { marks: None }
    }

    /// The end of the block whose first line ends at `from`: behind the END line after which no key goes on, or where
    /// the lines of a key stop. `None` if no key follows: a first line alone gives nothing away.
    pub(super) fn of_block(&mut self, text: &[u8], from: usize) -> Option<usize> {
        let marks = self.marks.get_or_insert_with(|| Marks::of(text));
        let mut end = marks.lines_end(text, from);
        let mut at = from;
        let first = marks.ends.partition_point(|marker| *marker < from);
        let markers = marks.ends.iter().skip(first).copied();
        for (count, marker) in markers.take_while(|marker| marker - from <= LONGEST).enumerate() {
            if count == MOST_ENDS {
                return Some((from + LONGEST).min(text.len()));
            }
            let close = close_of(text, marker);
            if marks.first_word(at).is_some_and(|word| word.end <= marker) {
                end = end.max(Some(close));
            }
            at = close;
            // An END line may be put anywhere; the block goes on for as long as a key does.
            if end.is_some() && !marks.goes_on(text, close) {
                return end;
            }
        }
        end.max(marks.lines_end(text, at))
    }
}

impl Marks {
    fn of(text: &[u8]) -> Self {
        let mut words = Vec::new();
        let mut at = 0;
        for word in text.split(|byte| !is_base64(*byte)) {
            if is_of_key(word) {
                words.push(at..at + word.len());
            }
            at += word.len() + 1;
        }
        Self {
            ends: memmem::find_iter(text, b"-----END").collect(),
            words,
        }
    }

    fn first_word(&self, from: usize) -> Option<&Range<usize>> {
        let first = self.words.partition_point(|word| word.start < from);
        self.words.get(first)
    }

    /// Whether a key goes on behind an END line, and no other begins before.
    fn goes_on(&self, text: &[u8], close: usize) -> bool {
        self.first_word(close).is_some_and(|word| {
            let between = text.get(close..word.start).unwrap_or_default();
            between.len() <= NEAR && memmem::find(between, b"-----BEGIN").is_none()
        })
    }

    /// The end of the lines of a key that follow, headers skipped; `None` if there are none.
    fn lines_end(&self, text: &[u8], from: usize) -> Option<usize> {
        let first = self.words.partition_point(|word| word.start < from);
        let mut words = self.words.iter().skip(first);
        let start = words.next()?;
        let before = text.get(from..start.start)?;
        // `Proc-Type:` and the like stand between the first line and the key.
        let is_headers = before.len() <= HEADERS && before.contains(&b':');
        if before.len() > GAP && !is_headers && !before.iter().all(|byte| is_between(*byte)) {
            return None;
        }
        let (mut end, mut signs) = (start.end, start.len());
        for word in words {
            if word.start - end > GAP {
                break;
            }
            end = word.end;
            signs += word.len();
        }
        if start.len() < SHORTEST_LINE && signs < SHORTEST_KEY {
            return None;
        }
        // The last line of a key may be short.
        let rest = text.get(end..)?;
        let gap = rest.iter().take(GAP).take_while(|byte| is_between(**byte)).count();
        let last = rest.get(gap..)?.iter().take_while(|byte| is_base64(**byte)).count();
        let stop = end + gap + last;
        Some(if last >= 2 && ends_line(text, stop) { stop } else { end })
    }
}

/// Behind the dashes of an END line.
fn close_of(text: &[u8], marker: usize) -> usize {
    let line = text.get(marker + 8..(marker + 72).min(text.len())).unwrap_or_default();
    marker + memmem::find(line, b"-----").map_or(8, |dashes| 8 + dashes + 5)
}

/// Whether a word could be a line of a key: long, or at least not like any other word.
fn is_of_key(word: &[u8]) -> bool {
    let has = |class: fn(&u8) -> bool| word.iter().any(class);
    let mixed = || has(u8::is_ascii_digit) && has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase);
    word.len() >= SHORTEST_LINE || (word.len() >= SHORTEST_MIXED && mixed())
}

fn ends_line(text: &[u8], at: usize) -> bool {
    text.get(at)
        .is_none_or(|byte| matches!(byte, b'\n' | b'\r' | b'"' | b'\'' | b'\\' | b'=' | b'-'))
}

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=')
}

/// Line ends and what string literals in code put around them.
fn is_between(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r' | b' ' | b'\t' | b'\\' | b'"' | b'\'' | b',')
}

/// A line of a key is at least as long, as encoders write them.
const SHORTEST_LINE: usize = 32;

/// A shorter one is taken for a line of a key if it has digits and letters of both cases.
const SHORTEST_MIXED: usize = 12;

/// Lines that are shorter than usual have at least as many characters together.
const SHORTEST_KEY: usize = 64;

/// What may stand between two lines: numbers of lines, marks of quotes, tags, the rest of a statement.
const GAP: usize = 24;

/// What may stand between the first line and the key.
const HEADERS: usize = 512;

/// How near behind an END line a key has to go on.
const NEAR: usize = 256;

/// Behind BEGIN; an RSA key of 16 384 bits fits.
const LONGEST: usize = 16 << 10;

/// So many END lines without a key between them are no accident.
const MOST_ENDS: usize = 64;
