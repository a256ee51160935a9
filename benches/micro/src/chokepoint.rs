//! The chokepoint: what judging a clean result costs beside merely reading it into a tree, and how fast single passes go.

use std::sync::Arc;

use anyhow::{Result, ensure};
use bytes::Bytes;
use screening::detect::{Detector, Excuse, Joins, Piece, PieceKind};
use screening::result::strip::{Classes, strip};
use screening::result::validate::{Declaration, Mode, ValidationRules};
use screening::result::walk::Message;
use screening::result::{self, Guards, Origin, Raw, ResponseAction, Rules, Sanitisation, Spotlight, Standing};
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
            let run = |stage: &str| Figure::of(stage, || bench.screen(&result, rules)).reading(size);
            add(&run, &format!("screen {kilobytes} KB: {what}"));
        }
        let tree = |stage: &str| Figure::of(stage, || serde_json::from_slice::<Value>(&result).is_ok()).reading(size);
        add(&tree, &format!("screen {kilobytes} KB: merely a tree, for comparison"));
    }
    for (what, text) in texts() {
        let scan = |stage: &str| Figure::of(stage, || bench.find(&text)).reading(text.len());
        add(&scan, &format!("secrets in 1 MB of {what}"));
        let take = |stage: &str| {
            Figure::of(stage, || strip(text.as_bytes(), Classes::ALL, &[]).removals.len()).reading(text.len())
        };
        add(&take, &format!("strip 1 MB of {what}"));
    }
    Ok(figures)
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

    /// As a call does it: split first, so that the result was read through once.
    fn screen(&self, answer: &Bytes, rules: &Rules) -> usize {
        let origin = Origin {
            server: "bench",
            name: "tool",
            message: Message::ToolResult,
            standing: Standing::Untrusted,
            declared: self.declaration.declared(),
        };
        let screening = result::screen(Raw::Unread(answer.clone()), &origin, rules);
        screening.release(&[(); 4]).map_or(0, |result| result.bytes().len())
    }

    fn is_clean(&self, result: &Bytes) -> bool {
        [&self.nothing, &self.validating, &self.scanning]
            .into_iter()
            .all(|rules| self.screen(result, rules) == result.len())
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

fn texts() -> [(&'static str, String); 3] {
    const MEGABYTE: usize = 1 << 20;
    let prose = "The harbour master wrote down every ship, its cargo and the hour of its coming. ";
    let code = "fn main() { let total: u64 = items.iter().map(|item| item.price * item.count).sum(); println!(\\\"{total}\\\"); }\\n";
    let keywords = "token=sk-ghp_AKIA xoxb- password: secret_key glpat- eyJ -----BEGIN ";
    let repeat = |part: &str| part.repeat(MEGABYTE.div_ceil(part.len()));
    [
        ("prose", repeat(prose)),
        ("code", repeat(code)),
        ("keywords alone", repeat(keywords)),
    ]
}
