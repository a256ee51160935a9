//! Takes one layer of escapes off: those of JSON strings and of URLs, each of which may stand for any of the bytes.

use memchr::memchr2;

/// What is below one layer of escapes; `None` where there is none.
pub(super) fn decoded(text: &[u8]) -> Option<Vec<u8>> {
    memchr2(b'\\', b'%', text)?;
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    let mut changed = false;
    while let Some(at) = memchr2(b'\\', b'%', rest) {
        let (plain, escape) = rest.split_at(at);
        out.extend_from_slice(plain);
        match unescape(escape) {
            Some((byte, length)) => {
                out.extend(byte);
                rest = escape.get(length..).unwrap_or_default();
                changed = true;
            }
            None => {
                out.extend(escape.first());
                rest = escape.get(1..).unwrap_or_default();
            }
        }
    }
    out.extend_from_slice(rest);
    changed.then_some(out)
}

/// The byte that an escape stands for, and the length of the escape. A character that no credential has stands for none.
fn unescape(escape: &[u8]) -> Option<(Option<u8>, usize)> {
    match escape {
        [b'%', high, low, ..] => Some((Some(hex(&[*high, *low])? as u8), 3)),
        [b'\\', b'u', digits @ ..] => {
            let character = hex(digits.get(..4)?)?;
            Some((u8::try_from(character).ok().filter(u8::is_ascii), 6))
        }
        [b'\\', b'x', high, low, ..] => Some((Some(hex(&[*high, *low])? as u8), 4)),
        [b'\\', b'b' | b'f' | b'n' | b'r' | b't', ..] => Some((Some(b' '), 2)),
        [b'\\', other, ..] => Some((Some(*other), 2)),
        _ => None,
    }
}

fn hex(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0, |value, digit| {
        let digit = char::from(*digit).to_digit(16)?;
        Some(value << 4 | digit)
    })
}
