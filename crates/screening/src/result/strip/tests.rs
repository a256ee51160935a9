//! Every class and every spelling, against the Unicode data, against another parser of terminals, and against itself.

use icu_properties::CodePointSetData;
use icu_properties::props::{DefaultIgnorableCodePoint, ExtendedPictographic};
use proptest::prelude::*;

use super::tables::{PICTOGRAPHS, class_of, is_pictograph};
use super::*;
use crate::result::edit::units::{decoded, unit};

/// What is left of a literal.
fn left(raw: &[u8], classes: Classes) -> Vec<u8> {
    without(raw, &strip(raw, classes, &[]).removals)
}

fn without(raw: &[u8], removals: &[Range<usize>]) -> Vec<u8> {
    let mut left = Vec::new();
    let mut at = 0;
    for removal in removals {
        assert!(at <= removal.start && removal.start < removal.end, "{removals:?}");
        left.extend_from_slice(&raw[at..removal.start]);
        at = removal.end;
    }
    left.extend_from_slice(&raw[at..]);
    left
}

/// A literal as writers of JSON spell the text, control characters escaped.
fn literal(text: &str) -> String {
    let quoted = serde_json::to_string(text).unwrap();
    quoted.get(1..quoted.len() - 1).unwrap().to_owned()
}

/// A literal in which everything is an escape.
fn escaped(text: &str) -> String {
    text.encode_utf16().map(|unit| format!("\\u{unit:04X}")).collect()
}

/// What is left of a text, whichever way it is spelled.
fn text_left(text: &str, classes: Classes) -> String {
    let left = |raw: String| decoded(&left(raw.as_bytes(), classes));
    let plain = left(literal(text));
    if !text.contains('\\') {
        assert_eq!(plain, left(escaped(text)), "{text:?}");
    }
    plain
}

/// A list of one; the brackets alone look like a slip.
fn one(range: Range<usize>) -> Vec<Range<usize>> {
    std::iter::once(range).collect()
}

fn only(class: Class) -> Classes {
    Classes::from_iter([class])
}

#[test]
fn the_tables_are_those_of_unicode() {
    let ignorable = CodePointSetData::new::<DefaultIgnorableCodePoint>();
    let pictographs = CodePointSetData::new::<ExtendedPictographic>();
    let bidi = |code: u32| matches!(code, 0x202A..=0x202E | 0x2066..=0x2069 | 0x200E | 0x200F | 0x061C);
    for code in 0..=0x10_FFFF {
        let expected = match code {
            0x09 | 0x0A | 0x0D => None,
            0..=0x1F | 0x7F..=0x9F => Some(Class::C0C1),
            _ if bidi(code) => Some(Class::Bidi),
            0xFFF9..=0xFFFB => Some(Class::ZeroWidth),
            _ => ignorable.contains32(code).then_some(Class::ZeroWidth),
        };
        assert_eq!(class_of(code), expected, "{code:#x}");
        assert_eq!(is_pictograph(code), pictographs.contains32(code), "{code:#x}");
    }
    let ranges: Vec<_> = pictographs
        .iter_ranges()
        .map(|range| (*range.start(), *range.end()))
        .collect();
    assert_eq!(PICTOGRAPHS.to_vec(), ranges);
}

// R074
#[test]
fn every_code_point_of_a_class_goes_in_every_spelling_and_no_other_does() {
    let most = (0..0x3200).chain((0x3200..0xFE00).step_by(97)).chain(0xFE00..0x1_0000);
    for code in most
        .chain(0x1_BC00..0x1_BD00)
        .chain(0x1_D100..0x1_D200)
        .chain((0xE_0000..0xE_1010).step_by(7))
    {
        let Some(letter) = char::from_u32(code) else { continue };
        let text = format!("a{letter}b");
        let nested = format!("a{}b", escaped(&letter.to_string()));
        for (classes, gone) in [
            (only(Class::C0C1), class_of(code) == Some(Class::C0C1)),
            (only(Class::Bidi), class_of(code) == Some(Class::Bidi)),
            (only(Class::ZeroWidth), class_of(code) == Some(Class::ZeroWidth)),
        ] {
            assert_eq!(text_left(&text, classes), if gone { "ab" } else { &text }, "{code:#x}");
            assert_eq!(
                text_left(&nested, classes),
                if gone { "ab" } else { &nested },
                "{code:#x}"
            );
        }
    }
}

// R074, Attack 15
#[test]
fn sequences_go_with_what_they_carry() {
    for (text, rest) in [
        ("a\u{1b}[31mb", "ab"),
        ("a\u{1b}[38:2::255:0:0mb", "ab"),
        ("a\u{1b}[?25;<=>lb", "ab"),
        ("a\u{1b}[1 qb", "ab"),
        ("a\u{9b}31mb", "ab"),
        ("a\u{1b}]0;title\u{7}b", "ab"),
        ("a\u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{1b}\\b", "alinkb"),
        ("a\u{9d}0;title\u{9c}b", "ab"),
        ("a\u{1b}Pq#0;2\nmore\u{1b}\\b", "ab"),
        ("a\u{1b}_payload\u{1b}\\b", "ab"),
        ("a\u{1b}^payload\u{9c}b", "ab"),
        ("a\u{1b}Xpayload\u{7}b", "ab"),
        ("a\u{90}p\u{9c}b\u{98}p\u{9c}c\u{9e}p\u{9c}d\u{9f}p\u{9c}e", "abcde"),
        // Unterminated: to the end of the line, or of the text.
        ("a\u{1b}]0;title\nb", "a\nb"),
        ("a\u{1b}]0;title", "a"),
        ("a\u{9f}title\nb\u{1b}[0mc", "a\nbc"),
        // nF, Fp, Fe, Fs, alone.
        ("a\u{1b}(Bb", "ab"),
        ("a\u{1b}$(Cb", "ab"),
        ("a\u{1b}7b", "ab"),
        ("a\u{1b}Mb", "ab"),
        ("a\u{1b}cb", "ab"),
        ("a\u{85}b\u{84}c", "abc"),
        ("ab\u{1b}", "ab"),
        ("ab\u{1b}é", "abé"),
        // Begun anew, broken off, interrupted.
        ("a\u{1b}[3\u{1b}[0mb", "ab"),
        ("a\u{1b}]0;t\u{1b}[31mb", "ab"),
        ("a\u{1b}[3\u{18}1mb", "a\u{18}1mb"),
        ("a\u{1b}[3\n1mb", "a\nb"),
        ("a\u{1b}[31é", "aé"),
        ("a\u{1b}\u{1b}[0m[31mb", "a[31mb"),
    ] {
        assert_eq!(text_left(text, only(Class::Ansi)), rest, "{text:?}");
    }
}

// Attack 16
#[test]
fn a_nested_sequence_leaves_none_that_lives() {
    let stripped = strip(b"a\\u001b\\u001b[0m[31mb", Classes::ALL, &[]);
    assert_eq!(
        stripped,
        Stripped {
            removals: one(1..16),
            counts: Counts {
                ansi: 2,
                ..Counts::default()
            },
        }
    );
}

// Attack 17
#[test]
fn what_is_spelled_in_the_text_goes_too() {
    for (text, rest) in [
        (r"a\u001b[31mb", "ab"),
        (r"a\u001B]0;t\u0007b", "ab"),
        (r"a\u001b]0;t\u001b\\b", "ab"),
        (r"a\u009b31mb", "ab"),
        (r"a\u200bb\u202ec\u00add", "abcd"),
        (r"a\udb40\udc41b", "ab"),
        // Two backslashes are one that is meant, and no escape follows it.
        (r"a\\u001b[31mb", r"a\\u001b[31mb"),
        (r"a\\\u001b[31mb", r"a\\b"),
        (r"a\\\\u200bb", r"a\\\\u200bb"),
        // Words that begin alike stay.
        (r"C:\users\u00e9\bin\foo \u00", r"C:\users\u00e9\bin\foo \u00"),
        (r"a\ud83d\udc69\u200d\ud83d\udc67b", r"a\ud83d\udc69\u200d\ud83d\udc67b"),
        // The string in which something is spelled stays whole.
        (r#"{"a":"\u001b]0;t","b":1}"#, r#"{"a":"","b":1}"#),
        (r#"{"a":"\u001b","b":1}"#, r#"{"a":"","b":1}"#),
        (r#"{"a":"\u001b]0;\"t\"\u0007x"}"#, r#"{"a":"x"}"#),
        (r#"{"a":"\u001b[3\n1mx"}"#, r#"{"a":"\nx"}"#),
    ] {
        assert_eq!(text_left(text, Classes::ALL), rest, "{text:?}");
    }
}

#[test]
fn what_comes_together_is_looked_at_again() {
    for (text, rest) in [
        ("\\u00\u{200b}1b[31ma", "a"),
        (r"\u00\u200b1b[31ma", "a"),
        (r"\u20\u20\u200b0b0ba", "a"),
        ("\u{1b}\\\\u001b[0ma", "a"),
    ] {
        assert_eq!(text_left(text, Classes::ALL), rest, "{text:?}");
    }
    // Halves of a pair, kept apart by something that goes.
    assert_eq!(left(br"a\udb40\u200b\udc41b", Classes::ALL), b"ab");
    assert_eq!(left(br"a\ud83d\u200b\ude00b", Classes::ALL), br"a\ud83d\ude00b");
    // Deeper than anybody writes: the spelling itself goes.
    let nested = (0..10_000).fold(String::new(), |inner, _| format!(r"\u20{inner}0b"));
    assert_eq!(text_left(&format!("a{nested}b"), Classes::ALL).matches('\\').count(), 0);
}

#[test]
fn pictures_stay_whole() {
    for text in [
        "👨\u{200d}👩\u{200d}👧\u{200d}👦",
        "👩🏽\u{200d}🚀",
        "❤\u{fe0f}\u{200d}🔥",
        "🏳\u{fe0f}\u{200d}🌈",
        "☺\u{fe0e} ☺\u{fe0f}",
        "1\u{fe0f}\u{20e3}#\u{fe0f}\u{20e3}",
        "🏴\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f}",
        "🏴\u{e0067}\u{e0062}\u{e0073}\u{e0063}\u{e0074}\u{e007f}x",
        "🏴\u{e0067}\u{e0062}\u{e0077}\u{e006c}\u{e0073}\u{e007f}🏴",
        "🇩🇪 ©\u{fe0f}",
        "\u{2028}\u{2029}\u{e000}\t\r\n",
    ] {
        assert_eq!(text_left(text, Classes::ALL), text, "{text:?}");
    }
}

// Attack 14
#[test]
fn what_hides_behind_a_picture_goes_and_the_picture_stays() {
    for (text, rest) in [
        ("😀\u{fe0f}\u{fe0e}\u{fe01}\u{e0101}a", "😀\u{fe0f}a"),
        ("😀\u{e0041}\u{e0042}", "😀"),
        ("🏴\u{e0067}\u{e0062}\u{e0065}\u{e007f}", "🏴"),
        ("🏴\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}", "🏴"),
        ("👩\u{200d}\u{200d}👧", "👩👧"),
        ("👩\u{200d}a", "👩a"),
        ("a\u{200d}👩", "a👩"),
        ("1\u{fe0f}2\u{fe0e}", "12"),
        ("a\u{ad}\u{34f}\u{115f}\u{3164}\u{ffa0}\u{7f}b", "ab"),
        ("👩\u{200d}\u{1b}[0m👧", "👩👧"),
        // A picture that is only spelled is none for what stands for itself.
        ("\\ud83d\\udc69\u{fe0f}", "\\ud83d\\udc69"),
    ] {
        assert_eq!(text_left(text, Classes::ALL), rest, "{text:?}");
    }
}

// R084
#[test]
fn each_class_strips_its_own_and_is_counted() {
    let raw = literal("\u{1b}[31m\u{7}\u{202e}\u{200b}x");
    let raw = raw.as_bytes();
    let rest = |class| decoded(&left(raw, only(class)));
    assert_eq!(rest(Class::Ansi), "\u{7}\u{202e}\u{200b}x");
    assert_eq!(rest(Class::C0C1), "[31m\u{202e}\u{200b}x");
    assert_eq!(rest(Class::Bidi), "\u{1b}[31m\u{7}\u{200b}x");
    assert_eq!(rest(Class::ZeroWidth), "\u{1b}[31m\u{7}\u{202e}x");
    assert_eq!(strip(raw, Classes::default(), &[]), Stripped::default());
    let counts = Counts {
        ansi: 1,
        c0c1: 1,
        bidi: 1,
        zero_width: 1,
    };
    assert_eq!(strip(raw, Classes::ALL, &[]).counts, counts);
    assert_eq!(Classes::from_iter(Class::ALL), Classes::ALL);
    assert_eq!(Class::ALL.map(Class::as_str), ["ansi", "c0c1", "bidi", "zero_width"]);
}

#[test]
fn a_mask_is_no_part_of_a_sequence_but_may_be_carried_by_one() {
    let raw = br"\u001bSECRET[31m";
    assert_eq!(strip(raw, Classes::ALL, &one(6..12)).removals, one(0..6));
    let raw = br"\u001b]0;SECRET more\u0007x";
    assert_eq!(strip(raw, Classes::ALL, &one(9..15)).removals, one(0..26));
}

/// Pieces that sequences and escapes are made of.
fn hostile() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("\u{1b}"),
        Just("["),
        Just("]"),
        Just("31m"),
        Just(";"),
        Just("\u{7}"),
        Just("\u{9c}"),
        Just("\u{9b}"),
        Just("\u{9d}"),
        Just("\\"),
        Just("\\\\"),
        Just("\\u"),
        Just("00"),
        Just("1b"),
        Just("20"),
        Just("0b"),
        Just("0d"),
        Just("\\u001b"),
        Just("\\u200b"),
        Just("\\u0007"),
        Just("\\ud83d"),
        Just("\\udc69"),
        Just("\\udb40"),
        Just("\\udc41"),
        Just("\u{200b}"),
        Just("\u{200d}"),
        Just("👩"),
        Just("😀"),
        Just("\u{fe0f}"),
        Just("\u{202e}"),
        Just("\""),
        Just("a"),
        Just("\n"),
        Just("P"),
        Just("\u{18}"),
        Just("é"),
        Just("🏴"),
        Just("\u{e0067}"),
        Just("\u{e007f}"),
        Just("1"),
        Just("\u{20e3}"),
    ];
    proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

/// As JSON, some of the characters in escapes, halves of pairs left alone here and there.
fn spelled(text: &str, mut choice: u64) -> String {
    let mut raw = String::new();
    for letter in text.chars() {
        choice = choice.rotate_left(1);
        match choice % 5 {
            0 => raw.push_str(&escaped(&letter.to_string())),
            1 if choice % 16 == 1 => raw.push_str("\\udb40"),
            _ => raw.push_str(&literal(&letter.to_string())),
        }
    }
    raw
}

/// No code point of `classes` but those that belong to a picture; written apart from the code under test.
fn is_clean(text: &[u32], classes: Classes) -> bool {
    let picture = |code: Option<&u32>| code.is_some_and(|code| is_pictograph(*code));
    (0..text.len()).all(|at| {
        let code = text[at];
        let before = |by: usize| at.checked_sub(by).and_then(|at| text.get(at));
        let kept = match code {
            0x200D => (picture(before(1)) || picture(before(2))) && picture(text.get(at + 1)),
            0xFE0E | 0xFE0F => picture(before(1)) || text.get(at + 1) == Some(&0x20E3),
            0xE0000..=0xE007F => text[..at].contains(&0x1F3F4),
            _ => false,
        };
        let ansi = classes.holds(Class::Ansi) && matches!(code, 0x1B | 0x80..=0x9F);
        kept || !(ansi || class_of(code).is_some_and(|class| classes.holds(class)))
    })
}

fn codes(raw: &[u8]) -> Vec<u32> {
    let (mut codes, mut at) = (Vec::new(), 0);
    while let Some(next) = crate::result::edit::units::character(raw, at) {
        codes.push(next.code);
        at = next.end;
    }
    codes
}

proptest! {
    #[test]
    fn stripped_twice_is_stripped_once_and_nothing_is_left(
        text in hostile(),
        choice in any::<u64>(),
        bits in 0_u8..16,
    ) {
        let raw = spelled(&text, choice);
        let classes = Classes(bits);
        let stripped = strip(raw.as_bytes(), classes, &[]);
        let once = without(raw.as_bytes(), &stripped.removals);
        prop_assert_eq!(strip(&once, classes, &[]), Stripped::default(), "{} {:?}", raw, std::str::from_utf8(&once));
        // Still the inside of a string, and what is left stood there before.
        prop_assert!(std::str::from_utf8(&once).is_ok());
        let whole = [b"\"", once.as_slice(), b"\""].concat();
        prop_assert!(vocabulary::json::span::Scanner::new(&whole, 2).value(0).is_ok());
        prop_assert!(is_clean(&codes(&once), classes), "{:?}", once);
        // Nor is it when the text is read as JSON once more.
        let inner = decoded(&once);
        if !inner.contains(r"\\") {
            // `\b` and `\f` are no such spelling: paths and patterns are full of them.
            let inner: Vec<u32> = codes(inner.as_bytes()).into_iter().filter(|code| !matches!(code, 0x08 | 0x0C)).collect();
            prop_assert!(is_clean(&inner, classes), "{:?}", inner);
        }
        prop_assert_eq!(stripped.removals.is_empty(), stripped.counts == Counts::default());
    }

    #[test]
    fn any_bytes_are_taken(raw in proptest::collection::vec(any::<u8>(), 0..200), bits in 0_u8..16) {
        let classes = Classes(bits);
        // No panic; what is no literal may come together to anything.
        let _ = left(&raw, classes);
        let _ = strip(&raw, classes, &[3..9, 11..12]);
    }

    #[test]
    fn nothing_is_taken_from_honest_text(text in "[ -\\[\\]-~\\t\\n\\ré-ž一-龥😀-😿]{0,60}") {
        prop_assert_eq!(text_left(&text, Classes::ALL), text);
    }

    #[test]
    fn agrees_with_a_parser_of_terminals(
        pieces in proptest::collection::vec(prop_oneof![
            Just("\u{1b}["), Just("31"), Just(":2"), Just("m"), Just("\u{1b}]0;"), Just("\u{7}"), Just("\u{1b}\\"),
            Just("\u{1b}("), Just("B"), Just("\u{1b}P"), Just("\u{1b}_"), Just("text"), Just("\u{1b}"), Just(" "), Just("?"),
        ], 0..30),
        bells in any::<bool>(),
    ) {
        // It ends strings with a bell only if they are OSC.
        let text = if bells {
            pieces.concat().replace("\u{1b}P", "").replace("\u{1b}_", "")
        } else {
            pieces.concat().replace('\u{7}', "")
        };
        let theirs = strip_ansi_escapes::strip_str(&text);
        let ours = text_left(&text, Classes::from_iter([Class::Ansi, Class::C0C1]));
        prop_assert_eq!(ours, theirs, "{:?}", text);
    }
}

#[test]
fn time_grows_with_length_alone() {
    for piece in [
        "\u{1b}]",
        "\u{1b}]\n",
        "\u{1b}[",
        "🏴\u{e0067}",
        "👩\u{200d}",
        "\\u00",
        "\\",
        "\u{1b}]\"",
        r"\u001b]x\n",
    ] {
        let raw = literal(&piece.repeat(60_000));
        let begun = std::time::Instant::now();
        let once = left(raw.as_bytes(), Classes::ALL);
        assert!(begun.elapsed().as_secs() < 20, "{piece:?}");
        assert_eq!(left(&once, Classes::ALL), once, "{piece:?}");
    }
}

#[test]
fn units_cover_every_byte_once() {
    let raw = br"a\u00e9\n\ud83d\ude00\\\q\u12";
    let mut at = 0;
    let mut ends = Vec::new();
    while let Some(next) = unit(raw, at) {
        at = next.end;
        ends.push(at);
    }
    assert_eq!(ends, [1, 7, 9, 15, 21, 23, 24, 25, 26, 27, 28, 29]);
}

#[test]
fn a_class_that_is_named_twice_is_among_them() {
    let twice: Classes = [Class::Bidi, Class::Ansi, Class::Bidi].into_iter().collect();
    assert!(twice.holds(Class::Bidi) && twice.holds(Class::Ansi));
    assert!(!twice.holds(Class::C0C1) && !twice.holds(Class::ZeroWidth));
}

#[test]
fn what_is_more_than_can_be_taken_out_is_not_complete() {
    let of = |removals: usize| Stripped {
        removals: vec![0..0; removals],
        counts: Counts::default(),
    };
    assert!(of(MOST_EDITS).is_complete());
    assert!(!of(MOST_EDITS + 1).is_complete());
}

#[test]
fn two_lists_become_one_in_order() {
    let merge = |before: &[Range<usize>], found: &[Range<usize>]| merged(before, found.to_vec());
    assert_eq!(merge(&[4..6, 7..8], &[0..2, 9..10]), [0..2, 4..6, 7..8, 9..10]);
    assert_eq!(merge(&[0..2, 9..10], &[4..6, 7..8]), [0..2, 4..6, 7..8, 9..10]);
    assert_eq!(merge(&[2..4, 10..12], &[0..2, 4..5, 11..14]), [0..5, 10..14]);
}

#[test]
fn a_short_escape_within_a_spelled_sequence_goes_as_a_whole() {
    assert_eq!(text_left(r"a\u001b[3\b1mz", Classes::ALL), "az");
}

#[test]
fn what_a_sequence_carries_ends_where_another_begins_or_the_first_line_does() {
    for (text, rest) in [
        ("a\u{1b}]0;t\u{18}b", "a\u{18}b"),
        ("a\u{1b}]0;t\u{9b}1mb", "ab"),
        ("a\u{1b}]0;one\ntwo\nthree", "a\ntwo\nthree"),
    ] {
        assert_eq!(text_left(text, only(Class::Ansi)), rest, "{text:?}");
    }
}

#[test]
fn a_selector_stays_in_a_keycap_and_behind_no_letter() {
    for (text, rest) in [
        ("1\u{fe0f}\u{20e3}", "1\u{fe0f}\u{20e3}"),
        ("a\u{fe0f}\u{20e3}", "a\u{20e3}"),
        ("1\u{fe0f}x", "1x"),
    ] {
        assert_eq!(text_left(text, Classes::ALL), rest, "{text:?}");
    }
}
