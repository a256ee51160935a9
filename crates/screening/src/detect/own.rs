//! Our own tokens: a rule that is always on. Nobody but the gateway has use for one, so it is looked for in both
//! directions, whatever is switched on, and nobody can excuse it.

use std::sync::LazyLock;

use aho_corasick::packed::Searcher;
use memchr::memmem::find_iter;
use memchr::{memchr, memchr_iter, memchr3_iter};

use super::escape::character;
use super::hidden::is_hidden;
use super::{Detector, Pack, pack};

/// The rule of our own tokens.
pub const OWN_RULE: &str = "portreeve-token";

pub(super) const OWN: Pack<'static> = Pack {
    name: "own.toml",
    text: include_str!("own.toml"),
};

/// The rule of our own tokens, alone.
///
/// It is `None` only if the pack as shipped could not be read, which our tests exclude.
pub fn own_tokens() -> Option<&'static Detector> {
    static OWN_TOKENS: LazyLock<Option<Detector>> = LazyLock::new(|| pack::compile(OWN, &[]).ok());
    OWN_TOKENS.as_ref()
}

/// Whether one of our tokens could stand in `raw`, a JSON text, in any spelling that the detector reads. Costs far less than to
/// look for one.
#[must_use]
pub fn may_hold_own_token(raw: &[u8]) -> bool {
    // An automaton takes each byte in turn, which every result would pay for; this takes many at once. Where a machine cannot,
    // everything is looked through.
    static PLAIN: LazyLock<Option<Searcher>> = LazyLock::new(|| Searcher::new(SPELLINGS));
    PLAIN.as_ref().is_none_or(|plain| plain.find(raw).is_some()) || spells_letters(raw)
}

/// What `ptr_a` becomes: as it is, in base64 by where it begins, in hex, in base64 of UTF-16 in either order, and in base64 of base64.
#[rustfmt::skip]
const SPELLINGS: [&str; 18] = [
    "ptr_a", "cHRyX2", "B0cl9h", "wdHJfY", "7074725f61", "7074725F61",
    "cAB0AHIAXwBh", "AAdAByAF8AY", "wAHQAcgBfAG",
    "Y0hSeVgy", "NIUnlYM", "jSFJ5WD", "QjBjbDlo", "IwY2w5a", "CMGNsOW", "d2RISmZZ", "dkSEpmW", "3ZEhKZl",
];

/// Whether a letter of a token, or of what spells one, may be spelled otherwise (`\\u0070`, `%70`), or stand beside what nobody
/// sees. Hardly any text spells letters so: who does is looked through.
fn spells_letters(raw: &[u8]) -> bool {
    let after_letter = |at: usize| {
        at.checked_sub(1)
            .and_then(|at| raw.get(at))
            .is_some_and(|byte| is_word(*byte))
    };
    let spelled = |at: usize, digits: std::ops::Range<usize>| code(raw.get(at + digits.start..at + digits.end));
    let by_escape =
        |at: usize| spelled(at, 2..6).is_some_and(|code| is_letter(code) || (after_letter(at) && hides(code)));
    let by_percent = |at: usize| spelled(at, 1..3).is_some_and(is_letter);
    find_iter(raw, br"\u").any(by_escape)
        || find_iter(raw, br"\b").chain(find_iter(raw, br"\f")).any(after_letter)
        || memchr_iter(b'%', raw).any(by_percent)
        || memchr(0x7f, raw).is_some()
        || (!raw.is_ascii() && is_parted(raw))
}

/// Whether something that nobody sees follows a letter. Only what begins with one of these bytes can be such a thing, so that a
/// text full of quotes and umlauts is passed over nearly as fast as a plain one.
fn is_parted(raw: &[u8]) -> bool {
    let parts = |at: usize| {
        let before = at.checked_sub(1).and_then(|before| raw.get(before));
        before.is_some_and(|byte| is_word(*byte)) && raw.get(at..).and_then(character).is_some_and(is_hidden)
    };
    FIRST_BYTES
        .iter()
        .any(|[one, two, three]| memchr3_iter(*one, *two, *three, raw).any(parts))
}

/// The first bytes of everything beyond ASCII that nobody sees.
const FIRST_BYTES: [[u8; 3]; 3] = [[0xc2, 0xcd, 0xd8], [0xe1, 0xe2, 0xe3], [0xef, 0xf0, 0xf3]];

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn code(digits: Option<&[u8]>) -> Option<u32> {
    let digits = std::str::from_utf8(digits?).ok()?;
    u32::from_str_radix(digits, 16).ok()
}

fn is_letter(code: u32) -> bool {
    u8::try_from(code).is_ok_and(is_word)
}

/// Half of a pair may be half of something hidden.
fn hides(code: u32) -> bool {
    char::from_u32(code).is_none_or(is_hidden)
}

#[cfg(test)]
mod tests {
    use super::super::{Excuse, Joins, Piece, PieceKind};
    use super::*;

    fn token() -> String {
        format!("ptr_agt_{}", "0123456789abcdef".repeat(4))
    }

    fn base64(bytes: &[u8]) -> String {
        const SIGNS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let bits = |three: &[u8]| three.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
        let four = |three: &[u8]| {
            let (bits, signs) = (bits(three) << (24 - 8 * three.len()), three.len() + 1);
            (0..signs).map(move |at| char::from(SIGNS[(bits >> (18 - 6 * at) & 63) as usize]))
        };
        bytes.chunks(3).flat_map(four).collect()
    }

    fn finds(text: &str) -> bool {
        let piece = Piece {
            raw: text.as_bytes(),
            name: None,
            joins: Joins::Nothing,
            kind: PieceKind::Text,
        };
        let nobody = Excuse { server: "", tool: "" };
        !own_tokens().unwrap().find(&[piece], &nobody).is_empty()
    }

    #[test]
    fn whatever_nobody_sees_begins_with_one_of_the_first_bytes() {
        let hidden = ('\u{80}'..=char::MAX).filter(|found| is_hidden(*found));
        for found in hidden {
            let first = found.to_string().bytes().next().unwrap();
            assert!(
                FIRST_BYTES.as_flattened().contains(&first),
                "{:04X} begins with {first:02x}",
                u32::from(found)
            );
            assert!(is_parted(format!("pt{found}r").as_bytes()), "{:04X}", u32::from(found));
        }
    }

    #[test]
    fn every_spelling_of_a_token_is_suspected_and_found() {
        let token = token();
        let mut spelled = vec![
            token.clone(),
            token.replacen('p', "\\u0070", 1),
            token.replacen("ptr", "pt\u{200b}r", 1),
            token.replacen("ptr", "%70tr", 1).replace('_', "%5f"),
            token.bytes().map(|byte| format!("{byte:02x}")).collect(),
            token.bytes().map(|byte| format!("{byte:02X}")).collect(),
        ];
        let coded = base64(token.as_bytes());
        spelled.extend([
            coded.replacen('y', "\\u0079", 1),
            coded.replacen('R', "R\u{200b}", 1),
            coded.replacen('R', "R\\u200b", 1),
            token.replacen("ptr", "p\\btr", 1),
            token.replacen("ptr", "pt\\fr", 1),
        ]);
        for shift in ["", "x", "xy"] {
            spelled.push(base64(format!("{shift}{token}").as_bytes()));
        }
        for text in spelled {
            assert!(may_hold_own_token(text.as_bytes()), "{text}");
            assert!(finds(&text), "{text}");
        }
    }

    #[test]
    fn a_token_in_utf_16_or_in_base64_twice_is_suspected() {
        let token = token();
        for shift in ["", "x", "xy", "xyz"] {
            let text = format!("{shift}{token}");
            let units: Vec<u16> = text.encode_utf16().collect();
            let little: Vec<u8> = units.iter().flat_map(|unit| unit.to_le_bytes()).collect();
            let big: Vec<u8> = units.iter().flat_map(|unit| unit.to_be_bytes()).collect();
            let marked = [[0xff, 0xfe].as_slice(), &little].concat();
            for bytes in [little, big, marked, base64(text.as_bytes()).into_bytes()] {
                for before in 0..3 {
                    let coded = base64(&[vec![b'x'; before], bytes.clone()].concat());
                    assert!(may_hold_own_token(coded.as_bytes()), "{coded}");
                }
            }
        }
    }

    #[test]
    fn what_most_messages_hold_is_not_suspected() {
        for text in [
            r#"{"content":[{"type":"text","text":"a \"b\"\n\tc 100% é it’s 日本 \u00e9t\u00e9 \u2019"}]}"#,
            "https://x.example/a%20b%2Fc",
            "pointer_a ptr_b",
        ] {
            assert!(!may_hold_own_token(text.as_bytes()), "{text}");
        }
    }
}
