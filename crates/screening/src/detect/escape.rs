//! Reads the content of a JSON string sign by sign, through two levels of escapes: its own, and those of JSON (or
//! code) that is written inside it.

/// One sign of the text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sign {
    /// A character. Half a surrogate pair counts as U+FFFD.
    Char(char),
    /// A byte that belongs to no character.
    Byte(u8),
}

/// The sign at `at`, both levels decoded, and where the next one begins; `None` at the end.
pub(super) fn sign(raw: &[u8], at: usize) -> Option<(Sign, usize)> {
    let (sign, next) = outer(raw, at)?;
    if sign != Sign::Char('\\') {
        return Some((sign, next));
    }
    Some(inner(raw, next).unwrap_or((sign, next)))
}

/// The sign at `at` with the string's own escapes decoded.
pub(super) fn outer(raw: &[u8], at: usize) -> Option<(Sign, usize)> {
    let byte = *raw.get(at)?;
    if byte == b'\\' {
        return Some(escaped(raw, at).unwrap_or((Sign::Char('\\'), at + 1)));
    }
    if byte.is_ascii() {
        return Some((Sign::Char(char::from(byte)), at + 1));
    }
    Some(match character(raw.get(at..).unwrap_or_default()) {
        Some(found) => (Sign::Char(found), at + found.len_utf8()),
        None => (Sign::Byte(byte), at + 1),
    })
}

fn escaped(raw: &[u8], at: usize) -> Option<(Sign, usize)> {
    let letter = char::from(*raw.get(at + 1)?);
    if letter != 'u' {
        return short(letter).map(|found| (Sign::Char(found), at + 2));
    }
    let high = four(raw.get(at + 2..at + 6)?.iter().map(|digit| char::from(*digit)))?;
    let low = || {
        let pair = raw.get(at + 6..at + 12)?.strip_prefix(b"\\u")?;
        four(pair.iter().map(|digit| char::from(*digit)))
    };
    Some(match low().and_then(|low| pair(high, low)) {
        Some(found) => (Sign::Char(found), at + 12),
        None => (Sign::Char(char::from_u32(high).unwrap_or('\u{fffd}')), at + 6),
    })
}

/// The escape whose backslash was itself escaped and ends before `at`.
fn inner(raw: &[u8], at: usize) -> Option<(Sign, usize)> {
    let (letter, next) = letter(raw, at)?;
    if letter != 'u' {
        return short(letter).map(|found| (Sign::Char(found), next));
    }
    let (high, next) = four_inner(raw, next)?;
    let low = || {
        let (slash, after) = letter_at(raw, next, '\\')?;
        let (_, after) = letter_at(raw, after, 'u')?;
        let (low, after) = four_inner(raw, after)?;
        pair(high, low).map(|found| (slash, found, after))
    };
    Some(match low() {
        Some((_, found, after)) => (Sign::Char(found), after),
        None => (Sign::Char(char::from_u32(high).unwrap_or('\u{fffd}')), next),
    })
}

fn letter(raw: &[u8], at: usize) -> Option<(char, usize)> {
    match outer(raw, at)? {
        (Sign::Char(found), next) => Some((found, next)),
        (Sign::Byte(_), _) => None,
    }
}

fn letter_at(raw: &[u8], at: usize, wanted: char) -> Option<(char, usize)> {
    letter(raw, at).filter(|(found, _)| *found == wanted)
}

fn four_inner(raw: &[u8], at: usize) -> Option<(u32, usize)> {
    let mut next = at;
    let mut digits = ['\0'; 4];
    for digit in &mut digits {
        (*digit, next) = letter(raw, next)?;
    }
    four(digits.into_iter()).map(|value| (value, next))
}

fn four(digits: impl Iterator<Item = char>) -> Option<u32> {
    digits
        .take(4)
        .try_fold(0, |value, digit| Some(value << 4 | digit.to_digit(16)?))
}

fn pair(high: u32, low: u32) -> Option<char> {
    let halves = (0xd800..0xdc00).contains(&high) && (0xdc00..0xe000).contains(&low);
    halves.then(|| char::from_u32(0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00)))?
}

fn short(letter: char) -> Option<char> {
    Some(match letter {
        '"' | '\\' | '/' => letter,
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        _ => return None,
    })
}

/// The first character of bytes that do not begin with an ASCII one.
pub(super) fn character(bytes: &[u8]) -> Option<char> {
    let six = |byte: u8| (byte & 0xc0 == 0x80).then_some(u32::from(byte & 0x3f));
    let (code, least) = match *bytes {
        [first @ 0xc0..=0xdf, second, ..] => (u32::from(first & 0x1f) << 6 | six(second)?, 0x80),
        [first @ 0xe0..=0xef, second, third, ..] => {
            (u32::from(first & 0x0f) << 12 | six(second)? << 6 | six(third)?, 0x800)
        }
        [first @ 0xf0..=0xf7, second, third, fourth, ..] => (
            u32::from(first & 7) << 18 | six(second)? << 12 | six(third)? << 6 | six(fourth)?,
            0x1_0000,
        ),
        _ => return None,
    };
    char::from_u32(code).filter(|_| code >= least)
}
