//! Payloads: splitting envelopes, guarding results, checking arguments.

use anyhow::{Result, ensure};
use bytes::Bytes;
use screening::arguments::{self, ArgumentRules, Fields};
use screening::result::validate::{Declared, ValidationRules};
use screening::result::walk::Message;
use screening::result::{self, Guards, Origin, OutputTrust, Raw, Rules, Sanitisation};
use serde_json::{Value, json};
use vocabulary::json::Limits;

use crate::stopwatch::Figure;
use crate::town::{ARGUMENTS, SCHEMA};

const LIMITS: Limits = Limits {
    max_bytes: 262_144,
    max_depth: 32,
    max_string: 65_536,
    max_items: 10_000,
};
const GUARDS: Guards = Guards {
    max_bytes: 33_554_432,
    max_depth: 512,
};
const ORIGIN: Origin<'static> = Origin {
    server: "bench",
    name: "tool",
    message: Message::ToolResult,
    standing: OutputTrust::Untrusted,
    declared: Declared::Nothing,
};
const CLIENT_DEPTH: usize = 64;

/// Measures all of them.
pub(crate) fn measure(only: &str) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    let rules = Rules {
        guards: GUARDS,
        validation: ValidationRules::default(),
        sanitisation: Sanitisation::default(),
        truncation: None,
    };
    for kilobytes in [1, 100] {
        let result = Bytes::from(result_of(kilobytes * 1024).to_string());
        let answer = Bytes::from([br#"{"jsonrpc":"2.0","id":7,"result":"#, result.as_ref(), b"}"].concat());
        let call = request_of(kilobytes * 1024);
        ensure!(
            mcp::server::parse(&answer, GUARDS.max_depth).is_ok(),
            "the answer does not split"
        );
        ensure!(
            mcp::envelope::parse(&call, CLIENT_DEPTH).is_ok(),
            "the request does not split"
        );
        let mut add = |stage: String, bytes: usize, run: &mut dyn FnMut()| {
            if stage.contains(only) {
                figures.push(Figure::of(&stage, run).reading(bytes));
            }
        };
        add(format!("split a request of {kilobytes} KB"), call.len(), &mut || {
            let _ = std::hint::black_box(mcp::envelope::parse(&call, CLIENT_DEPTH));
        });
        add(format!("split an answer of {kilobytes} KB"), answer.len(), &mut || {
            let _ = std::hint::black_box(mcp::server::parse(&answer, GUARDS.max_depth));
        });
        add(format!("guard a result of {kilobytes} KB"), result.len(), &mut || {
            let _ = std::hint::black_box(result::screen(Raw::Unread(result.clone()), &ORIGIN, &rules));
        });
    }
    let rules = ArgumentRules::compile(LIMITS, SCHEMA.as_bytes(), Fields::Closed)?;
    ensure!(
        arguments::check(Some(ARGUMENTS), &rules).is_ok(),
        "the arguments are refused"
    );
    let stage = "check arguments (parse, hash, schema)";
    if stage.contains(only) {
        figures.push(Figure::of(stage, || arguments::check(Some(ARGUMENTS), &rules).is_ok()).reading(ARGUMENTS.len()));
    }
    Ok(figures)
}

/// A structured result of about this size.
fn result_of(bytes: usize) -> Value {
    let item = |number: usize| {
        json!({
            "id": number,
            "name": format!("Entry number {number}, “Straße”\n"),
            "path": format!("/srv/agents/files/part-{number}.txt"),
            "amount_cents": 1_000 + 37 * number,
            "active": !number.is_multiple_of(3),
            "tags": ["north", "harbour"],
        })
    };
    let one = item(100).to_string().len() + 1;
    let items: Vec<Value> = (0..(bytes / one).max(1)).map(item).collect();
    json!({"content": [{"type": "text", "text": "See the structured content."}], "structuredContent": {"items": items}})
}

fn request_of(bytes: usize) -> Bytes {
    let params = json!({"name": "echo", "arguments": result_of(bytes)});
    json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params})
        .to_string()
        .into()
}
