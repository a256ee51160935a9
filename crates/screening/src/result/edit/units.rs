//! Reads what stands between the quotes of a string literal, character by character, without copying it. Takes any
//! bytes: what is no JSON escape or no UTF-8 counts as something to keep.

/// One character of a literal, or half of a surrogate pair that is spelled alone, and the place behind it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::result) struct Unit {
    pub(in crate::result) code: u32,
    pub(in crate::result) end: usize,
}

impl Unit {
    /// The first half of a pair.
    pub(in crate::result) fn is_high(self) -> bool {
        matches!(self.code, 0xD800..=0xDBFF)
    }

    /// The second half of a pair.
    pub(in crate::result) fn is_low(self) -> bool {
        matches!(self.code, 0xDC00..=0xDFFF)
    }

    /// What readers take it for; half a pair is no character.
    pub(in crate::result) fn character(self) -> char {
        char::from_u32(self.code).unwrap_or(char::REPLACEMENT_CHARACTER)
    }
}

/// What begins at `at`; a pair of surrogates is two.
pub(in crate::result) fn unit(raw: &[u8], at: usize) -> Option<Unit> {
    let first = *raw.get(at)?;
    Some(match first {
        b'\\' => escape(raw, at),
        0..0x80 => Unit {
            code: u32::from(first),
            end: at + 1,
        },
        0x80.. => beyond_ascii(raw, at, first),
    })
}

/// What begins at `at`; a pair of surrogates is one.
pub(in crate::result) fn character(raw: &[u8], at: usize) -> Option<Unit> {
    let first = unit(raw, at)?;
    if !first.is_high() {
        return Some(first);
    }
    Some(match unit(raw, first.end) {
        Some(second) if second.is_low() => Unit {
            code: joined(first.code, second.code),
            end: second.end,
        },
        Some(_) | None => first,
    })
}

/// The character that two halves make.
pub(in crate::result) fn joined(high: u32, low: u32) -> u32 {
    0x1_0000 + ((high & 0x3FF) << 10) + (low & 0x3FF)
}

/// The literal as its readers see it.
pub(in crate::result) fn decoded(raw: &[u8]) -> String {
    let mut text = String::with_capacity(raw.len());
    let mut at = 0;
    while let Some(unit) = character(raw, at) {
        text.push(unit.character());
        at = unit.end;
    }
    text
}

/// How many bytes from the start are printable ASCII that stands for itself: nothing to decode, nothing to strip.
pub(in crate::result) fn printable_length(raw: &[u8]) -> usize {
    let odd = |byte: &u8| byte.wrapping_sub(0x20) > 0x5E || *byte == b'\\';
    // Short runs are most runs where the text is not plain; they do not pay for wide steps.
    if let Some(place) = raw.iter().take(16).position(odd) {
        return place;
    }
    let mut length = 0;
    // The inner fold has no way out, so the compiler makes it wide.
    for chunk in raw.chunks(64) {
        if chunk.iter().fold(false, |found, byte| found | odd(byte)) {
            return length + chunk.iter().position(odd).unwrap_or(chunk.len());
        }
        length += chunk.len();
    }
    length
}

fn escape(raw: &[u8], at: usize) -> Unit {
    let short = |code: char| Unit {
        code: u32::from(code),
        end: at + 2,
    };
    match raw.get(at + 1) {
        Some(b'"') => short('"'),
        Some(b'/') => short('/'),
        Some(b'\\') => short('\\'),
        Some(b'b') => short('\u{8}'),
        Some(b'f') => short('\u{c}'),
        Some(b'n') => short('\n'),
        Some(b'r') => short('\r'),
        Some(b't') => short('\t'),
        Some(b'u') => match raw.get(at + 2..at + 6).and_then(four_digits) {
            Some(code) => Unit { code, end: at + 6 },
            None => backslash(at),
        },
        Some(_) | None => backslash(at),
    }
}

/// A backslash that begins no escape.
fn backslash(at: usize) -> Unit {
    Unit {
        code: u32::from('\\'),
        end: at + 1,
    }
}

fn four_digits(digits: &[u8]) -> Option<u32> {
    digits
        .iter()
        .try_fold(0, |code, digit| Some(code << 4 | char::from(*digit).to_digit(16)?))
}

fn beyond_ascii(raw: &[u8], at: usize, first: u8) -> Unit {
    let tail = |place: usize| match raw.get(at + place) {
        Some(byte @ 0x80..=0xBF) => Some(u32::from(byte & 0x3F)),
        Some(_) | None => None,
    };
    let lead = |bits: u8| u32::from(first & bits);
    let read = || match first {
        0xC2..=0xDF => Some((lead(0x1F) << 6 | tail(1)?, 2)),
        0xE0..=0xEF => Some((lead(0x0F) << 12 | tail(1)? << 6 | tail(2)?, 3)),
        0xF0..=0xF4 => Some((lead(0x07) << 18 | tail(1)? << 12 | tail(2)? << 6 | tail(3)?, 4)),
        _ => None,
    };
    let (code, length) = read().unwrap_or((u32::from(char::REPLACEMENT_CHARACTER), 1));
    Unit { code, end: at + length }
}
