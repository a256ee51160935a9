//! Masks, their limits, and the places that cannot have one.

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::result::edit::Edits;
use crate::result::edit::units::{decoded, unit};
use crate::result::walk::{LiteralKind, Message, walk};

fn hit(literal: usize, range: Range<usize>) -> Hit<'static> {
    Hit {
        parts: std::iter::once((literal, range)).collect(),
        category: "api_token",
    }
}

fn redacted(raw: &str, hits: &[Hit<'_>], most: usize) -> Result<(String, usize), Refusal> {
    let walked = walk(raw.as_bytes(), Message::ToolResult).unwrap();
    let redaction = redact(raw.as_bytes(), &walked, hits, most)?;
    let mut edits = Edits::default();
    for Masked { literal, masks } in redaction.masked {
        edits.add_at(walked.literals()[literal].span().start, masks);
    }
    let bytes = edits.apply(&Bytes::from(raw.to_owned())).unwrap();
    Ok((String::from_utf8(bytes.to_vec()).unwrap(), redaction.masks))
}

fn text(text: &str) -> String {
    format!(r#"{{"content":[{{"type":"text","text":"{text}"}}]}}"#)
}

// R073
#[test]
fn a_mask_stands_for_what_was_found_and_for_nothing_else() {
    let (masked, count) = redacted(&text("key AKIA1234 end"), &[hit(0, 4..12)], 100).unwrap();
    assert_eq!((masked, count), (text("key [REDACTED:api_token] end"), 1));
    let (same, none) = redacted(&text("clean"), &[], 0).unwrap();
    assert_eq!((same, none), (text("clean"), 0));
}

#[test]
fn pieces_in_several_blocks_are_masked_in_each() {
    let raw = r#"{"content":[{"type":"text","text":"a SEC"},{"type":"text","text":"RET b"}]}"#;
    let split = Hit {
        parts: vec![(0, 2..5), (1, 0..3)],
        category: "private_key",
    };
    let masked = r#"{"content":[{"type":"text","text":"a [REDACTED:private_key]"},{"type":"text","text":"[REDACTED:private_key] b"}]}"#;
    assert_eq!(redacted(raw, &[split], 100), Ok((masked.to_owned(), 2)));
}

#[test]
fn overlapping_hits_become_one_mask_and_neighbours_do_not() {
    let raw = text("0123456789");
    let masked = |hits: &[Hit<'_>]| redacted(&raw, hits, 100).unwrap();
    let mask = "[REDACTED:api_token]";
    assert_eq!(masked(&[hit(0, 4..8), hit(0, 2..6)]), (text(&format!("01{mask}89")), 1));
    assert_eq!(masked(&[hit(0, 2..8), hit(0, 3..5)]), (text(&format!("01{mask}89")), 1));
    assert_eq!(
        masked(&[hit(0, 2..4), hit(0, 4..6)]),
        (text(&format!("01{mask}{mask}6789")), 2)
    );
    let other = Hit {
        category: "weird \"\\\n»",
        ..hit(0, 1..5)
    };
    assert_eq!(masked(&[hit(0, 2..6), other]), (text("0[REDACTED:weird_____]6789"), 1));
}

#[test]
fn no_escape_and_no_character_is_cut() {
    // a, \u00e9 (1..7), \ud83d\ude00 (7..19), é (19..21), \\ (21..23), b
    let raw = text(r"a\u00e9\ud83d\ude00é\\b");
    let rest = |range| redacted(&raw, &[hit(0, range)], 9).unwrap().0;
    let mask = "[REDACTED:api_token]";
    assert_eq!(rest(2..3), text(&format!(r"a{mask}\ud83d\ude00é\\b")));
    assert_eq!(rest(13..14), text(&format!(r"a\u00e9{mask}é\\b")));
    assert_eq!(rest(8..20), text(&format!(r"a\u00e9{mask}\\b")));
    assert_eq!(rest(22..24), text(&format!(r"a\u00e9\ud83d\ude00é{mask}")));
    // Two that meet in one escape.
    let both = redacted(&raw, &[hit(0, 1..3), hit(0, 4..8)], 9).unwrap();
    assert_eq!(both, (text(&format!(r"a{mask}é\\b")), 1));
}

// R085, Attack 30
#[test]
fn more_masks_than_allowed_withhold() {
    let raw = text(&"k ".repeat(101));
    let hits: Vec<_> = (0..101).map(|at| hit(0, at * 2..at * 2 + 1)).collect();
    assert_eq!(redacted(&raw, &hits[..99], 100).unwrap().1, 99);
    assert_eq!(redacted(&raw, &hits[..100], 100).unwrap().1, 100);
    assert_eq!(redacted(&raw, &hits, 100), Err(Refusal::Limit));
}

// R078, Attack 31
#[test]
fn a_place_that_is_never_edited_withholds() {
    let raw = r#"{"content":[{"type":"resource","resource":{"uri":"u","text":"secret"}},{"type":"resource_link","uri":"secret"},
        {"type":"text","text":"t","annotations":{"a":"secret"}},{"type":"other","text":"secret"}],
        "structuredContent":{"secret":4111111111111111,"v":"secret"}}"#;
    let walked = walk(raw.as_bytes(), Message::ToolResult).unwrap();
    let mut masked = 0;
    for (index, literal) in walked.literals().iter().enumerate() {
        let span = literal.span();
        if raw.get(span.clone()) != Some("secret") && literal.kind() != LiteralKind::Number {
            continue;
        }
        match redacted(raw, &[hit(index, 0..span.len())], 100) {
            Ok(_) => masked += 1,
            Err(refusal) => assert_eq!(refusal, Refusal::NotPossible { literal: index }),
        }
    }
    assert_eq!(masked, 1, "the value in structuredContent alone");
    // What nobody can have found.
    assert_eq!(
        redacted(raw, &[hit(999, 0..1)], 9),
        Err(Refusal::NotPossible { literal: 999 })
    );
    let short = text("abc");
    assert_eq!(
        redacted(&short, &[hit(0, 0..9)], 9),
        Err(Refusal::NotPossible { literal: 0 })
    );
}

/// Finds the word `KEY` in texts, escapes decoded.
fn detect(raw: &str) -> Vec<Hit<'static>> {
    let walked = walk(raw.as_bytes(), Message::ToolResult).unwrap();
    let mut hits = Vec::new();
    for (index, literal) in walked.literals().iter().enumerate() {
        let inside = &raw.as_bytes()[literal.span()];
        let (mut units, mut at) = (Vec::new(), 0);
        while let Some(next) = unit(inside, at) {
            units.push((next.character(), at..next.end));
            at = next.end;
        }
        for three in units.windows(3) {
            if three.iter().map(|(letter, _)| *letter).eq("KEY".chars()) {
                hits.push(hit(index, three[0].1.start..three[2].1.end));
            }
        }
    }
    hits
}

proptest! {
    #[test]
    fn redacted_twice_is_redacted_once_and_nothing_is_left(
        pieces in proptest::collection::vec(
            prop_oneof![Just("KEY"), Just("K\\u0045Y"), Just("K"), Just("EY"), Just("\\\\"), Just("\\u004bEY"), Just("é ")],
            0..20,
        ),
    ) {
        let raw = text(&pieces.concat());
        let (once, _) = redacted(&raw, &detect(&raw), 1000).unwrap();
        prop_assert_eq!(detect(&once), Vec::new());
        prop_assert_eq!(redacted(&once, &detect(&once), 1000).unwrap().0, once.clone());
        prop_assert!(!decoded(once.as_bytes()).contains("KEY"));
    }

    #[test]
    fn whatever_is_masked_the_rest_is_a_document(
        raw in "(a|é|😀|\\\\n|\\\\u00e9|\\\\ud83d\\\\ude00|\\\\\\\\){1,12}",
        places in proptest::collection::vec((0_usize..40, 1_usize..9), 1..6),
    ) {
        let hits: Vec<_> = places
            .into_iter()
            .map(|(start, length)| (start % raw.len(), length))
            .map(|(start, length)| hit(0, start..(start + length).min(raw.len())))
            .collect();
        let (masked, _) = redacted(&text(&raw), &hits, 100).unwrap();
        prop_assert!(serde_json::from_str::<serde_json::Value>(&masked).is_ok(), "{}", masked);
    }
}

/// The masks that a text which is JSON gets, as what they cover and what stands there instead.
fn inner_masks(text: &str, ranges: &[Range<usize>]) -> Option<Vec<(Range<usize>, String)>> {
    let wanted: Vec<_> = ranges.iter().map(|range| (range.clone(), "c")).collect();
    let edits = inner::masks(text.as_bytes(), &wanted)?;
    Some(
        edits
            .into_iter()
            .map(|edit| (edit.range, edit.with.into_owned()))
            .collect(),
    )
}

#[test]
fn in_a_text_that_is_json_exactly_what_was_found_is_masked() {
    let mask = || "[REDACTED:c]".to_owned();
    let number = || "\\\"[REDACTED:c]\\\"".to_owned();
    let text = r#" \n{\"k\":\"pre SECRET post\",\"n\":1234567}"#;
    let at = |word: &str| {
        let start = text.find(word).unwrap();
        start..start + word.len()
    };
    assert_eq!(inner_masks(text, &[at("SECRET")]), Some(vec![(at("SECRET"), mask())]));
    // Two in one string stay two, also where they touch; a number has one mask.
    let both = [at("SEC"), at("RET")];
    let two = both.iter().map(|range| (range.clone(), mask())).collect();
    assert_eq!(inner_masks(text, &both), Some(two));
    let apart = [at("pre"), at("post")];
    let two = apart.iter().map(|range| (range.clone(), mask())).collect();
    assert_eq!(inner_masks(text, &apart), Some(two));
    let parts = [at("123"), at("567")];
    assert_eq!(inner_masks(text, &parts), Some(vec![(at("1234567"), number())]));
    // What ends where a literal begins covers nothing of it.
    let before = at("post").start..at("1234567").start;
    assert_eq!(
        inner_masks(text, &[before]),
        Some(vec![
            (at("post"), mask()),
            (at("n\\\"").start..at("n\\\"").start + 1, mask())
        ])
    );
    let nothing = at(",").start..at(",").end;
    assert_eq!(inner_masks(text, &[nothing]), None);
}
