//! What must hold whatever a stranger sends: one function for each target. They are run by the fuzzer (`fuzz/run`) and,
//! over the committed corpus, by the test suite.

mod contract;
mod egress;
mod loading;
mod messages;
mod segments;
mod stdio;

pub use contract::contract;
pub use egress::{dns, head, hello, socks, tap};
pub use loading::{config, policies};
pub use messages::{envelope, headers, sse};
pub use segments::segment;
pub use stdio::stdio;

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use schema::OutputSchema;
use screening::detect::{Detector, Excuse, Joins, Piece, PieceKind};
use screening::result::strip::{Classes, strip as strip_literal};
use screening::result::truncate::{Index, Wanted};
use screening::result::validate::{Declaration, Mode, ValidationRules};
use screening::result::walk::{Message, walk as walk_message};
use screening::result::{
    Guards, Origin, OutputTrust, Raw, ResponseAction, Rules, Sanitisation, Spotlight, Truncation, screen as screen_raw,
};
use vocabulary::json::scanned::members_of;
use vocabulary::json::{Limits, Value};

/// Every target by its name.
pub const TARGETS: [(&str, fn(&[u8])); 19] = [
    ("config", config),
    ("contract", contract),
    ("detect", detect),
    ("dns", dns),
    ("envelope", envelope),
    ("head", head),
    ("headers", headers),
    ("hello", hello),
    ("output_schema", output_schema),
    ("page", page),
    ("policies", policies),
    ("screen", screen),
    ("segment", segment),
    ("socks", socks),
    ("sse", sse),
    ("stdio", stdio),
    ("strip", strip),
    ("tap", tap),
    ("walk", walk),
];

static DETECTOR: LazyLock<Arc<Detector>> =
    LazyLock::new(|| Arc::new(Detector::embedded().expect("the shipped rules compile")));

const LIMITS: Limits = Limits {
    max_bytes: 1 << 20,
    max_depth: 64,
    max_string: 1 << 20,
    max_items: 1 << 20,
};

const MESSAGES: [Message; 7] = [
    Message::ToolResult,
    Message::ResourceRead,
    Message::PromptGet,
    Message::TaskState,
    Message::Other,
    Message::Definitions,
    Message::Error,
];

/// The whole chokepoint: what comes out is UTF-8, is JSON if it was, and goes through once more without a change to its
/// secrets and hidden characters.
pub fn screen(data: &[u8]) {
    let Some((switches, raw)) = data.split_first() else {
        return;
    };
    let rules = rules(*switches);
    let message = MESSAGES[usize::from(*switches >> 5) % MESSAGES.len()];
    let declaration = Declaration::compile(Some(br#"{"type":"object","properties":{"a":{"maxLength":9}}}"#));
    let origin = Origin {
        server: "s",
        name: "t",
        message,
        standing: OutputTrust::Untrusted,
        declared: declaration.declared(),
    };
    let shown = |raw: Raw, rules: &Rules| {
        screen_raw(raw, &origin, rules)
            .preview()
            .ok()
            .map(Bytes::copy_from_slice)
    };
    let run = |raw: Bytes, rules: &Rules| shown(Raw::Unread(raw), rules);
    let result = run(Bytes::copy_from_slice(raw), &rules);
    // What is more than one value can be a member and others beside it.
    if let Ok([Some(read)]) = members_of(&[br#"{"result":"#, raw, b"}"].concat().into(), 65, ["result"])
        && read.bytes() == raw.trim_ascii()
    {
        let read = shown(Raw::Scanned(read), &rules);
        let bytes = |result: &Option<Bytes>| result.as_ref().map(|result| result.trim_ascii().to_vec());
        assert_eq!(
            bytes(&result),
            bytes(&read),
            "it makes a difference that it was read before"
        );
    }
    let Some(result) = result else { return };
    let text = std::str::from_utf8(&result).expect("what was UTF-8 stays it");
    if Value::parse(raw, &LIMITS).is_ok() {
        assert!(
            Value::parse(text.as_bytes(), &LIMITS).is_ok(),
            "JSON went in, and none came out"
        );
    }
    let again = Rules {
        sanitisation: Sanitisation {
            spotlight: Spotlight::Nothing,
            ..rules.sanitisation.clone()
        },
        truncation: None,
        ..rules.clone()
    };
    if rules.truncation.is_none() && rules.sanitisation.spotlight == Spotlight::Nothing {
        let twice = run(result.clone(), &again).expect("what was let through is let through again");
        assert_eq!(twice, result, "a second pass found something to do");
    }
}

fn rules(switches: u8) -> Rules {
    let on = |bit: u8| switches & 1 << bit != 0;
    Rules {
        guards: Guards {
            max_bytes: 1 << 20,
            max_depth: 64,
        },
        validation: ValidationRules {
            mode: if on(0) { Mode::Strict } else { Mode::Warn },
            ..ValidationRules::default()
        },
        sanitisation: Sanitisation {
            spotlight: if on(1) {
                Spotlight::Untrusted
            } else {
                Spotlight::Nothing
            },
            action: match on(2) {
                true => ResponseAction::Redact(DETECTOR.clone()),
                false => ResponseAction::Block(DETECTOR.clone()),
            },
            strip: if on(3) { Classes::ALL } else { Classes::default() },
            max_redactions: 100,
        },
        truncation: on(4).then_some(Truncation {
            limit_bytes: 16,
            mint: || "0123".to_owned(),
        }),
    }
}

/// Literals lie within the message, in order, and apart from each other.
pub fn walk(data: &[u8]) {
    for message in MESSAGES {
        let Ok(walked) = walk_message(data, message) else {
            continue;
        };
        let mut at = 0;
        for literal in walked.literals() {
            let span = literal.span();
            assert!(
                at <= span.start && span.end <= data.len(),
                "literals overlap or lie outside"
            );
            at = span.end;
        }
    }
}

/// Stripped once, nothing is left to strip.
pub fn strip(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let literal = literal(text);
    let stripped = strip_literal(literal.as_bytes(), Classes::ALL, &[]);
    let mut left = String::new();
    let mut at = 0;
    for range in &stripped.removals {
        left.push_str(literal.get(at..range.start).expect("no character is cut in two"));
        at = range.end;
    }
    left.push_str(literal.get(at..).expect("no character is cut in two"));
    assert!(is_literal(&left), "an escape was cut in two");
    assert!(
        strip_literal(left.as_bytes(), Classes::ALL, &[]).removals.is_empty(),
        "a second pass found more"
    );
}

/// What stands between the quotes of a string: the text as it is if it could, else written as one.
fn literal(text: &str) -> Cow<'_, str> {
    if is_literal(text) {
        return Cow::Borrowed(text);
    }
    let mut literal = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '"' | '\\' => literal.extend(['\\', letter]),
            '\0'..='\x1f' => literal.push_str(&format!("\\u{:04x}", u32::from(letter))),
            _ => literal.push(letter),
        }
    }
    Cow::Owned(literal)
}

fn is_literal(text: &str) -> bool {
    walk_message(format!("\"{text}\"").as_bytes(), Message::Other).is_ok_and(|walked| walked.literals().len() <= 1)
}

/// Findings lie within the pieces, on borders of characters.
pub fn detect(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let raws: Vec<&str> = text.split('\0').take(8).collect();
    let mut pieces = Vec::with_capacity(raws.len());
    for (index, raw) in raws.iter().enumerate() {
        pieces.push(Piece {
            raw: raw.as_bytes(),
            name: None,
            joins: if index == 0 { Joins::Nothing } else { Joins::Previous },
            kind: PieceKind::Text,
        });
    }
    for finding in DETECTOR.find(&pieces, &Excuse { server: "s", tool: "t" }) {
        assert!(!finding.parts.is_empty());
        for (index, range) in finding.parts {
            assert!(
                raws[index].get(range.clone()).is_some_and(|part| !part.is_empty()),
                "{range:?}"
            );
        }
    }
}

/// A schema of a server, and a value: refused, or judged within bounds.
pub fn output_schema(data: &[u8]) {
    let split = data.iter().position(|byte| *byte == 0).unwrap_or(data.len());
    let (schema, value) = data.split_at(split);
    let Ok(compiled) = OutputSchema::compile(schema) else {
        return;
    };
    if let Ok(tree) = Value::parse(value.get(1..).unwrap_or_default(), &LIMITS)
        && let Err(violations) = compiled.check(&tree)
    {
        assert!(violations.items().len() <= 5);
        assert!(violations.items().iter().all(|item| item.len() <= 200));
    }
}

/// All pages together are the whole.
pub fn page(data: &[u8]) {
    let Some((limit, rest)) = data.split_first() else {
        return;
    };
    let Ok(whole) = std::str::from_utf8(rest) else { return };
    let index = Index::of(whole);
    let (mut offset, mut read) = (0, String::new());
    for _ in 0..=whole.len() {
        let wanted = Wanted {
            offset,
            limit: usize::from(*limit),
            most_bytes: 1 + usize::from(*limit) / 2,
        };
        let page = index.page(whole, &wanted);
        read.push_str(page.text);
        match page.next {
            Some(next) => offset = next,
            None => break,
        }
    }
    assert_eq!(read, whole);
}
