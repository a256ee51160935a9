//! The quick look suspects everything that a close look finds something in.

use proptest::collection::vec;
use proptest::prelude::*;

use super::super::quick::suspects;
use super::super::sample::base64;
use super::*;

/// A secret in one of its disguises, as it stands in a JSON document.
fn secret() -> impl Strategy<Value = String> {
    let templates = [
        "ghp_{crc}",
        "AKIA{b32:16}",
        "{jwt}",
        "postgres://app:{an:12}@db/x",
        "card {card:visa}",
        "token=sk-ant-api03-{url:93}AA",
    ];
    (0_u64..1000, 0..templates.len(), 0..6_usize, 0..12_usize).prop_map(move |(seed, which, way, before)| {
        let plain = format!(
            "{}{}",
            "é ".repeat(before),
            fill(templates[which], &mut Draw::new(seed))
        );
        match way {
            0 => raw(&plain),
            1 => base64(&plain),
            2 => wrapped(&base64(&plain.repeat(1 + before))),
            3 => plain.bytes().map(|byte| format!("{byte:02x}")).collect(),
            4 => plain.bytes().map(|byte| format!("%{byte:02X}")).collect(),
            _ => plain
                .chars()
                .map(|sign| format!("\\u{:04x}", u32::from(sign)))
                .collect(),
        }
    })
}

/// In lines, as encoders write them.
fn wrapped(text: &str) -> String {
    let lines: Vec<_> = text.as_bytes().chunks(64).map(String::from_utf8_lossy).collect();
    lines.join("\\n")
}

/// What stands around secrets, some of it exactly as long as to matter.
fn around() -> impl Strategy<Value = String> {
    let short = [
        "\\n", "\\\"", "\\t", "\\r\\n", " ", ": ", "\\\\", "\\/", "/", "é", "\u{200b}", "12", "4111-", "%", "=", "",
    ];
    let long = (
        prop::sample::select(vec!["A", "zQ", "9f", "//"]),
        prop::sample::select(vec![20_usize, 23, 60, 64, 500, 511, 512, 513, 8160, 8191, 8192, 8193]),
    );
    prop_oneof![
        6 => prop::sample::select(short.to_vec()).prop_map(str::to_owned),
        1 => long.prop_map(|(signs, length)| signs.repeat(length).chars().take(length).collect()),
    ]
}

/// Raw content, the name it stands under, whether it goes on from the piece before.
fn piece() -> impl Strategy<Value = (String, Option<&'static str>, bool)> {
    let names = prop::sample::select(vec![
        None,
        Some("id"),
        Some("api_key"),
        Some("card_number"),
        Some("text"),
    ]);
    let parts = vec(prop_oneof![3 => around(), 1 => secret()], 0..6);
    (parts.prop_map(|parts| parts.concat()), names, any::<bool>())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn the_quick_look_misses_nothing(texts in vec(piece(), 1..6)) {
        let pieces: Vec<_> = texts
            .iter()
            .map(|(raw, name, joins)| Piece {
                raw: raw.as_bytes(),
                name: *name,
                joins: if *joins { Joins::Previous } else { Joins::Nothing },
                kind: if raw.bytes().all(|byte| byte.is_ascii_digit()) { PieceKind::Number } else { PieceKind::Text },
            })
            .collect();
        let closely = search::closely(&DETECTOR, &pieces, &NOBODY, |_| true);
        prop_assert_eq!(DETECTOR.find(&pieces, &NOBODY), closely);
    }
}

#[test]
fn ordinary_results_are_not_suspected() {
    let names = ["id", "name", "path", "amount_cents"];
    let texts: Vec<String> = (0..4000)
        .map(|number| match number % 4 {
            0 => format!("entry-{number}"),
            1 => format!("Entry number {number}, \\\"Straße\\\"\\n"),
            2 => format!("/srv/agents/files/part-{number}.txt"),
            _ => format!("{{\\\"id\\\":{number},\\\"active\\\":true}}"),
        })
        .collect();
    let pieces: Vec<_> = texts
        .iter()
        .enumerate()
        .map(|(number, raw)| Piece {
            name: Some(names[number % 4]),
            ..text_piece(raw)
        })
        .collect();
    let suspects = suspects(&DETECTOR, &pieces);
    assert!(suspects.len() < 40, "{} of {}", suspects.len(), pieces.len());
}
