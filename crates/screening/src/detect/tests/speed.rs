//! Speeds, printed: `cargo test --release -p portreeve-screening speed -- --ignored --nocapture --test-threads 1`.

use std::hint::black_box;
use std::time::Instant;

use super::*;

const SIZE: usize = 1 << 20;

fn repeated(part: &str) -> String {
    part.repeat(SIZE.div_ceil(part.len()))
}

#[test]
#[ignore = "a measurement"]
fn speed_of_a_mixture() {
    let text = ordinary_text(0..15);
    for _ in 0..10 {
        scan("mixture", &text);
    }
}

fn ordinary_text(kinds: Range<u64>) -> String {
    let mut out = String::new();
    let mut seed = 0;
    while out.len() < SIZE {
        if kinds.contains(&(seed % 16)) {
            out.push_str(&raw(&ordinary::text(seed)));
        }
        seed += 1;
    }
    out
}

/// The best of several runs: others share the machine.
fn megabytes(bytes: usize, mut run: impl FnMut()) -> f64 {
    let mut best = f64::MAX;
    let begun = Instant::now();
    let mut runs = 0;
    while runs < 5 || (runs < 60 && begun.elapsed().as_millis() < 400) {
        let start = Instant::now();
        run();
        best = best.min(start.elapsed().as_secs_f64());
        runs += 1;
    }
    bytes as f64 / best / 1e6
}

fn scan(label: &str, text: &str) -> f64 {
    let mut found = 0;
    let speed = megabytes(text.len(), || {
        found = DETECTOR.find(&[text_piece(black_box(text))], &NOBODY).len()
    });
    println!(
        "{label:32} {speed:9.1} MB/s  {:6} KB  {found} findings",
        text.len() / 1000
    );
    speed
}

#[test]
#[ignore = "a measurement"]
fn speed_of_ordinary_texts() {
    let start = Instant::now();
    let detector = Detector::embedded();
    println!("compile {:?} {}", start.elapsed(), detector.is_ok());
    for (label, kinds) in [
        ("prose", 0..1),
        ("rust", 1..2),
        ("javascript", 2..3),
        ("minified", 3..4),
        ("python", 4..5),
        ("hashes", 5..6),
        ("uuids", 6..7),
        ("image", 7..8),
        ("cargo lock", 8..9),
        ("npm lock", 9..10),
        ("git log", 10..11),
        ("numbers", 11..12),
        ("yaml", 12..13),
        ("addresses", 13..14),
        ("json", 14..15),
        ("log lines", 15..16),
        ("ordinary: without control codes", 0..15),
    ] {
        scan(label, &ordinary_text(kinds));
    }
    for (label, file) in [
        ("real: lock file", include_str!("../../../../../Cargo.lock")),
        (
            "real: documentation",
            include_str!("../../../../../docs/configuration.md"),
        ),
        ("real: code", include_str!("../../../../vocabulary/src/json/span.rs")),
        ("real: change log", include_str!("../../../../../CHANGELOG.md")),
        (
            "real: schema",
            include_str!("../../../../../docs/schemas/request.schema.json"),
        ),
    ] {
        scan(label, &raw(&repeated(file)));
    }
    let clean = repeated("A plain sentence of printable characters, without anything odd in it. ");
    println!(
        "fast path {:.1} GB/s",
        megabytes(clean.len(), || {
            black_box(needs_view(black_box(clean.as_bytes())));
        }) / 1e3
    );
    scan("clean sentence", &clean);
    let small: Vec<_> = clean
        .as_bytes()
        .chunks(24)
        .filter_map(|part| std::str::from_utf8(part).ok())
        .collect();
    for (label, name) in [("small pieces", "title"), ("small pieces, names that wake", "api_key")] {
        let pieces: Vec<_> = small
            .iter()
            .map(|raw| Piece {
                name: Some(name),
                ..text_piece(raw)
            })
            .collect();
        let speed = megabytes(clean.len(), || drop(black_box(DETECTOR.find(&pieces, &NOBODY))));
        println!("{label:32} {speed:9.1} MB/s  {} pieces", pieces.len());
    }
    scan("1 KB", clean.get(..1000).unwrap_or_default());
}

#[test]
#[ignore = "a measurement"]
fn speed_of_the_worst_texts() {
    let keywords: Vec<String> = DETECTOR
        .rules
        .iter()
        .map(|rule| rule.pattern.as_str().to_owned())
        .collect();
    let all: Vec<String> = pack::keywords(EMBEDDED);
    let mut slowest = (f64::MAX, String::new());
    let mut keep = |label: &str, text: &str| {
        let speed = scan(label, text);
        if speed < slowest.0 {
            slowest = (speed, label.to_owned());
        }
    };
    keep("all keywords", &raw(&repeated(&all.join(" "))));
    keep("all keywords, nothing between", &raw(&repeated(&all.concat())));
    keep(
        "keywords, 40 letters",
        &raw(&repeated(
            &all.iter()
                .map(|word| format!("{word}{}", "aB3".repeat(13)))
                .collect::<String>(),
        )),
    );
    keep(
        "keywords = 40 letters",
        &raw(&repeated(
            &all.iter()
                .map(|word| format!("{word} = \"{}\" ", "aB3".repeat(13)))
                .collect::<String>(),
        )),
    );
    let examples: String = examples(EMBEDDED)
        .iter()
        .flat_map(|(_, _, examples)| {
            examples
                .passes
                .iter()
                .map(|text| fill(&text.joined(), &mut Draw::new(1)) + " ")
                .collect::<Vec<_>>()
        })
        .collect();
    keep("all counterexamples", &raw(&repeated(&examples)));
    for word in &all {
        let dense = raw(&repeated(word));
        let speed = megabytes(dense.len(), || {
            black_box(DETECTOR.find(&[text_piece(&dense)], &NOBODY));
        });
        if speed < 60.0 {
            keep(&format!("only {word}"), &dense);
        }
    }
    for (label, seed) in SLOW_SEEDS {
        keep(label, &raw(&repeated(seed)));
    }
    keep(
        "bearers, nothing between",
        &repeated("Authorization: Bearer abcd2fgh+++"),
    );
    keep("digits", &repeated("4111 1111 1111 1112 "));
    keep("long digits", &repeated("4111111111111112 "));
    keep("escapes", &repeated("\\u0061\\n"));
    keep("inner escapes", &repeated("\\\\u0061\\\\n"));
    keep("zero width", &repeated("a\u{200b}"));
    keep("ansi", &repeated("\\u001b[31mab"));
    keep("unterminated strings", &repeated("\\u001b]0;ab"));
    keep("percent", &repeated("%41%42%43 "));
    keep("base64 words", &repeated("QWxhZGRpbjpvcGVuIHNlc2FtZXM "));
    keep("begin lines", &repeated("-----BEGIN RSA PRIVATE KEY-----\\n"));
    keep("cjk", &repeated("秘密の鍵を見つける"));
    keep("jwt heads", &repeated("eyJhbGciOiJIUzI1NiJ9.eyJhIjoxfQ"));
    keep("jwt dots", &repeated("eyJaaaaaaaaaaaa.aaaaa.aaaaaaaaaaaa."));
    println!("worst: {:.1} MB/s, {} ({} rules)", slowest.0, slowest.1, keywords.len());
}

/// Texts that were found to be slow, by the fuzzer and by hand.
pub(super) const SLOW_SEEDS: [(&str, &str); 7] = [
    (
        "found by the fuzzer",
        include_str!("../../../../../fuzz/corpus/detect/worst_bearer_and_cards"),
    ),
    (
        "files, placeholders before them",
        include_str!("../../../../../fuzz/corpus/detect/worst_files_of_dots"),
    ),
    (
        "names in names",
        include_str!("../../../../../fuzz/corpus/detect/worst_names_in_names"),
    ),
    (
        "names, equals signs",
        include_str!("../../../../../fuzz/corpus/detect/worst_equals_signs"),
    ),
    (
        "long tokens in each other",
        include_str!("../../../../../fuzz/corpus/detect/worst_long_prefixes"),
    ),
    (
        "glued headers",
        include_str!("../../../../../fuzz/corpus/detect/worst_glued_headers"),
    ),
    (
        "glued prefixes",
        include_str!("../../../../../fuzz/corpus/detect/worst_glued_prefixes"),
    ),
];
