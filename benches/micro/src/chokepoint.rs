//! The chokepoint: what judging a clean result costs beside merely reading it into a tree, and how fast single passes go.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use screening::detect::{Detector, Excuse, Joins, Piece, PieceKind};
use screening::result::strip::{Classes, strip};
use screening::result::validate::{Declaration, Mode, ValidationRules};
use screening::result::walk::Message;
use screening::result::{self, Guards, Origin, OutputTrust, Raw, ResponseAction, Rules, Sanitisation, Spotlight};
use serde_json::{Value, json};

use crate::stopwatch::Figure;

const SCHEMA: &str = r#"{"type":"object","properties":{"items":{"type":"array","items":{"type":"object","properties":{
"id":{"type":"integer"},"name":{"type":"string"},"path":{"type":"string"},"amount_cents":{"type":"integer"},
"active":{"type":"boolean"},"tags":{"type":"array","items":{"type":"string"}}},
"required":["id","name","path"],"additionalProperties":false}}},"required":["items"]}"#;

/// Measures all of it.
pub(crate) fn measure(only: &str) -> Result<Vec<Figure>> {
    let bench = Bench::new()?;
    let mut figures = Vec::new();
    let mut add = |figure: &dyn Fn(&str) -> Figure, stage: &str| {
        if stage.contains(only) {
            figures.push(figure(stage));
        }
    };
    for kilobytes in [1, 100] {
        let result = with_copy(kilobytes * 1024);
        ensure!(bench.is_clean(&result), "the clean result is not clean");
        let size = result.len();
        for (what, rules) in [
            ("guard and validate", &bench.validating),
            ("guard, validate and scan", &bench.scanning),
            ("everything on, fences too,", &bench.everything),
            ("nothing on", &bench.nothing),
        ] {
            let run =
                |stage: &str| Figure::of(stage, || bench.screen(Raw::Unread(result.clone()), rules)).reading(size);
            let target = if (kilobytes, what) == (1, SMALL) {
                SMALL_MOST_US
            } else {
                f64::INFINITY
            };
            add(
                &|stage| run(stage).under(target),
                &format!("screen {kilobytes} KB: {what}"),
            );
        }
        // In a call the answer was split before, and so read through once.
        let split = split(&result)?;
        for (what, rules) in [
            ("guard alone", &bench.nothing),
            ("guard and validate", &bench.validating),
            ("guard, validate and scan", &bench.scanning),
            ("everything on, fences too,", &bench.everything),
        ] {
            let run = |stage: &str| Figure::of(stage, || bench.screen(split.clone(), rules)).reading(size);
            add(&run, &format!("screen {kilobytes} KB, split before: {what}"));
        }
        let tree = |stage: &str| Figure::of(stage, || serde_json::from_slice::<Value>(&result).is_ok()).reading(size);
        add(&tree, &format!("screen {kilobytes} KB: merely a tree, for comparison"));
    }
    for (what, text) in texts().into_iter().chain(worst()) {
        let scan = |stage: &str| Figure::of(stage, || bench.find(&text)).reading(text.len());
        add(&scan, &format!("secrets in 1 MB of {what}"));
        let take = |stage: &str| {
            Figure::of(stage, || strip(text.as_bytes(), Classes::ALL, &[]).removals.len()).reading(text.len())
        };
        add(&take, &format!("strip 1 MB of {what}"));
    }
    ensure!(
        is_cheap(&figures),
        "the guard costs more than {GUARD_SHARE} of reading and judging 100 KB"
    );
    Ok(figures)
}

/// Whether the guard of a split result costs little beside the reading and judging that it comes before.
fn is_cheap(figures: &[Figure]) -> bool {
    let cost = |what: &str| {
        let stage = format!("screen 100 KB, split before: {what}");
        figures
            .iter()
            .find(|figure| figure.stage == stage)
            .map(|figure| figure.median_us)
    };
    match (cost("guard alone"), cost("guard and validate")) {
        (Some(guard), Some(all)) => guard <= GUARD_SHARE * (all - guard),
        _ => true,
    }
}

/// The part of it.
const GUARD_SHARE: f64 = 0.15;

/// A clean result of 1 KB with its copy as text: guarded, judged, looked through.
const SMALL: &str = "guard, validate and scan";
const SMALL_MOST_US: f64 = 25.0;

/// As [`mcp`] splits an answer.
fn split(result: &Bytes) -> Result<Raw> {
    let answer = Bytes::from([br#"{"result":"#, result.as_ref(), b"}"].concat());
    let members = vocabulary::json::scanned::members_of(&answer, 512, ["result"]);
    let [result] = members.map_err(|_| anyhow::anyhow!("the result does not split"))?;
    result.map(Raw::Scanned).context("there is no result")
}

struct Bench {
    declaration: Declaration,
    detector: Arc<Detector>,
    nothing: Rules,
    validating: Rules,
    scanning: Rules,
    everything: Rules,
}

impl Bench {
    fn new() -> Result<Self> {
        let detector = Detector::embedded().map_err(|_| anyhow::anyhow!("the shipped rules do not compile"))?;
        let detector = Arc::new(detector);
        let nothing = Rules {
            guards: Guards {
                max_bytes: 33_554_432,
                max_depth: 512,
            },
            validation: ValidationRules {
                mode: Mode::Off,
                ..ValidationRules::default()
            },
            sanitisation: Sanitisation::default(),
            truncation: None,
        };
        let validating = Rules {
            validation: ValidationRules {
                mode: Mode::Strict,
                ..ValidationRules::default()
            },
            ..nothing.clone()
        };
        let scanning = Rules {
            sanitisation: Sanitisation {
                action: ResponseAction::Redact(detector.clone()),
                strip: Classes::ALL,
                ..Sanitisation::default()
            },
            ..validating.clone()
        };
        let everything = Rules {
            sanitisation: Sanitisation {
                spotlight: Spotlight::Untrusted,
                ..scanning.sanitisation.clone()
            },
            ..scanning.clone()
        };
        Ok(Self {
            declaration: Declaration::compile(Some(SCHEMA.as_bytes())),
            detector,
            nothing,
            validating,
            scanning,
            everything,
        })
    }

    fn screen(&self, raw: Raw, rules: &Rules) -> usize {
        let origin = Origin {
            server: "bench",
            name: "tool",
            message: Message::ToolResult,
            standing: OutputTrust::Untrusted,
            declared: self.declaration.declared(),
        };
        let screening = result::screen(raw, &origin, rules);
        screening.preview().map_or(0, <[u8]>::len)
    }

    fn is_clean(&self, result: &Bytes) -> bool {
        [&self.nothing, &self.validating, &self.scanning]
            .into_iter()
            .all(|rules| self.screen(Raw::Unread(result.clone()), rules) == result.len())
    }

    fn find(&self, text: &str) -> usize {
        let piece = Piece {
            raw: text.as_bytes(),
            name: None,
            joins: Joins::Nothing,
            kind: PieceKind::Text,
        };
        let nobody = Excuse { server: "", tool: "" };
        self.detector.find(&[piece], &nobody).len()
    }
}

/// A structured result with its copy as text, together of about this size.
fn with_copy(bytes: usize) -> Bytes {
    let item = |number: usize| {
        json!({
            "id": number,
            "name": format!("Entry number {number}"),
            "path": format!("/srv/agents/files/part-{number}.txt"),
            "amount_cents": 1_000 + 37 * number,
            "active": !number.is_multiple_of(3),
            "tags": ["north", "harbour"],
        })
    };
    let one = 2 * (item(100).to_string().len() + 8);
    let items: Vec<Value> = (0..(bytes / one).max(1)).map(item).collect();
    let structured = json!({ "items": items });
    let copy = structured.to_string();
    let result = json!({"content": [{"type": "text", "text": copy}], "structuredContent": structured});
    result.to_string().into()
}

/// Texts that keep the rules busiest, of those the fuzzer was given or found.
fn worst() -> [(&'static str, String); 7] {
    let text = |part: &[u8]| repeat(&String::from_utf8_lossy(part));
    macro_rules! seed {
        ($name:literal) => {
            (
                $name,
                text(include_bytes!(concat!("../../../fuzz/corpus/detect/", $name))),
            )
        };
    }
    [
        seed!("worst_bearer_and_cards"),
        seed!("worst_equals_signs"),
        seed!("worst_files_of_dots"),
        seed!("worst_glued_headers"),
        seed!("worst_glued_prefixes"),
        seed!("worst_long_prefixes"),
        seed!("worst_names_in_names"),
    ]
}

/// A megabyte of it.
fn repeat(part: &str) -> String {
    const MEGABYTE: usize = 1 << 20;
    part.repeat(MEGABYTE.div_ceil(part.len()))
}

fn texts() -> [(&'static str, String); 3] {
    let prose = "The harbour master wrote down every ship, its cargo and the hour of its coming. ";
    let code = "fn main() { let total: u64 = items.iter().map(|item| item.price * item.count).sum(); println!(\\\"{total}\\\"); }\\n";
    let keywords = "token=sk-ghp_AKIA xoxb- password: secret_key glpat- eyJ -----BEGIN ";
    [
        ("prose", repeat(prose)),
        ("code", repeat(code)),
        ("keywords alone", repeat(keywords)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    // R018: negligible beside reading and judging, or the run fails
    #[test]
    fn a_guard_that_costs_more_than_its_share_is_noticed() {
        let run = |guard: f64, all: f64| {
            let figure =
                |what: &str, cost| Figure::from_rounds(&format!("screen 100 KB, split before: {what}"), vec![cost]);
            is_cheap(&[figure("guard alone", guard), figure("guard and validate", all)])
        };
        assert!(run(1.0, 200.0) && run(15.0, 115.0));
        assert!(!run(16.0, 115.0));
        let raw = split(&with_copy(4096)).unwrap();
        let bench = Bench::new().unwrap();
        assert_eq!(bench.screen(raw, &bench.validating), with_copy(4096).len());
    }
}
