//! The public face of the room: what is admitted, what is closed, what is said about a value that does
//! not fit, and that the verdict is the schema library's wherever we do not mean it to differ.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on must stop"
)]

use std::time::{Duration, Instant};

use portreeve_schema::{ArgumentSchema, Fields, SchemaFault, Violations};
use proptest::prelude::*;
use serde_json::{Value as Json, json};
use vocabulary::json::{Fault, Limits, Value};

const WIDE: Limits = Limits {
    max_bytes: 8 << 20,
    max_depth: 512,
    max_string: 1 << 20,
    max_items: 1 << 20,
};

fn compiled(schema: &Json, fields: Fields) -> ArgumentSchema {
    ArgumentSchema::compile(schema.to_string().as_bytes(), fields).unwrap_or_else(|fault| panic!("{fault}: {schema}"))
}

fn judge(schema: &ArgumentSchema, value: &str) -> Result<(), Violations> {
    schema.check(&Value::parse(value.as_bytes(), &WIDE).unwrap())
}

fn closed(schema: &Json, value: &Json) -> Result<(), Violations> {
    judge(&compiled(schema, Fields::Closed), &value.to_string())
}

fn says(schema: &Json, value: &Json) -> String {
    closed(schema, value).unwrap_err().to_string()
}

fn fault(raw: &str) -> SchemaFault {
    ArgumentSchema::compile(raw.as_bytes(), Fields::Closed).unwrap_err()
}

/// Fits; and with the last value in place of it, holds an unknown field and nothing else wrong.
fn knows(schema: &Json, good: &Json, bad: &Json) {
    assert_eq!(closed(schema, good), Ok(()), "{schema} {good}");
    let violations = closed(schema, bad).expect_err(&format!("{schema} {bad}"));
    assert!(violations.has_unknown_fields(), "{schema} {bad} {violations}");
    assert_eq!(
        judge(&compiled(schema, Fields::Open), &bad.to_string()),
        Ok(()),
        "{schema} {bad}"
    );
}

// R138, R200
#[test]
fn an_unknown_field_is_refused_at_every_level_even_where_the_schema_is_silent() {
    let schema = json!({"type": "object", "properties": {
        "a": {"type": "string"},
        "deep": {"type": "object", "properties": {"b": {"type": "array", "items": {"properties": {"c": {}}}}}},
        "silent": {}, "also": true, "list": {"type": "array"}, "bare": {"type": "object"}
    }});
    knows(&schema, &json!({"a": "x"}), &json!({"a": "x", "z": 1}));
    knows(
        &schema,
        &json!({"deep": {"b": []}}),
        &json!({"deep": {"b": [], "z": 1}}),
    );
    knows(
        &schema,
        &json!({"deep": {"b": [{"c": 1}, {}]}}),
        &json!({"deep": {"b": [{"c": 1}, {"z": 1}]}}),
    );
    knows(&schema, &json!({"silent": [1, {}]}), &json!({"silent": {"z": 1}}));
    knows(&schema, &json!({"also": {}}), &json!({"also": {"z": 1}}));
    knows(
        &schema,
        &json!({"list": [1, "x", [], {}]}),
        &json!({"list": [1, {"z": 1}]}),
    );
    knows(&schema, &json!({"bare": {}}), &json!({"bare": {"z": 1}}));
    knows(&json!({}), &json!({}), &json!({"z": 1}));
    knows(&json!(true), &json!({}), &json!({"z": 1}));
}

// R138
#[test]
fn only_the_schema_or_the_operator_opens_an_object() {
    let open = json!({"properties": {"a": {"properties": {"b": {}}}}, "additionalProperties": true});
    // What is declared stays closed inside; what is not declared is free all the way down.
    knows(
        &open,
        &json!({"a": {"b": 1}, "z": {"y": [{"x": 1}]}}),
        &json!({"a": {"z": 1}}),
    );
    for anything in [json!(true), json!({}), json!({"description": "whatever"})] {
        let schema = json!({"additionalProperties": anything});
        assert_eq!(closed(&schema, &json!({"z": {"y": 1}})), Ok(()));
        let schema = json!({"unevaluatedProperties": anything});
        assert_eq!(closed(&schema, &json!({"z": {"y": 1}})), Ok(()));
    }
    let map = json!({"additionalProperties": {"type": "object", "properties": {"n": {"type": "integer"}}}});
    knows(&map, &json!({"x": {"n": 1}, "y": {}}), &json!({"x": {"n": 1, "z": 2}}));
    assert!(
        !closed(&map, &json!({"x": {"n": "1"}}))
            .unwrap_err()
            .has_unknown_fields()
    );
    let says_false = json!({"properties": {"a": {}}, "additionalProperties": false});
    for fields in [Fields::Closed, Fields::Open] {
        let violations = judge(&compiled(&says_false, fields), r#"{"z":1}"#).unwrap_err();
        assert!(violations.has_unknown_fields(), "{violations}");
    }
    assert_eq!(
        judge(&compiled(&json!({"properties": {}}), Fields::Open), r#"{"z":{"y":1}}"#),
        Ok(())
    );
}

// R138
#[test]
fn pattern_properties_declare_what_they_match() {
    let schema = json!({"patternProperties": {"^x-": {"type": "object", "properties": {"n": {}}}, "^y$": {}}});
    knows(
        &schema,
        &json!({"x-1": {"n": 1}, "x-": {}, "y": 2}),
        &json!({"x-1": {}, "z": 1}),
    );
    knows(&schema, &json!({"x-1": {"n": 1}}), &json!({"x-1": {"z": 1}}));
    let beside = json!({"properties": {"xa": {}}, "patternProperties": {"^x": {"type": "integer"}},
                        "additionalProperties": {"type": "string"}});
    assert_eq!(closed(&beside, &json!({"xa": 1, "xb": 2, "other": "text"})), Ok(()));
    assert!(closed(&beside, &json!({"xb": "text"})).is_err());
    assert!(closed(&beside, &json!({"other": 1})).is_err());
}

// R138
#[test]
fn closing_sees_through_references_and_all_of_as_one() {
    let schema = json!({
        "$ref": "#/$defs/base",
        "allOf": [{"properties": {"b": {"properties": {"x": {}}}}}, {"properties": {"b": {"properties": {"y": {}}}}}],
        "properties": {"c": {"$ref": "#/$defs/leaf"}},
        "$defs": {"base": {"properties": {"a": {}}}, "leaf": {"$ref": "#/$defs/base"}}
    });
    knows(
        &schema,
        &json!({"a": 1, "b": {"x": 1, "y": 2}, "c": {"a": 1}}),
        &json!({"a": 1, "b": {"z": 1}}),
    );
    knows(&schema, &json!({"c": {}}), &json!({"c": {"b": 1}}));
    knows(&schema, &json!({}), &json!({"z": 1}));
}

// R138
#[test]
fn a_branch_declares_only_for_values_that_fit_it() {
    for keyword in ["anyOf", "oneOf"] {
        let schema = json!({"properties": {"kind": {}}, keyword: [
            {"properties": {"kind": {"const": "a"}, "x": {}}, "required": ["kind"]},
            {"properties": {"kind": {"const": "b"}, "y": {"properties": {"deep": {}}}}, "required": ["kind"]},
        ]});
        knows(&schema, &json!({"kind": "a", "x": 1}), &json!({"kind": "a", "y": 1}));
        knows(
            &schema,
            &json!({"kind": "b", "y": {"deep": 1}}),
            &json!({"kind": "b", "x": 1}),
        );
        knows(
            &schema,
            &json!({"kind": "b", "y": {}}),
            &json!({"kind": "b", "y": {"z": 1}}),
        );
    }
    let choice = json!({"properties": {"kind": {}},
        "if": {"properties": {"kind": {"const": "a"}, "i": {}}, "required": ["kind"]},
        "then": {"properties": {"t": {}}}, "else": {"properties": {"e": {}}}});
    knows(
        &choice,
        &json!({"kind": "a", "t": 1, "i": 1}),
        &json!({"kind": "a", "e": 1}),
    );
    knows(&choice, &json!({"kind": "b", "e": 1}), &json!({"kind": "b", "t": 1}));
    knows(&choice, &json!({"e": 1}), &json!({"kind": "b", "i": 1}));
    let optional = json!({"properties": {"o": {"anyOf": [{"$ref": "#/$defs/o"}, {"type": "null"}]}},
                          "$defs": {"o": {"type": "object", "properties": {"a": {}}}}});
    knows(&optional, &json!({"o": {"a": 1}}), &json!({"o": {"a": 1, "z": 1}}));
    assert_eq!(closed(&optional, &json!({"o": null})), Ok(()));
    // What `not` and `propertyNames` mention is not thereby declared.
    knows(
        &json!({"not": {"required": ["z"], "properties": {"z": {"const": 0}}}}),
        &json!({}),
        &json!({"z": 1}),
    );
    knows(
        &json!({"propertyNames": {"pattern": "^z$"}}),
        &json!({}),
        &json!({"z": 1}),
    );
    let dependent = json!({"properties": {"a": {}}, "dependentSchemas": {"a": {"properties": {"b": {}}}}});
    knows(&dependent, &json!({"a": 1, "b": 1}), &json!({"b": 1}));
}

#[test]
fn closing_does_not_change_what_the_schema_itself_says() {
    // Closed inside `if` or `not`, these would turn round.
    let condition = json!({"properties": {"o": {"properties": {"n": {}, "k": {}}}},
        "if": {"properties": {"o": {"required": ["k"]}}}, "then": {"required": ["t"]}});
    assert!(
        closed(&condition, &json!({"o": {"k": 1, "n": 1}})).is_err(),
        "`then` must still apply"
    );
    let negation = json!({"properties": {"o": {"properties": {"n": {}}}},
        "not": {"properties": {"o": {"required": ["n"]}}, "required": ["o"]}});
    assert!(
        closed(&negation, &json!({"o": {"n": 1}})).is_err(),
        "`not` must still apply"
    );
}

#[test]
fn elements_are_closed_by_place_and_by_fit() {
    let schema = json!({"properties": {"l": {"prefixItems": [{"properties": {"a": {}}}], "items": {"properties": {"b": {}}},
        "contains": {"properties": {"c": {}}, "required": ["c"]}}}});
    knows(
        &schema,
        &json!({"l": [{"a": 1}, {"b": 1}, {"c": 1}]}),
        &json!({"l": [{"b": 1}, {"c": 1}]}),
    );
    knows(
        &schema,
        &json!({"l": [{"a": 1, "c": 1}]}),
        &json!({"l": [{"c": 1}, {"a": 1}]}),
    );
}

// R138
#[test]
fn every_dialect_is_closed_alike() {
    for uri in [
        "http://json-schema.org/draft-04/schema#",
        "http://json-schema.org/draft-06/schema#",
        "http://json-schema.org/draft-07/schema#",
        "https://json-schema.org/draft/2019-09/schema",
        "https://json-schema.org/draft/2020-12/schema",
    ] {
        let schema = json!({"$schema": uri, "type": "object",
            "properties": {"a": {"allOf": [{"$ref": "#/definitions/d"}, {"properties": {"y": {}}}]}, "d": {"$ref": "#/definitions/d"}},
            "definitions": {"d": {"type": "object", "properties": {"x": {"type": "integer"}}}}});
        knows(
            &schema,
            &json!({"a": {"x": 1, "y": 2}, "d": {"x": 1}}),
            &json!({"a": {"z": 1}}),
        );
        knows(&schema, &json!({"d": {}}), &json!({"d": {"y": 1}}));
        assert!(
            !closed(&schema, &json!({"d": {"x": "1"}}))
                .unwrap_err()
                .has_unknown_fields()
        );
    }
    // Before 2019-09 nothing beside `$ref` counts, and lists of `items` are tuples.
    let old = json!({"$schema": "http://json-schema.org/draft-07/schema#",
        "properties": {"r": {"$ref": "#/definitions/d", "properties": {"y": {}}, "required": ["y"]},
                       "t": {"items": [{"properties": {"p": {}}}], "additionalItems": {"properties": {"q": {}}}}},
        "dependencies": {"r": ["t"], "u": {"properties": {"u": {}, "v": {}}}},
        "definitions": {"d": {"properties": {"x": {}}}}});
    knows(&old, &json!({"r": {"x": 1}, "t": []}), &json!({"r": {"y": 1}, "t": []}));
    knows(&old, &json!({"t": [{"p": 1}, {"q": 1}]}), &json!({"t": [{"q": 1}]}));
    assert!(
        closed(&old, &json!({"r": {}})).is_err(),
        "`dependencies` must still apply"
    );
    assert_eq!(
        fault(r#"{"$schema":"https://example.com/mine"}"#),
        SchemaFault::UnknownDialect
    );
    assert_eq!(fault(r#"{"$schema":7}"#), SchemaFault::UnknownDialect);
    let mixed = r#"{"properties":{"a":{"$id":"x","$schema":"http://json-schema.org/draft-07/schema#"}}}"#;
    assert_eq!(fault(mixed), SchemaFault::UnknownDialect);
}

#[test]
fn references_are_resolved_inside_the_document() {
    let schema = json!({"$id": "https://example.com/root", "properties": {
        "a": {"$ref": "#/$defs/odd~1name%25/x"}, "b": {"$ref": "#here"}, "c": {"$ref": "https://example.com/root#/$defs/int"},
        "d": {"$ref": "part"}, "e": {"$ref": "#/unknownKeyword/deep/0"}, "f": {"$dynamicRef": "#here"}},
        "$defs": {"odd/name%": {"x": {"type": "integer"}}, "int": {"type": "integer", "$anchor": "here"},
                  "part": {"$id": "part", "$ref": "#/$defs/own", "$defs": {"own": {"type": "integer"}}}},
        "unknownKeyword": {"deep": [{"type": "integer"}]}});
    let without_dynamic = {
        let mut schema = schema.clone();
        schema["properties"].as_object_mut().unwrap().remove("f");
        schema
    };
    for name in ["a", "b", "c", "d", "e"] {
        assert_eq!(closed(&without_dynamic, &json!({ name: 1 })), Ok(()), "{name}");
        assert!(closed(&without_dynamic, &json!({ name: "1" })).is_err(), "{name}");
    }
    assert_eq!(fault(&schema.to_string()), SchemaFault::DynamicReference);
    let tree =
        json!({"$dynamicAnchor": "node", "properties": {"next": {"$dynamicRef": "#node"}, "n": {"type": "integer"}}});
    knows(
        &tree,
        &json!({"next": {"next": {"n": 1}}}),
        &json!({"next": {"next": {"z": 1}}}),
    );
}

#[test]
fn no_reference_leaves_the_document() {
    // A server that waited for a fetch would hear of it; a file that exists would be read.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let http = format!("http://{}/schema.json", listener.local_addr().unwrap());
    for target in [
        http.as_str(),
        "https://example.com/x.json",
        "file:///etc/hostname",
        "/etc/hostname",
        "other.json",
        "//host/x",
        "urn:uuid:00000000-0000-0000-0000-000000000000",
        "json-schema:///",
        "https://json-schema.org/draft/2020-12/schema",
    ] {
        for schema in [
            json!({"$ref": target}),
            json!({"properties": {"a": {"items": {"$ref": target}}}}),
            json!({"$ref": format!("{target}#/x")}),
            json!({"$dynamicRef": target}),
            json!({"$schema": "http://json-schema.org/draft-07/schema#", "$ref": target}),
        ] {
            assert_eq!(
                fault(&schema.to_string()),
                SchemaFault::ReferenceLeavesDocument,
                "{schema}"
            );
        }
    }
    assert!(listener.accept().is_err(), "somebody fetched a schema");
    // Not in a place that refers: the same words are harmless.
    assert_eq!(
        closed(
            &json!({"properties": {"$ref": {"const": "file:///etc/passwd"}}}),
            &json!({"$ref": "file:///etc/passwd"})
        ),
        Ok(())
    );
    for nowhere in ["#/nowhere", "#nowhere", "#/$defs", "#/properties/0", "#%GG", "#/%ff"] {
        let schema = json!({"properties": {"a": {"$ref": nowhere}}, "$defs": 1});
        assert!(
            matches!(
                fault(&schema.to_string()),
                SchemaFault::DanglingReference | SchemaFault::NotASchema
            ),
            "{nowhere}"
        );
    }
    let twice = json!({"$defs": {"a": {"$id": "x"}, "b": {"$id": "x"}}});
    assert_eq!(fault(&twice.to_string()), SchemaFault::AmbiguousReference);
}

#[test]
fn circles_that_go_nowhere_are_refused_and_circles_through_parts_are_trees() {
    for circle in [
        json!({"$ref": "#"}),
        json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}),
        json!({"allOf": [{"anyOf": [{"$ref": "#"}]}]}),
        json!({"properties": {"x": {"not": {"$ref": "#/properties/x"}}}}),
        json!({"if": {"oneOf": [{"$ref": "#"}]}, "then": true}),
        json!({"$defs": {"unused": {"$ref": "#/$defs/unused"}}}),
        json!({"dependentSchemas": {"a": {"$ref": "#"}}}),
    ] {
        assert_eq!(fault(&circle.to_string()), SchemaFault::ReferenceCycle, "{circle}");
    }
    let tree = json!({"type": "object", "properties": {"v": {"type": "integer"}, "l": {"$ref": "#"}, "r": {"$ref": "#"},
                      "all": {"type": "array", "items": {"$ref": "#"}}}});
    knows(
        &tree,
        &json!({"l": {"r": {"v": 1}}, "all": [{"v": 1}]}),
        &json!({"l": {"r": {"all": [{"z": 1}]}}}),
    );
    assert!(
        !closed(&tree, &json!({"l": {"r": {"v": "x"}}}))
            .unwrap_err()
            .has_unknown_fields()
    );
}

fn refused_quickly(schema: &Json, expected: SchemaFault) {
    let raw = schema.to_string();
    let start = Instant::now();
    assert_eq!(fault(&raw), expected);
    // A hang would take hours; a busy machine takes its time.
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
}

/// Each link asks for the next one twice, in the way that `link` says.
fn doubling(links: usize, link: impl Fn(&str) -> Json) -> Json {
    let mut definitions = serde_json::Map::new();
    for number in 0..links {
        definitions.insert(format!("d{number}"), link(&format!("#/$defs/d{}", number + 1)));
    }
    definitions.insert(format!("d{links}"), json!({"type": "integer"}));
    json!({"$ref": "#/$defs/d0", "$defs": definitions})
}

#[test]
fn a_chain_of_references_that_doubles_at_every_link_is_refused() {
    for keyword in ["allOf", "anyOf", "oneOf"] {
        let link = |next: &str| json!({ keyword: [{"$ref": next}, {"$ref": next}] });
        refused_quickly(&doubling(26, link), SchemaFault::TooManyEvaluations);
        refused_quickly(&doubling(200, link), SchemaFault::TooManyEvaluations);
        assert!(ArgumentSchema::compile(doubling(10, link).to_string().as_bytes(), Fields::Open).is_ok());
    }
    // Through the parts of a value it doubles just so.
    let parts =
        |next: &str| json!({"anyOf": [{"properties": {"a": {"$ref": next}}}, {"properties": {"a": {"$ref": next}}}]});
    refused_quickly(&doubling(26, parts), SchemaFault::TooManyEvaluations);
    let patterns = |next: &str| json!({"patternProperties": {"a": {"$ref": next}, "b?": {"$ref": next}}});
    refused_quickly(&doubling(26, patterns), SchemaFault::TooManyEvaluations);
    let elements = |next: &str| json!({"items": {"$ref": next}, "contains": {"$ref": next}});
    refused_quickly(&doubling(26, elements), SchemaFault::TooManyEvaluations);
    // Different members are different values: a wide schema is not a deep one.
    let wide = |next: &str| json!({"properties": {"a": {"$ref": next}, "b": {"$ref": next}}});
    assert!(ArgumentSchema::compile(doubling(26, wide).to_string().as_bytes(), Fields::Closed).is_ok());
}

#[test]
fn a_chain_of_references_too_long_for_the_stack_is_refused() {
    let link = |next: &str| json!({ "$ref": next });
    refused_quickly(&doubling(2_000, link), SchemaFault::TooDeepThroughReferences);
    let fits = compiled(&doubling(150, link), Fields::Closed);
    assert_eq!(judge(&fits, "1"), Ok(()));
    assert!(judge(&fits, "\"1\"").is_err());
}

#[test]
fn sizes_of_a_schema_hold_below_at_and_above_the_limit() {
    let padded = |bytes: usize| {
        let frame = r#"{"description":""}"#;
        format!(r#"{{"description":"{}"}}"#, "x".repeat(bytes - frame.len()))
    };
    for (bytes, ok) in [(256 * 1024 - 1, true), (256 * 1024, true), (256 * 1024 + 1, false)] {
        let result = ArgumentSchema::compile(padded(bytes).as_bytes(), Fields::Closed).map(|_| ());
        assert_eq!(
            result,
            if ok {
                Ok(())
            } else {
                Err(SchemaFault::Unreadable(Fault::TooLarge))
            }
        );
    }
    let nested = |depth: usize| format!("{}{}{}", r#"{"not":"#.repeat(depth - 1), "{}", "}".repeat(depth - 1));
    for (depth, ok) in [(63, true), (64, true), (65, false)] {
        let result = ArgumentSchema::compile(nested(depth).as_bytes(), Fields::Closed).map(|_| ());
        assert_eq!(
            result,
            if ok {
                Ok(())
            } else {
                Err(SchemaFault::Unreadable(Fault::TooDeep))
            },
            "{depth}"
        );
    }
    let many = |count: usize| {
        let members: serde_json::Map<_, _> = (1..count).map(|number| (format!("p{number}"), json!({}))).collect();
        json!({ "properties": members }).to_string()
    };
    for (count, ok) in [(4_999, true), (5_000, true), (5_001, false)] {
        let result = ArgumentSchema::compile(many(count).as_bytes(), Fields::Closed).map(|_| ());
        assert_eq!(
            result,
            if ok {
                Ok(())
            } else {
                Err(SchemaFault::TooManySubschemas)
            },
            "{count}"
        );
    }
}

#[test]
fn deeply_nested_choices_are_refused_or_compile_without_trouble() {
    fn choices(depth: usize, width: usize) -> Json {
        match depth {
            0 => json!({"type": "integer"}),
            _ => json!({"anyOf": vec![choices(depth - 1, width); width]}),
        }
    }
    refused_quickly(&choices(12, 2), SchemaFault::TooManySubschemas);
    let start = Instant::now();
    let schema = compiled(&choices(10, 2), Fields::Closed);
    assert_eq!(judge(&schema, "1"), Ok(()));
    assert!(judge(&schema, "\"x\"").is_err());
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
}

#[test]
fn what_is_not_a_schema_is_refused() {
    for bad in [
        "",
        "{",
        "1",
        "null",
        "[]",
        "\"x\"",
        r#"{"type":"nonsense"}"#,
        r#"{"type":5}"#,
        r#"{"properties":[]}"#,
        r#"{"properties":{"a":1}}"#,
        r#"{"allOf":[]}"#,
        r#"{"anyOf":{}}"#,
        r#"{"oneOf":[1]}"#,
        r#"{"required":true}"#,
        r#"{"minLength":-1}"#,
        r#"{"$ref":1}"#,
        r#"{"items":[{}]}"#,
        r#"{"not":null}"#,
        r#"{"dependentSchemas":1}"#,
        r#"{"minimum":1e400}"#,
        r#"{"type":"object","type":"string"}"#,
    ] {
        assert!(
            ArgumentSchema::compile(bad.as_bytes(), Fields::Closed).is_err(),
            "{bad}"
        );
    }
    assert_eq!(
        fault(r#"{"enum":[1],"\u0065num":[2]}"#),
        SchemaFault::Unreadable(Fault::DuplicateKey)
    );
}

#[test]
fn a_catastrophic_pattern_takes_linear_time() {
    let schema = compiled(
        &json!({"properties": {"a": {"pattern": "^(([a-z])+.)+[A-Z]([a-z])+$"}}}),
        Fields::Closed,
    );
    let value = json!({"a": "a".repeat(60_000)}).to_string();
    let start = Instant::now();
    assert!(judge(&schema, &value).is_err());
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    assert_eq!(schema.dropped_patterns(), []);
}

#[test]
fn a_pattern_no_linear_engine_takes_is_dropped_alone_and_named() {
    let schema = compiled(
        &json!({"properties": {"a": {"type": "string", "pattern": "^(?!secret)", "maxLength": 3}, "b": {"pattern": "^(x)\\1$"},
                "c": {"pattern": "^c+$"}}, "patternProperties": {"^(?=p)": {"type": "integer"}, "^q": {}}}),
        Fields::Closed,
    );
    assert_eq!(judge(&schema, r#"{"a":"sec","b":"anything","c":"cc","q1":1}"#), Ok(()));
    assert!(judge(&schema, r#"{"a":"secr"}"#).is_err(), "maxLength is kept");
    assert!(judge(&schema, r#"{"a":1}"#).is_err(), "type is kept");
    assert!(judge(&schema, r#"{"c":"d"}"#).is_err(), "other patterns are kept");
    assert!(
        judge(&schema, r#"{"p1":1}"#).unwrap_err().has_unknown_fields(),
        "a dropped pattern declares nothing"
    );
    let told: Vec<String> = schema.dropped_patterns().iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            ": patternProperties: the pattern does not run in linear time and is not checked",
            "/properties/a: pattern: the pattern does not run in linear time and is not checked",
            "/properties/b: pattern: the pattern does not run in linear time and is not checked",
        ]
    );
}

#[test]
fn patterns_too_large_for_the_engine_are_refused() {
    assert_eq!(
        fault(&json!({"pattern": "x".repeat(4_097)}).to_string()),
        SchemaFault::PatternTooLarge
    );
    assert_eq!(
        fault(&json!({"pattern": "(\\p{L}{100}){100}"}).to_string()),
        SchemaFault::PatternTooLarge
    );
    let many: serde_json::Map<_, _> = (0..513).map(|number| (format!("^p{number}$"), json!({}))).collect();
    assert_eq!(
        fault(&json!({"patternProperties": many}).to_string()),
        SchemaFault::PatternTooLarge
    );
    let heavy: serde_json::Map<_, _> = (0..400)
        .map(|number| (format!("^\\p{{L}}{{40}}{number}$"), json!({})))
        .collect();
    refused_quickly(&json!({"patternProperties": heavy}), SchemaFault::PatternTooLarge);
    assert!(ArgumentSchema::compile(br#"{"pattern":"^[\\p{L}\\p{N} ]{1,20}$"}"#, Fields::Closed).is_ok());
}

#[test]
fn a_schema_that_branches_at_every_level_of_a_deep_value_ends_soon() {
    let same = json!({"properties": {"c": {"$ref": "#"}}, "required": ["v"]});
    let schema = json!({"properties": {"v": {}}, "anyOf": vec![same; 30]});
    let compiled = compiled(&schema, Fields::Closed);
    for leaf in [r#"{"v":1}"#, "{}", r#"{"v":1,"z":1}"#] {
        let deep = format!("{}{leaf}{}", r#"{"v":1,"c":"#.repeat(31), "}".repeat(31));
        let start = Instant::now();
        assert_eq!(judge(&compiled, &deep).is_ok(), leaf == r#"{"v":1}"#, "{leaf}");
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "{leaf} {:?}",
            start.elapsed()
        );
    }
}

#[test]
fn no_schema_and_no_value_overflow_the_stack_of_an_ordinary_thread() {
    // Sixty references a level, as many levels as a value may have.
    let mut definitions = serde_json::Map::new();
    for number in 0..60 {
        definitions.insert(
            format!("d{number}"),
            json!({"allOf": [{"$ref": format!("#/$defs/d{}", number + 1)}]}),
        );
    }
    definitions.insert("d60".to_owned(), json!({"properties": {"c": {"$ref": "#/$defs/d0"}}}));
    let heavy = json!({"$ref": "#/$defs/d0", "$defs": definitions}).to_string();
    let light = json!({"properties": {"c": {"$ref": "#"}}}).to_string();
    let chain = doubling(390, |next| json!({ "$ref": next })).to_string();
    let deepest = format!("{}{{}}{}", r#"{"c":"#.repeat(511), "}".repeat(511));
    let work = move || {
        let chain = ArgumentSchema::compile(chain.as_bytes(), Fields::Closed).unwrap();
        assert_eq!(judge(&chain, "1"), Ok(()));
        assert!(judge(&chain, "\"1\"").is_err());
        let heavy = ArgumentSchema::compile(heavy.as_bytes(), Fields::Closed).unwrap();
        assert_eq!(judge(&heavy, r#"{"c":{"c":{}}}"#), Ok(()));
        assert_eq!(
            judge(&heavy, &deepest).unwrap_err().to_string(),
            "/: nested too deep for this schema"
        );
        let light = ArgumentSchema::compile(light.as_bytes(), Fields::Closed).unwrap();
        for depth in 1..400 {
            let value = format!("{}1{}", r#"{"c":"#.repeat(depth), "}".repeat(depth));
            let _ = judge(&light, &value);
            let value = format!("{}{{\"z\":1}}{}", r#"{"c":"#.repeat(depth), "}".repeat(depth));
            assert!(judge(&light, &value).is_err());
        }
    };
    std::thread::Builder::new()
        .stack_size(2 << 20)
        .spawn(work)
        .unwrap()
        .join()
        .unwrap();
}

// R202
#[test]
fn reasons_name_the_place_the_keyword_and_what_is_allowed() {
    let schema = json!({"type": "object", "required": ["name"], "properties": {
        "name": {"type": "string", "minLength": 2, "pattern": "^[a-z]+$"},
        "count": {"type": ["integer", "null"], "minimum": 1, "maximum": 9},
        "items": {"type": "array", "maxItems": 2, "items": {"properties": {"state": {"enum": ["open", "closed"]}}}},
        "a/b~c": {"const": 1}, "when": {"format": "date-time"},
        "one": {"oneOf": [{"type": "object", "properties": {"x": {"type": "integer"}}, "additionalProperties": false}, {"type": "null"}]},
    }});
    for (value, expected) in [
        (json!([]), "/: type: must be object"),
        (json!({}), "/: required: \"name\" is missing"),
        (json!({"name": 7}), "/name: type: must be string"),
        (json!({"name": "a"}), "/name: minLength: at least 2 characters"),
        (json!({"name": "AB"}), "/name: pattern: must match ^[a-z]+$"),
        (json!({"name": "ab", "count": 0}), "/count: minimum: at least 1"),
        (
            json!({"name": "ab", "count": "1"}),
            "/count: type: must be null or integer",
        ),
        (
            json!({"name": "ab", "items": [{}, {"state": "hunter2"}]}),
            "/items/1/state: enum: one of [\"open\",\"closed\"]",
        ),
        (
            json!({"name": "ab", "items": [1, 2, 3]}),
            "/items: maxItems: at most 2 items",
        ),
        (json!({"name": "ab", "a/b~c": 2}), "/a~1b~0c: const: must be 1"),
        (
            json!({"name": "ab", "one": {"x": "1"}}),
            "/one/x: type: must be integer",
        ),
        (
            json!({"name": "ab", "one": 5}),
            "/one: oneOf: none of the allowed forms fits",
        ),
        (
            json!({"name": "ab", "one": {"q": 1}}),
            "/one: unknown field <unexpected key #1>: one of [\"x\"]",
        ),
        (
            json!({"name": "ab", "hunter2": 1}),
            "/: unknown field <unexpected key #1>: one of [\"a/b~c\",\"count\",\"items\",\"name\",\"one\",\"when\"]",
        ),
        (
            json!({"name": "ab", "items": [{"hunter2": 1}]}),
            "/items/0: unknown field <unexpected key #1>: one of [\"state\"]",
        ),
    ] {
        assert_eq!(says(&schema, &value), expected, "{value}");
    }
    let several = says(&schema, &json!({"name": 7, "count": 99, "z": 1}));
    for part in [
        "/: unknown field <unexpected key #1>",
        "/name: type: must be string",
        "/count: maximum: at most 9",
    ] {
        assert!(several.contains(part), "{several}");
    }
}

#[test]
fn reasons_hold_nothing_of_the_value_and_stay_short() {
    let schema = json!({"additionalProperties": {"type": "object", "additionalProperties": {"type": "integer"}}});
    let value = json!({"hunter2": {"hunter3": "hunter4", "hunter5": 1}, "hunter6": {"hunter3": "hunter7"}});
    assert_eq!(
        says(&schema, &value),
        "/<unexpected key #1>/<unexpected key #2>: type: must be integer; /<unexpected key #3>/<unexpected key #2>: type: must be integer"
    );
    for (schema, value) in [
        (json!({"uniqueItems": true}), json!(["hunter2", "hunter2"])),
        (json!({"not": {}}), json!("hunter2")),
        (json!({"contains": {"type": "integer"}}), json!(["hunter2"])),
        (json!({"propertyNames": {"maxLength": 3}}), json!({"hunter2": 1})),
        (json!({"unevaluatedItems": false}), json!(["hunter2"])),
        (json!({"items": false}), json!(["hunter2"])),
        (json!({"additionalProperties": false}), json!({"hunter2": 1})),
        (json!({"unevaluatedProperties": false}), json!({"hunter2": 1})),
        (json!({"dependentRequired": {"hunter2": ["b"]}}), json!({"hunter2": 1})),
        (
            json!({"$schema": "http://json-schema.org/draft-07/schema#", "contentMediaType": "application/json"}),
            json!("{hunter2"),
        ),
    ] {
        let said = says(&schema, &value);
        assert!(!said.contains("hunter"), "{schema} {said}");
    }
    let names: serde_json::Map<_, _> = (0..100)
        .map(|number| (format!("schlüssel{number}"), json!({})))
        .collect();
    let many: serde_json::Map<_, _> = (0..100).map(|number| (format!("z{number}"), json!(1))).collect();
    let violations = closed(&json!({ "properties": names }), &Json::Object(many)).unwrap_err();
    assert_eq!(violations.items().len(), 5);
    assert!(violations.items().iter().all(|item| item.len() <= 200), "{violations}");
}

#[test]
fn numbers_are_judged_by_their_value_and_kept_exact_as_far_as_the_schema_can_be() {
    let schema = compiled(
        &json!({"properties": {"i": {"type": "integer"}, "m": {"maximum": 9007199254740992_u64},
        "c": {"const": 9007199254740993_u64}, "t": {"multipleOf": 0.1}, "u": {"uniqueItems": true}}}),
        Fields::Open,
    );
    for good in [
        r#"{"i":1.0}"#,
        r#"{"i":1e2}"#,
        r#"{"i":-0}"#,
        r#"{"m":9007199254740992}"#,
        r#"{"c":9007199254740993}"#,
        r#"{"t":0.3}"#,
        r#"{"u":[1,2,"1",[1],{"a":1},9007199254740993,9007199254740992]}"#,
    ] {
        assert_eq!(judge(&schema, good), Ok(()), "{good}");
    }
    for bad in [
        r#"{"i":1.5}"#,
        r#"{"i":"1"}"#,
        r#"{"m":9007199254740993}"#,
        r#"{"c":9007199254740992}"#,
        r#"{"t":0.35}"#,
        r#"{"u":[1,1.0]}"#,
        r#"{"u":[{"a":1,"b":[2]},{"b":[2.0],"a":1}]}"#,
    ] {
        assert!(judge(&schema, bad).is_err(), "{bad}");
    }
}

#[test]
fn unique_items_stay_fast() {
    let schema = compiled(
        &json!({"properties": {"u": {"uniqueItems": true, "items": {"properties": {"id": {}}}}}}),
        Fields::Closed,
    );
    let items: Vec<Json> = (0..20_000).map(|number| json!({ "id": number })).collect();
    let value = json!({ "u": items }).to_string();
    let start = Instant::now();
    assert_eq!(judge(&schema, &value), Ok(()));
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
}

fn scalar() -> impl Strategy<Value = Json> {
    prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Json::from),
        (-3..4).prop_map(Json::from),
        Just(json!(1.5)),
        "[ab]{0,3}".prop_map(Json::from)
    ]
}

fn instance() -> impl Strategy<Value = Json> {
    scalar().prop_recursive(4, 30, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Json::from),
            prop::collection::btree_map("[abc]", inner, 0..4)
                .prop_map(|members| Json::Object(members.into_iter().collect())),
        ]
    })
}

fn subschema() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(json!({})),
        Just(json!(true)),
        Just(json!(false)),
        Just(json!({"type": "object"})),
        Just(json!({"type": ["integer", "string"]})),
        scalar().prop_map(|value| json!({ "const": value })),
        prop::collection::vec(scalar(), 1..3).prop_map(|values| json!({ "enum": values })),
        (0..3).prop_map(|limit| json!({ "minimum": limit })),
        (0..3).prop_map(|limit| json!({ "maxLength": limit })),
        (0..3).prop_map(|limit| json!({ "minProperties": limit })),
        "[abc]".prop_map(|name| json!({ "required": [name] })),
        Just(json!({"pattern": "^a"})),
        Just(json!({"uniqueItems": true})),
        (0..3).prop_map(|to| json!({ "$ref": format!("#/$defs/{to}") })),
    ];
    leaf.prop_recursive(3, 24, 3, |inner| {
        let list = prop::collection::vec(inner.clone(), 1..3);
        prop_oneof![
            list.clone().prop_map(|schemas| json!({ "allOf": schemas })),
            list.clone().prop_map(|schemas| json!({ "anyOf": schemas })),
            list.prop_map(|schemas| json!({ "oneOf": schemas })),
            inner.clone().prop_map(|schema| json!({ "not": schema })),
            (inner.clone(), inner.clone(), inner.clone())
                .prop_map(|(i, t, e)| json!({ "if": i, "then": t, "else": e })),
            (
                prop::collection::btree_map("[abc]", inner.clone(), 1..3),
                prop::option::of(inner.clone())
            )
                .prop_map(|(properties, additional)| match additional {
                    Some(additional) => json!({ "properties": properties, "additionalProperties": additional }),
                    None => json!({ "properties": properties }),
                }),
            inner
                .clone()
                .prop_map(|schema| json!({ "patternProperties": { "^[ab]$": schema } })),
            inner.clone().prop_map(|schema| json!({ "items": schema })),
            (inner.clone(), inner.clone()).prop_map(|(first, rest)| json!({ "prefixItems": [first], "items": rest })),
            inner.clone().prop_map(|schema| json!({ "contains": schema })),
            inner
                .clone()
                .prop_map(|schema| json!({ "dependentSchemas": { "a": schema } })),
            inner.clone().prop_map(|schema| json!({ "propertyNames": schema })),
            (inner.clone(), inner).prop_map(|(one, other)| json!({ "allOf": [one], "unevaluatedProperties": other })),
        ]
    })
}

/// A document with three definitions that refer to one another downwards only.
fn document() -> impl Strategy<Value = Json> {
    (subschema(), subschema(), subschema()).prop_map(|(root, one, other)| {
        let flat = |schema: Json| serde_json::from_str::<Json>(&schema.to_string().replace("#/$defs/", "#/$defs/leaf")).unwrap();
        json!({"allOf": [root], "$defs": {"0": flat(one), "1": flat(other), "2": {"type": "integer"},
               "leaf0": {"type": "string"}, "leaf1": {"properties": {"a": {}}}, "leaf2": {"additionalProperties": true}}})
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn left_open_the_verdict_is_the_librarys(schema in document(), value in instance()) {
        let ours = ArgumentSchema::compile(schema.to_string().as_bytes(), Fields::Open).unwrap();
        let theirs = jsonschema::options().with_draft(jsonschema::Draft::Draft202012).build(&schema).unwrap();
        prop_assert_eq!(judge(&ours, &value.to_string()).is_ok(), theirs.is_valid(&value), "{} {}", schema, value);
    }

    #[test]
    fn closed_is_the_same_verdict_and_nothing_unknown(schema in document(), value in instance()) {
        let open = judge(&compiled(&schema, Fields::Open), &value.to_string());
        match judge(&compiled(&schema, Fields::Closed), &value.to_string()) {
            Ok(()) => prop_assert_eq!(open, Ok(())),
            Err(violations) => prop_assert!(open.is_err() || violations.has_unknown_fields(), "{} {}", schema, value),
        }
    }

    // For members without parts of their own, closed is what `unevaluatedProperties: false` says.
    #[test]
    fn at_the_top_closed_means_unevaluated_properties_false(
        schema in document(),
        value in prop::collection::btree_map("[abcd]", scalar(), 0..4),
    ) {
        let value = Json::Object(value.into_iter().collect());
        let mut shut = schema.clone();
        shut["unevaluatedProperties"] = json!(false);
        let theirs = jsonschema::options().with_draft(jsonschema::Draft::Draft202012).build(&shut).unwrap();
        let ours = judge(&compiled(&schema, Fields::Closed), &value.to_string());
        prop_assert_eq!(ours.is_ok(), theirs.is_valid(&value), "{} {} {:?}", schema, value, ours);
    }

    #[test]
    fn nothing_of_the_value_is_ever_said(schema in document(), value in instance()) {
        let marked = value.to_string().replace("\"c\"", "\"hunter2\"").replace("\"b", "\"hunter3");
        if let Err(violations) = judge(&compiled(&schema, Fields::Closed), &marked) {
            prop_assert!(!violations.to_string().contains("hunter"), "{} {} {}", schema, marked, violations);
        }
    }
}
