//! What a hostile pair of schema and value can cost. `cargo test --release --test hostile -- --ignored --nocapture`

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "figures for people; a test that cannot go on must stop"
)]

use std::time::Instant;

use portreeve_schema::OutputSchema;
use serde_json::{Value as Json, json};
use vocabulary::json::{Limits, Value};

const WIDE: Limits = Limits {
    max_bytes: 64 << 20,
    max_depth: 64,
    max_string: 64 << 20,
    max_items: 64 << 20,
};

fn cost(what: &str, schema: &Json, value: &str) {
    let start = Instant::now();
    let schema = match OutputSchema::compile(schema.to_string().as_bytes()) {
        Ok(schema) => schema,
        Err(fault) => {
            println!("{what}: refused in {:?}: {fault}", start.elapsed());
            return;
        }
    };
    let compile = start.elapsed();
    let start = Instant::now();
    let tree = Value::parse(value.as_bytes(), &WIDE).unwrap();
    let parse = start.elapsed();
    let start = Instant::now();
    let verdict = schema.check(&tree);
    println!(
        "{what}: compile {compile:?}, {} bytes: parse {parse:?}, check {:?} {}",
        value.len(),
        start.elapsed(),
        verdict
            .err()
            .map_or("ok".to_owned(), |violations| violations.to_string())
    );
}

const SEVEN: &str = "http://json-schema.org/draft-07/schema#";

fn numbers(count: usize) -> String {
    format!("[{}7]", "7,".repeat(count))
}

fn members(count: usize) -> String {
    let members: Vec<String> = (0..count).map(|number| format!("\"n{number:06}\":1")).collect();
    format!("{{{}}}", members.join(","))
}

fn long(unit: &str) -> String {
    format!("\"{}\"", unit.repeat((5 << 20) / unit.len()))
}

fn named(count: usize, schema: &Json) -> serde_json::Map<String, Json> {
    (0..count)
        .map(|number| (format!("n{number:06}"), schema.clone()))
        .collect()
}

#[test]
#[ignore = "prints figures; run in release"]
fn lists_and_branches() {
    let consts: Vec<Json> = (7..4_900).rev().map(|number| json!({ "const": number })).collect();
    let consts = json!({"items": {"anyOf": consts}});
    cost("the last of many consts", &consts, &numbers(24_000));
    cost("too many times", &consts, &numbers(500_000));
    let options: Vec<usize> = (7..40_000).rev().collect();
    cost(
        "the last of an enum",
        &json!({"items": {"enum": options}}),
        &numbers(24_000),
    );
    // The last members are asked for.
    let names: Vec<String> = (180_000..200_000).map(|number| format!("n{number:06}")).collect();
    let few: Vec<&String> = names.iter().take(4_900).collect();
    cost("required", &json!({ "required": few }), &members(200_000));
    cost("required too often", &json!({ "required": names }), &members(200_000));
    cost(
        "properties",
        &json!({"properties": named(4_900, &json!({"type": "integer"}))}),
        &members(200_000),
    );
    let dependent = json!({"dependentRequired": named(4_000, &json!(["n000000"]))});
    cost("dependentRequired", &dependent, &members(100_000));
}

#[test]
#[ignore = "prints figures; run in release"]
fn names_and_equals() {
    let patterns: serde_json::Map<_, _> = (0..500).map(|number| (format!("{number}.*x"), json!({}))).collect();
    cost(
        "patternProperties",
        &json!({ "patternProperties": patterns }),
        &members(200_000),
    );
    let unevaluated = json!({"anyOf": [{"properties": named(2_000, &json!(true))}, {"patternProperties": {"^x": true}}],
                             "unevaluatedProperties": {"type": "integer"}});
    cost("unevaluatedProperties", &unevaluated, &members(200_000));
    let lists = numbers(1_000_000).replace("7,", "[7],");
    cost("uniqueItems", &json!({"uniqueItems": true}), &lists);
    let nested = format!("{}{}{}", "[1,".repeat(60), numbers(1_000_000), "]".repeat(60));
    cost(
        "uniqueItems at all levels",
        &json!({"uniqueItems": true, "items": {"$ref": "#"}}),
        &nested,
    );
}

#[test]
#[ignore = "prints figures; run in release"]
fn texts() {
    for (pattern, unit) in [
        ("[ab]*a[ab]{1500}c", "ab"),
        ("[ab]*a[ab]{1500}c|d", "abbaa"),
        ("^(a?){1000}a{1000}$", "a"),
        ("(x+x+)+y", "x"),
    ] {
        cost(pattern, &json!({ "pattern": pattern }), &long(unit));
    }
    for format in [
        "email",
        "hostname",
        "uri",
        "iri",
        "uri-reference",
        "uri-template",
        "json-pointer",
        "date-time",
        "ipv6",
        "regex",
    ] {
        for unit in ["a.", "(", "{a", "%61", "[a", "1:", "é", "/~0", "a@", "\\\\c"] {
            cost(
                &format!("{format} of {unit}"),
                &json!({"$schema": SEVEN, "format": format}),
                &long(unit),
            );
        }
    }
}

#[test]
#[ignore = "prints figures; run in release"]
fn schemas() {
    let twice =
        |next: usize| json!({"allOf": [{"$ref": format!("#/$defs/{next}")}, {"$ref": format!("#/$defs/{next}")}]});
    let mut chain: serde_json::Map<_, _> = (0..26).map(|link| (link.to_string(), twice(link + 1))).collect();
    chain.insert("26".to_owned(), json!({}));
    cost("doubling", &json!({"$ref": "#/$defs/0", "$defs": chain}), "1");
    cost(
        "nested anyOf",
        &json!({"anyOf": vec![json!({"anyOf": [{}, {}]}); 200_000]}),
        "1",
    );
    cost(
        "circle",
        &json!({"$dynamicAnchor": "a", "anyOf": [{"$dynamicRef": "#a"}]}),
        "1",
    );
    cost(
        "giant pattern",
        &json!({"pattern": "(((a{1,100}){1,100}){1,100}){1,100}"}),
        "1",
    );
    cost(
        "large tree",
        &json!({"properties": named(4_000, &json!({"$ref": "#"}))}),
        "{}",
    );
    let branching = json!({"anyOf": vec![json!({"properties": {"c": {"$ref": "#"}}, "required": ["v"]}); 1000]});
    let deep = format!("{}{{}}{}", r#"{"v":1,"c":"#.repeat(60), "}".repeat(60));
    cost("branching tree", &branching, &deep);
}
