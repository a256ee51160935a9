//! What is outside of the ranges leaves as it came.

mod speed;
mod together;

use proptest::prelude::*;

use super::units::decoded;
use super::*;

fn edit(range: Range<usize>, with: &str) -> Edit {
    Edit {
        range,
        with: Cow::Owned(with.to_owned()),
    }
}

fn one(range: Range<usize>) -> Vec<Range<usize>> {
    std::iter::once(range).collect()
}

fn apply(text: &str, edits: impl IntoIterator<Item = Edit>) -> Result<Bytes, Overlap> {
    Edits(edits.into_iter().collect()).apply(&Bytes::copy_from_slice(text.as_bytes()))
}

#[test]
fn without_edits_the_very_bytes_leave() {
    let bytes = Bytes::from_static(b"{\"a\": 1.0 }");
    let same = Edits::default().apply(&bytes).unwrap();
    assert_eq!(same.as_ptr(), bytes.as_ptr());
}

#[test]
fn edits_are_applied_in_their_places_whatever_their_order() {
    let edits = [
        edit(6..6, "!"),
        edit(0..1, "A"),
        edit(3..5, ""),
        edit(0..0, "<"),
        edit(6..6, ">"),
    ];
    assert_eq!(apply("abcdef", edits).unwrap(), "<Abcf!>");
    let mut shifted = Edits::default();
    shifted.add_at(2, vec![edit(0..1, "C")]);
    shifted.add(edit(0..1, "A"));
    assert_eq!(shifted.apply(&Bytes::from_static(b"abcd")).unwrap(), "AbCd");
}

#[test]
fn edits_that_overlap_or_lie_outside_are_refused() {
    assert_eq!(apply("abcdef", [edit(0..3, ""), edit(2..4, "")]), Err(Overlap));
    assert_eq!(apply("abcdef", [edit(0..7, "")]), Err(Overlap));
    assert_eq!(apply("abcdef", [edit(7..7, "x")]), Err(Overlap));
    assert_eq!(apply("abcdef", [edit(2..4, "x"), edit(3..3, "y")]), Err(Overlap));
}

#[test]
#[expect(clippy::reversed_empty_ranges, reason = "just what must not do harm")]
fn a_range_that_runs_backwards_does_no_harm() {
    assert_eq!(apply("abcdef", [edit(4..2, "x")]).unwrap(), "abcdxef");
}

#[test]
fn removals_go_beneath_masks() {
    let masks = || vec![edit(10..20, "[M]"), edit(30..40, "[N]")];
    let beneath = |removals: &[Range<usize>]| {
        let edits = removed_beneath(masks(), removals);
        edits
            .into_iter()
            .filter(|edit| edit.with.is_empty())
            .map(|edit| edit.range)
            .collect::<Vec<_>>()
    };
    assert_eq!(beneath(&[]), Vec::<Range<usize>>::new());
    assert_eq!(beneath(&[0..5, 20..30, 45..50]), [0..5, 20..30, 45..50]);
    assert_eq!(beneath(&[5..12, 15..25]), [5..10, 20..25]);
    assert_eq!(beneath(&one(5..50)), [5..10, 20..30, 40..50]);
    assert_eq!(beneath(&[12..15, 16..18, 35..36]), Vec::<Range<usize>>::new());
    assert_eq!(beneath(&[10..20, 25..30]), one(25..30));
}

#[test]
fn a_literal_is_read_as_its_readers_read_it() {
    assert_eq!(
        decoded(br#"a\"\/\\\b\f\n\r\t\u00e9\ud83d\ude00"#),
        "a\"/\\\u{8}\u{c}\n\r\té😀"
    );
    assert_eq!(decoded(br"\ud83dx\ude00"), "\u{fffd}x\u{fffd}");
    assert_eq!(decoded(b"\\q\\u12\\"), "\\q\\u12\\");
    assert_eq!(decoded(b"\xff\xc3a\xe2\x82"), "\u{fffd}\u{fffd}a\u{fffd}\u{fffd}");
}

/// Ranges in order and apart, from the places where they begin and end.
fn ranges(mut places: Vec<usize>) -> Vec<Range<usize>> {
    places.sort_unstable();
    places.chunks_exact(2).map(|pair| pair[0]..pair[1]).collect()
}

proptest! {
    // A mutant that writes the document anew dies here.
    #[test]
    fn outside_of_the_ranges_all_bytes_are_the_same(
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
        places in proptest::collection::vec(0_usize..300, 0..12),
        with in "[a-z]{0,5}",
    ) {
        let places = places.into_iter().map(|place| place % (bytes.len() + 1)).collect();
        let ranges = ranges(places);
        let bytes = Bytes::from(bytes);
        let edited = Edits(ranges.iter().rev().map(|range| edit(range.clone(), &with)).collect()).apply(&bytes);
        let edited = edited.unwrap();
        let mut rest: &[u8] = &edited;
        let mut at = 0;
        for range in &ranges {
            let kept = &bytes[at..range.start];
            prop_assert!(rest.starts_with(kept));
            rest = &rest[kept.len()..];
            prop_assert!(rest.starts_with(with.as_bytes()));
            rest = &rest[with.len()..];
            at = range.end;
        }
        prop_assert_eq!(rest, &bytes[at..]);
    }

    #[test]
    fn layers_never_overlap_and_cover_both(
        masks in proptest::collection::vec(0_usize..100, 0..10),
        removals in proptest::collection::vec(0_usize..100, 0..10),
    ) {
        let full = |places| ranges(places).into_iter().filter(|range| !range.is_empty()).collect::<Vec<_>>();
        let (masks, removals) = (full(masks), full(removals));
        let above = masks.iter().map(|range| edit(range.clone(), "[M]")).collect();
        let all = removed_beneath(above, &removals);
        let covered: Vec<usize> = all.iter().flat_map(|edit| edit.range.clone()).collect();
        let expected: Vec<usize> =
            (0..100).filter(|at| masks.iter().chain(&removals).any(|range| range.contains(at))).collect();
        prop_assert_eq!(covered, expected);
        prop_assert_eq!(all.iter().filter(|edit| !edit.with.is_empty()).count(), masks.len());
    }

    #[test]
    fn decoding_agrees_with_a_json_library(text in any::<String>()) {
        let literal = serde_json::to_string(&text).unwrap();
        prop_assert_eq!(decoded(&literal.as_bytes()[1..literal.len() - 1]), text);
    }
}

#[test]
fn printable_text_is_measured_to_its_end() {
    for odd in ["\\", "\u{7f}", "\u{1f}", "é"] {
        for before in [0, 1, 15, 16, 17, 63, 64, 65, 128, 200] {
            let text = format!("{}{odd}b", "~ ".repeat(before).split_at(before).0);
            assert_eq!(units::printable_length(text.as_bytes()), before, "{odd:?}");
        }
    }
    assert_eq!(units::printable_length(&[b'~'; 130]), 130);
}
