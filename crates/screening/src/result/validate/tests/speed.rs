//! What validation costs. `cargo test --release -p portreeve-screening -- --ignored --nocapture costs`

use std::hint::black_box;
use std::time::{Duration, Instant};

use super::*;

const ISSUES: &str = r#"{"type":"object","required":["total","issues"],"properties":{"total":{"type":"integer","minimum":0},
    "issues":{"type":"array","items":{"type":"object","required":["id","title","state"],"properties":{
        "id":{"type":"integer"},"title":{"type":"string","maxLength":200},"state":{"enum":["open","closed"]},
        "labels":{"type":"array","items":{"type":"string"}},"assignee":{"anyOf":[{"type":"string"},{"type":"null"}]}}}}}}"#;

/// A result of about `bytes` of structured output, and the same again as text.
fn issues(bytes: usize) -> Bytes {
    let issue = |number: usize| {
        format!(
            r#"{{"id":{number},"title":"Something is wrong with part {number}","state":"open","labels":["bug","p1"],"assignee":null}}"#
        )
    };
    let count = (bytes / issue(1000).len()).max(1);
    let issues: Vec<String> = (0..count).map(issue).collect();
    let structured = format!(r#"{{"total":{count},"issues":[{}]}}"#, issues.join(","));
    let text = serde_json::to_string(&structured).unwrap();
    format!(r#"{{"content":[{{"type":"text","text":{text}}}],"structuredContent":{structured}}}"#).into()
}

/// The fastest of several rounds.
fn time(rounds: u32, mut work: impl FnMut()) -> Duration {
    let one = |work: &mut dyn FnMut()| {
        let start = Instant::now();
        (0..rounds).for_each(|_| work());
        start.elapsed() / rounds
    };
    (0..5).map(|_| one(&mut work)).min().unwrap()
}

// R018
#[test]
#[ignore = "prints figures; run in release"]
fn what_it_costs() {
    let schema = schema(ISSUES);
    let strict = rules(Mode::Strict);
    for bytes in [1 << 10, 10 << 10, 100 << 10, 1 << 20] {
        let result = issues(bytes);
        let seen = scanned(&result);
        let rounds = u32::try_from((4 << 20) / bytes).unwrap().clamp(3, 2_000);
        let declared = Declared::Schema(&schema);
        assert_eq!(validate(&result, false, declared, &strict), Verdict::Conforms);
        let guard = time(rounds, || {
            black_box(locate::in_bytes(black_box(&result)));
        });
        let guard_scanned = time(rounds, || {
            black_box(locate::in_scanned(black_box(&seen), 0));
        });
        let whole = time(rounds, || {
            black_box(validate(black_box(&result), false, declared, &strict));
        });
        let whole_scanned = time(rounds, || {
            black_box(validate_scanned(black_box(&seen), false, declared, &strict));
        });
        println!(
            "{:>8} bytes: find+guard {guard:?}, all {whole:?}; read before: guard {guard_scanned:?}, all {whole_scanned:?}",
            result.len()
        );
    }
    let result = issues(1 << 10);
    for (what, declared, mode) in [
        ("off", Declared::Schema(&schema), Mode::Off),
        ("no schema", Declared::Nothing, Mode::Strict),
    ] {
        let rules = rules(mode);
        let cost = time(1_000_000, || {
            black_box(validate(black_box(&result), false, black_box(declared), &rules));
        });
        println!("{what}: {cost:?}");
    }
    let unique = self::schema(r#"{"uniqueItems":true}"#);
    let objects: Vec<String> = (0..20_000)
        .map(|number| format!(r#"{{"id":{number},"name":"n{number}"}}"#))
        .collect();
    let objects = self::result(&format!("[{}]", objects.join(",")));
    let cost = time(3, || {
        assert_eq!(
            validate(&objects, false, Declared::Schema(&unique), &strict),
            Verdict::Conforms
        );
    });
    println!("uniqueItems on 20000 objects: {cost:?}");
    let compile = time(100, || {
        black_box(OutputSchema::compile(ISSUES.as_bytes()).unwrap());
    });
    println!("compile {} bytes of schema: {compile:?}", ISSUES.len());
}
