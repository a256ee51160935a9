//! The guards: size and depth of structured output hold at their borders, in both modes, by default and as set; what is
//! enormous is refused before anything grows.

use serde_json::json;

use super::scene::{SCHEMA, counted, decisions, declaring, is_verbatim, is_withheld};
use crate::support::{Act, Setup, Town};

/// Structured output of exactly so many bytes that conforms.
fn of_size(bytes: usize) -> String {
    format!(r#"{{"n":1{}}}"#, " ".repeat(bytes - r#"{"n":1}"#.len()))
}

/// Arrays or objects of exactly this depth.
fn of_depth(depth: usize, arrays: bool) -> String {
    let (open, close) = if arrays { ("[", "]") } else { (r#"{"a":"#, "}") };
    format!("{}1{}", open.repeat(depth - 1), close.repeat(depth - 1))
}

async fn town(mode: &str, set: impl FnOnce(Setup) -> Setup) -> Town {
    let tools = [
        declaring("sized", &counted()),
        declaring("deep", &json!({"type": ["object", "array"]})),
    ];
    Town::offering(&tools, |setup| set(setup.set("output_validation.mode", mode))).await
}

/// Calls with structured output and says whether it conformed, was withheld, or was forwarded with a record.
async fn judged(town: &Town, tool: &str, structured: &str) -> (&'static str, Option<String>) {
    let result = format!(r#"{{"content":[],"structuredContent":{structured}}}"#);
    town.files.on(tool, Act::Answer(result.clone()));
    let before = decisions(&town.gateway.home, &[]).len();
    let answer = town.agent("ann").await.call(tool, json!({})).await;
    let records = decisions(&town.gateway.home, &[]);
    assert!(records.len() - before <= 1, "{records:?}");
    let guard = (records.len() > before).then(|| records[0]["guard"].as_str().unwrap_or("none").to_owned());
    if is_verbatim(&answer, &result) {
        return ("forwarded", guard);
    }
    is_withheld(tool, &answer.last(), SCHEMA);
    ("withheld", guard)
}

#[tokio::test(flavor = "multi_thread")]
async fn guards_hold_below_at_and_above_their_limits_in_both_modes() {
    // R013, R014, R016, R017, R028, R038, R051
    for (mode, broken) in [("strict", "withheld"), ("warn", "forwarded")] {
        let set = |setup: Setup| {
            setup
                .set("output_validation.max_bytes", 100)
                .set("output_validation.max_depth", 5)
        };
        let town = town(mode, set).await;
        for (bytes, outcome, guard) in [
            (99, "forwarded", None),
            (100, "forwarded", None),
            (101, broken, Some("max_bytes")),
        ] {
            assert_eq!(
                judged(&town, "sized", &of_size(bytes)).await,
                (outcome, guard.map(str::to_owned)),
                "{mode} {bytes}"
            );
        }
        for arrays in [true, false] {
            for (depth, outcome, guard) in [
                (4, "forwarded", None),
                (5, "forwarded", None),
                (6, broken, Some("max_depth")),
            ] {
                let found = judged(&town, "deep", &of_depth(depth, arrays)).await;
                assert_eq!(found, (outcome, guard.map(str::to_owned)), "{mode} {depth}");
            }
        }
        // Guard and schema broken at once: one record, and it is the guard's.
        let both = format!(r#"{{"n":"{}"}}"#, "x".repeat(200));
        assert_eq!(
            judged(&town, "sized", &both).await,
            (broken, Some("max_bytes".to_owned())),
            "{mode}"
        );
        let record = decisions(&town.gateway.home, &[])[0].clone();
        assert_eq!(
            (&record["keyword"], &record["stage"]),
            (&json!("guard"), &json!("validation")),
            "{record}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_default_guards_are_five_mebibytes_and_sixty_four_levels() {
    // R046, R056, R060
    let town = town("strict", |setup| setup).await;
    let limit = 5 << 20;
    assert_eq!(judged(&town, "sized", &of_size(limit)).await.0, "forwarded");
    assert_eq!(
        judged(&town, "sized", &of_size(limit + 1)).await,
        ("withheld", Some("max_bytes".to_owned()))
    );
    assert_eq!(judged(&town, "deep", &of_depth(64, true)).await.0, "forwarded");
    assert_eq!(
        judged(&town, "deep", &of_depth(65, false)).await,
        ("withheld", Some("max_depth".to_owned()))
    );
    // Without structured output nothing is missed by default.
    town.files.on("sized", Act::Answer(r#"{"content":[]}"#.to_owned()));
    assert_eq!(
        town.agent("ann").await.call("sized", json!({})).await.result(),
        json!({"content": []})
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guard_comes_before_a_schema_that_would_take_for_ever() {
    // R015, R028
    // Every string is compared with every other.
    let schema = json!({"type": "object", "properties": {"a": {"type": "array", "uniqueItems": true, "items": {
        "anyOf": [{"pattern": "^(x|xx)*y$"}, {"pattern": "^(x?){40}x{40}$"}, {"type": "array", "uniqueItems": true}]}}}});
    let tools = [declaring("slow", &schema)];
    let town = Town::offering(&tools, |setup: Setup| {
        setup
            .set("output_validation.mode", "strict")
            .set("output_validation.max_bytes", 1000)
    })
    .await;
    let items: Vec<String> = (0..20_000).map(|n| format!("\"{}{n}\"", "x".repeat(50))).collect();
    let result = format!(r#"{{"content":[],"structuredContent":{{"a":[{}]}}}}"#, items.join(","));
    town.files.on("slow", Act::Answer(result));
    let answer = town.agent("ann").await.call("slow", json!({})).await;
    is_withheld("slow", &answer.last(), SCHEMA);
    assert!(answer.text().contains("more than 1000 bytes"), "{}", answer.text());
    let duration = town.gateway.receipt_of(&answer)["outcome"]["duration_us"].clone();
    assert!(duration.as_u64().unwrap() < 20_000_000, "{duration}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_million_levels_or_a_quarter_of_a_gigabyte_are_refused_in_flat_memory() {
    // R012
    // Attack 29
    for mode in ["off", "strict"] {
        let town = town(mode, |setup| setup).await;
        let agent = town.agent("ann").await;
        agent.call("deep", json!({})).await;
        let before = town.gateway.peak_memory();
        let began = std::time::Instant::now();
        town.files.on(
            "deep",
            Act::Answer(format!(
                r#"{{"content":[],"structuredContent":{}}}"#,
                of_depth(1_000_000, true)
            )),
        );
        let deep = agent.call("deep", json!({})).await;
        assert!(
            deep.body.len() < 10_000 && !deep.text().contains("[[["),
            "{mode}: {} bytes",
            deep.body.len()
        );
        deep.decision();
        town.files.on(
            "deep",
            Act::Answer(format!(
                r#"{{"content":[{{"type":"text","text":"{}"}}]}}"#,
                "x".repeat(256 << 20)
            )),
        );
        let large = agent.call("deep", json!({})).await;
        assert!(large.body.len() < 10_000, "{mode}: {} bytes", large.body.len());
        assert!(!large.text().contains("xxxx"), "{mode}");
        assert!(began.elapsed().as_secs() < 60, "{mode}: {:?}", began.elapsed());
        // Twice the limit on any message, and some room.
        let grown = town.gateway.peak_memory().saturating_sub(before);
        assert!(grown < 160 << 20, "{mode}: grew by {} MiB", grown >> 20);
        town.files.on("deep", Act::Answer(r#"{"content":[]}"#.to_owned()));
        assert_eq!(
            agent.call("deep", json!({})).await.result(),
            json!({"content": []}),
            "{mode}: it goes on"
        );
    }
}
