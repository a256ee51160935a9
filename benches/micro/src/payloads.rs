//! Payloads: splitting envelopes, guarding results, checking arguments.

use std::path::Path;

use anyhow::{Result, anyhow, ensure};
use bytes::Bytes;
use sandbox::{Directory, Leads, Patience};
use screening::arguments::{
    self, ArgumentRules, ArgumentSchema, Bounds, FieldRules, Fields, Hosts, Lead, PathClaim, Pointer, ToolRules, judge,
};
use screening::result::validate::{Declared, ValidationRules};
use screening::result::walk::Message;
use screening::result::{self, Guards, Origin, OutputTrust, Raw, Rules, Sanitisation};
use screening::risk::RiskRules;
use serde_json::{Value, json};
use vocabulary::json::Limits;
use vocabulary::{HostList, HostPattern};

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
    figures.extend(preflight(only)?);
    Ok(figures)
}

/// A call of 1 KB with paths and URLs: against its schema alone, by what they say, followed on a disk, and with the rules on risk.
fn preflight(only: &str) -> Result<Vec<Figure>> {
    let place = std::env::temp_dir()
        .canonicalize()?
        .join(format!("portreeve-bench-{}", std::process::id()));
    std::fs::create_dir_all(place.join("reports/2026"))?;
    let bounds = Bounds {
        workspace: place.display().to_string(),
        read: Vec::new(),
    };
    let call = call_with_fields(&bounds.workspace).to_string();
    let hosts = ["api.example.org", "*.example.net:8443"]
        .map(HostPattern::parse)
        .into_iter()
        .flatten();
    let fields = FieldRules {
        paths: vec![Pointer::parse("/moves/*/to")?],
        detect_paths: true,
        urls: Vec::new(),
        hosts: Hosts::Only(HostList::new(hosts.collect())),
    };
    let rules = |fields: &FieldRules| -> Result<ToolRules> {
        let schema = ArgumentSchema::compile(FIELDS_SCHEMA.as_bytes(), Fields::Closed)?;
        Ok(ToolRules::new(LIMITS, schema, fields))
    };
    let (with, without) = (rules(&fields)?, rules(&FieldRules::nothing())?);
    let follow = |claims: &[PathClaim]| follow(&place, claims);
    let said = |claims: &[PathClaim]| vec![Lead::Inside; claims.len()];
    let run = |rules: &ToolRules, leads: &dyn Fn(&[PathClaim]) -> Vec<Lead>| {
        let judged = judge(Some(call.as_bytes()), rules, Some(&bounds));
        judged.is_ok_and(|judged| {
            let leads = leads(judged.claims());
            judged.settle(&leads).is_ok()
        })
    };
    ensure!(run(&with, &follow), "the call with paths and URLs is refused");
    let mut figures = Vec::new();
    let mut add = |stage: &str, run: &dyn Fn() -> bool| {
        if stage.contains(only) {
            figures.push(Figure::of(stage, run).reading(call.len()));
        }
    };
    add("preflight of a call, no fields judged", &|| run(&without, &said));
    add("preflight of a call, paths and hosts by their text", &|| {
        run(&with, &said)
    });
    add("preflight of a call, paths followed too", &|| run(&with, &follow));
    let risk = RiskRules::with_files(&[]).map_err(|_| anyhow!("the rules on risk"))?;
    add("preflight of a call, paths, hosts and rules on risk", &|| {
        let judged = judge(Some(call.as_bytes()), &with, Some(&bounds));
        judged.is_ok_and(|judged| {
            let leads = follow(judged.claims());
            let checked = judged.settle(&leads);
            checked.is_ok_and(|checked| risk.of_arguments(checked.tree()).is_none())
        })
    });
    std::fs::remove_dir_all(&place)?;
    Ok(figures)
}

/// As a call does: from memory, and from the disk where that does not know.
fn follow(place: &Path, claims: &[PathClaim]) -> Vec<Lead> {
    let look = |claim: &PathClaim, patience| {
        Directory::without_links(place, patience).map(|directory| directory.follow(&claim.relative))
    };
    let lead = |claim: &PathClaim| match look(claim, Patience::None) {
        Ok(Leads::Beneath) => Lead::Inside,
        Ok(Leads::Wait) | Err(_) if look(claim, Patience::Disk) == Ok(Leads::Beneath) => Lead::Inside,
        Ok(Leads::Elsewhere | Leads::Wait) | Err(_) => Lead::Outside,
    };
    claims.iter().map(lead).collect()
}

const FIELDS_SCHEMA: &str = r#"{"type":"object","properties":{"path":{"type":"string"},"paths":{"type":"array","items":{"type":"string"}},
    "moves":{"type":"array","items":{"type":"object","properties":{"from":{"type":"string"},"to":{"type":"string"}}}},
    "url":{"type":"string","format":"uri"},"content":{"type":"string"}}}"#;

fn call_with_fields(workspace: &str) -> Value {
    json!({
        "path": format!("{workspace}/reports/2026/summary.md"),
        "paths": ["reports/2026/a.csv", "reports/2026/b.csv"],
        "moves": [{"from": "x", "to": "reports/2026/new.csv"}],
        "url": "https://files.example.net:8443/upload?run=42",
        "content": "The tide is high and the harbour is full. ".repeat(18),
    })
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
