//! What people do not see and models read through: terminal control sequences, control characters, direction marks
//! and characters that Unicode says to ignore. A secret may not hide behind any of them.

use std::borrow::Cow;

use super::escape::{Sign, character, outer, sign};
use crate::result::strip::class_of;

/// Whether the raw content of a string has to be decoded before it is scanned: anything but printable ASCII without a
/// backslash.
#[must_use]
pub fn needs_view(raw: &[u8]) -> bool {
    let odd = |byte: &u8| byte.wrapping_sub(b' ') > b'~' - b' ' || *byte == b'\\';
    let blocks = raw.chunks_exact(64);
    // Without a branch for each byte the compiler uses whole registers.
    let tail = blocks.remainder().iter().any(odd);
    tail || blocks
        .into_iter()
        .any(|block| block.iter().fold(false, |seen, byte| seen | odd(byte)))
}

/// How many bytes from the start are printable ASCII without a backslash.
pub(super) fn plain_length(raw: &[u8]) -> usize {
    let mut length = 0;
    let words = raw.chunks_exact(8);
    let tail = words.remainder();
    for word in words {
        let word = word.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
        let marks = odd_bytes(word);
        if marks != 0 {
            return length + (marks.trailing_zeros() / 8) as usize;
        }
        length += 8;
    }
    let odd = |byte: &u8| !(b' '..=b'~').contains(byte) || *byte == b'\\';
    length + tail.iter().position(odd).unwrap_or(tail.len())
}

/// Eight bytes at once; the lowest top bit that is set marks the first odd byte. Higher marks may be wrong.
fn odd_bytes(word: u64) -> u64 {
    const EACH: u64 = 0x0101_0101_0101_0101;
    const TOP: u64 = 0x8080_8080_8080_8080;
    let below = |bytes: u64, bound: u8| bytes.wrapping_sub(EACH * u64::from(bound)) & !bytes & TOP;
    let slash = word ^ (EACH * u64::from(b'\\'));
    let delete = word ^ (EACH * 0x7f);
    (word & TOP) | below(word, b' ') | below(slash, 1) | below(delete, 1)
}

/// How a text is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Written {
    /// Every character stands for itself, and none is hidden.
    Plainly,
    /// The same, but for escapes of quotes, tabs and ends of lines.
    WithSimpleEscapes,
    /// Something may be hidden, or spelled.
    Otherwise,
}

/// How the content of a string is written, or a whole JSON value, whose white space stands for itself.
pub(crate) fn written(raw: &[u8]) -> Written {
    let mut written = Written::Plainly;
    let mut at = 0;
    loop {
        at += plain_length(raw.get(at..).unwrap_or_default());
        let rest = raw.get(at..).unwrap_or_default();
        at += match rest {
            [] => return written,
            [b'\\', b'"' | b'n' | b'r' | b't', ..] => {
                written = Written::WithSimpleEscapes;
                2
            }
            [b'\n' | b'\r' | b'\t', ..] => 1,
            [0x80..=0xff, ..] => match character(rest) {
                Some(found) if is_hidden(found) => return Written::Otherwise,
                found => found.map_or(1, char::len_utf8),
            },
            _ => return Written::Otherwise,
        };
    }
}

/// A name as somebody reads it.
pub(super) fn spoken(name: &str) -> Cow<'_, str> {
    if name.chars().any(is_hidden) {
        Cow::Owned(name.chars().filter(|sign| !is_hidden(*sign)).collect())
    } else {
        Cow::Borrowed(name)
    }
}

/// Whether any class of stripping takes this character out.
pub(super) fn is_hidden(found: char) -> bool {
    class_of(u32::from(found)).is_some()
}

/// Where the control sequence whose first sign ends before `at` is over. `None` if the sign begins no sequence.
pub(super) fn sequence_end(raw: &[u8], first: char, at: usize) -> Option<usize> {
    match first {
        '\u{1b}' => Some(escape_sequence(raw, at)),
        '\u{9b}' => Some(parameters(raw, at)),
        '\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}' => Some(string(raw, at)),
        _ => None,
    }
}

/// Where a backslash that ends a string is over. It may look like the first half of an escape inside the text.
fn backslash(raw: &[u8], at: usize) -> Option<usize> {
    let is = |found: &(Sign, usize)| found.0 == Sign::Char('\\');
    let found = sign(raw, at).filter(is).or_else(|| outer(raw, at).filter(is));
    found.map(|(_, next)| next)
}

fn escape_sequence(raw: &[u8], at: usize) -> usize {
    if let Some(next) = backslash(raw, at) {
        return next;
    }
    match sign(raw, at) {
        Some((Sign::Char('['), next)) => parameters(raw, next),
        Some((Sign::Char(']' | 'P' | 'X' | '^' | '_'), next)) => string(raw, next),
        Some((Sign::Char(' '..='/'), next)) => intermediates(raw, next),
        Some((Sign::Char('0'..='~'), next)) => next,
        Some((Sign::Char(_) | Sign::Byte(_), _)) | None => at,
    }
}

/// A control sequence: parameter and intermediate bytes, then a final one. Anything else breaks it off.
fn parameters(raw: &[u8], mut at: usize) -> usize {
    while let Some((Sign::Char(found), next)) = sign(raw, at) {
        match found {
            ' '..='?' => at = next,
            '@'..='~' => return next,
            found if is_hidden(found) && !introduces(found) => at = next,
            _ => break,
        }
    }
    at
}

fn intermediates(raw: &[u8], mut at: usize) -> usize {
    while let Some((Sign::Char(found), next)) = sign(raw, at) {
        match found {
            ' '..='/' => at = next,
            '0'..='~' => return next,
            _ => break,
        }
    }
    at
}

/// A control string: up to its terminator, a bell, the end of the line or the end of the text.
fn string(raw: &[u8], mut at: usize) -> usize {
    while let Some((found, next)) = sign(raw, at) {
        match found {
            Sign::Char('\u{7}' | '\u{9c}') => return next,
            Sign::Char('\n') => return at,
            Sign::Char('\u{1b}') => return backslash(raw, next).unwrap_or(at),
            Sign::Char(_) | Sign::Byte(_) => at = next,
        }
    }
    at
}

/// Whether a control character begins a sequence.
fn introduces(found: char) -> bool {
    matches!(found, '\u{1b}' | '\u{90}' | '\u{98}' | '\u{9b}' | '\u{9d}'..='\u{9f}')
}
