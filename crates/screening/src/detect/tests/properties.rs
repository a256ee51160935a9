//! What holds for every input.

use proptest::collection::vec;
use proptest::prelude::*;

use super::super::hidden::plain_length;

use super::*;

fn strippable() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "\u{200b}",
        "\u{feff}",
        "\u{ad}",
        "\u{202e}",
        "\u{e0061}",
        "\u{fe0f}",
        "\u{1b}[1;31m",
        "\u{1b}]0;t\u{7}",
        "\u{9b}0m",
        "\u{0}",
        "\u{7f}",
        "\u{3164}",
        "\u{180e}",
        "\u{1b}Pq\u{1b}\\",
        "\u{1b}c",
    ])
}

/// Bytes that are likely to wake something.
fn noise() -> impl Strategy<Value = Vec<u8>> {
    let bits = prop::sample::select(vec![
        "ghp_",
        "eyJ",
        "-----BEGIN RSA PRIVATE KEY-----",
        "-----END",
        "\\u00",
        "\\",
        "\\\\u12",
        "\\ud83d",
        "%41%",
        "postgres://a:",
        "@",
        "4111 1111",
        "\u{1b}[",
        "\\u001b]",
        "\u{200b}",
        "é",
        "AKIA",
        "Bearer ",
        "0123456789abcdef0123456789",
        "\n",
    ]);
    let some = prop_oneof![
        bits.prop_map(|bits: &str| bits.as_bytes().to_vec()),
        vec(any::<u8>(), 0..12)
    ];
    vec(some, 0..24).prop_map(|parts| parts.concat())
}

/// Where signs of the raw content of a string begin.
fn starts(raw: &[u8]) -> Vec<bool> {
    let mut starts = vec![false; raw.len() + 1];
    let mut at = 0;
    while at < raw.len() {
        starts[at] = true;
        at = if raw[at] == b'\\' && raw.get(at + 1) == Some(&b'u') {
            at + 6
        } else if raw[at] == b'\\' {
            at + 2
        } else {
            at + 1
        };
        while at < raw.len() && (0x80..0xc0).contains(&raw[at]) {
            at += 1;
        }
    }
    starts[raw.len()] = true;
    starts
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn nothing_panics_and_parts_lie_within_their_pieces(pieces in vec((noise(), any::<bool>()), 1..4)) {
        let pieces: Vec<_> = pieces
            .iter()
            .map(|(raw, joins)| Piece {
                raw,
                name: Some("api_key"),
                joins: if *joins { Joins::Previous } else { Joins::Nothing },
                kind: PieceKind::Text,
            })
            .collect();
        let found = DETECTOR.find(&pieces, &NOBODY);
        for finding in &found {
            prop_assert!(!finding.parts.is_empty());
            prop_assert!(finding.parts.is_sorted_by(|(one, _), (other, _)| one < other));
            for (piece, range) in &finding.parts {
                prop_assert!(range.start < range.end && range.end <= pieces[*piece].raw.len());
            }
        }
        prop_assert_eq!(found, DETECTOR.find(&pieces, &NOBODY));
    }

    #[test]
    fn inserted_strippable_characters_change_nothing(
        seed in 0_u64..1000,
        which in 0_usize..6,
        inserted in vec((0_usize..60, strippable()), 1..5),
    ) {
        let templates = ["ghp_{crc}", "AKIA{b32:16}", "{jwt}", "postgres://app:{an:12}@db/x", "sk-ant-api03-{url:93}AA", "card {card:visa}"];
        let secret = fill(templates[which], &mut Draw::new(seed));
        let plain = format!("before {secret} after");
        let mut hidden: Vec<String> = plain.chars().map(String::from).collect();
        for (place, what) in inserted {
            let place = place % hidden.len();
            hidden[place].push_str(what);
        }
        let (plain, hidden) = (raw(&plain), raw(&hidden.concat()));
        let (open, found) = (DETECTOR.find(&[text_piece(&plain)], &NOBODY), DETECTOR.find(&[text_piece(&hidden)], &NOBODY));
        prop_assert!(rules(&open).iter().all(|rule| rules(&found).contains(rule)), "{:?} {:?}", open, found);
        let starts = starts(hidden.as_bytes());
        for (_, range) in found.iter().flat_map(|finding| &finding.parts) {
            prop_assert!(starts[range.start] && starts[range.end], "{:?} in {}", range, hidden);
        }
    }

    #[test]
    fn the_fast_path_takes_only_what_reads_as_it_is_written(raw in vec(any::<u8>(), 0..200)) {
        let plain = raw.iter().all(|byte| (0x20..0x7f).contains(byte) && *byte != b'\\');
        prop_assert_eq!(needs_view(&raw), !plain);
        let length = raw.iter().position(|byte| !(0x20..0x7f).contains(byte) || *byte == b'\\').unwrap_or(raw.len());
        prop_assert_eq!(plain_length(&raw), length);
    }

    #[test]
    fn keywords_are_found_as_a_simple_search_finds_them(text in "(ghp_|eyJ|sk-|AKIA|[a-z]{0,3}){0,80}") {
        let mut hits = Vec::new();
        DETECTOR.keywords.each(text.as_bytes(), |hit| hits.push((hit.start, hit.end)));
        hits.sort_unstable();
        let lower = text.to_ascii_lowercase();
        for word in ["ghp_", "eyj", "akia", "sk-"] {
            let simple: Vec<_> = (0..lower.len()).filter(|at| lower.as_bytes()[*at..].starts_with(word.as_bytes())).collect();
            let ours: Vec<_> = hits.iter().filter(|(start, end)| lower.as_bytes()[*start..*end] == *word.as_bytes()).map(|(start, _)| *start).collect();
            prop_assert_eq!(ours, simple);
        }
    }
}

#[test]
fn blocks_of_a_large_text_join_without_a_gap() {
    let token = fill("ghp_{crc}", &mut Draw::new(1));
    for offset in [0, 1, 16 << 10, (16 << 10) - 2, (64 << 10) - 3, (64 << 10) - 20, 100_000] {
        let text = format!("{}{token} {}", ".".repeat(offset), ".".repeat(70_000));
        let found = DETECTOR.find(&[text_piece(&text)], &NOBODY);
        assert_eq!(found.len(), 1, "{offset}");
        assert_eq!(found[0].parts, [(0, offset..offset + token.len())], "{offset}");
    }
}
