//! What the steps cost. Run by hand: `cargo test --release -p portreeve-screening speed -- --ignored --nocapture`.

use std::hint::black_box;
use std::time::Instant;

use crate::result::spotlight::{Mark, fence};
use crate::result::strip::{Classes, strip};
use crate::result::walk::{Message, walk};

fn measure(name: &str, bytes: usize, mut work: impl FnMut()) {
    let mut best = f64::MAX;
    for _ in 0..15 {
        let begun = Instant::now();
        work();
        best = best.min(begun.elapsed().as_secs_f64());
    }
    println!("{name:<44} {:>8.0} MB/s", bytes as f64 / best / 1e6);
}

#[test]
#[ignore = "prints figures, judges nothing"]
fn speed() {
    let clean = "The quick brown fox jumps over the lazy dog, 0123456789 times. ".repeat(16_000);
    let lines = "The quick brown fox jumps over the lazy dog.\\n".repeat(20_000);
    let cjk = "敏捷的棕色狐狸跳过了懒狗。".repeat(25_000);
    let latin = "Zażółć gęślą jaźń, Größe. ".repeat(30_000);
    let dumped = r#"{\"id\":12345,\"name\":\"J\\u00f6rg\",\"ok\":true},"#.repeat(20_000);
    let colours = r"\u001b[32mok\u001b[0m the test of something or other passed\n".repeat(15_000);
    let family = "👨\u{200d}👩\u{200d}👧 ".repeat(20_000);
    let nested = (0..40_000).fold(String::new(), |inner, _| format!(r"\\u20{inner}0b"));
    for (name, raw) in [
        ("strip, printable ASCII", &clean),
        ("strip, ASCII in lines", &lines),
        ("strip, CJK", &cjk),
        ("strip, Latin with accents", &latin),
        ("strip, JSON within JSON", &dumped),
        ("strip, colours", &colours),
        ("strip, emoji with joiners", &family),
        ("strip, nested spellings", &nested),
    ] {
        measure(name, raw.len(), || {
            black_box(strip(black_box(raw.as_bytes()), Classes::ALL, &[]));
        });
    }
    let mark = Mark::tool("s", "t");
    measure("fence, ASCII in lines", lines.len(), || {
        black_box(fence(black_box(lines.as_bytes()), Vec::new(), &mark));
    });
    let record = r#"{"id":123456,"state":"open","title":"Something is wrong here","labels":["bug","later"],"n":1},"#;
    let records = format!(r#"{{"structuredContent":{{"items":[{}1]}}}}"#, record.repeat(10_000));
    let text = format!(r#"{{"content":[{{"type":"text","text":"{lines}"}}]}}"#);
    for (name, raw) in [("walk, records", &records), ("walk, one text", &text)] {
        measure(name, raw.len(), || {
            black_box(walk(black_box(raw.as_bytes()), Message::ToolResult).ok());
        });
    }
}
