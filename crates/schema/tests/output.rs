//! Output schemas: judged as they stand, told without quoting, refused where they could do harm.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on must stop")]

use portreeve_schema::{OutputSchema, SchemaFault, Violations};
use proptest::prelude::*;
use serde_json::{Value as Json, json};
use vocabulary::Digest;
use vocabulary::json::{Fault, Limits, Value};

const WIDE: Limits = Limits {
    max_bytes: 64 << 20,
    max_depth: 512,
    max_string: 64 << 20,
    max_items: 64 << 20,
};

fn compiled(schema: &Json) -> OutputSchema {
    OutputSchema::compile(schema.to_string().as_bytes()).unwrap_or_else(|fault| panic!("{fault}: {schema}"))
}

fn judge(schema: &OutputSchema, value: &str) -> Result<(), Violations> {
    schema.check(&Value::parse(value.as_bytes(), &WIDE).unwrap())
}

fn fits(schema: &Json, value: &Json) -> bool {
    judge(&compiled(schema), &value.to_string()).is_ok()
}

fn says(schema: &Json, value: &Json) -> String {
    judge(&compiled(schema), &value.to_string()).unwrap_err().to_string()
}

fn fault(schema: &Json) -> SchemaFault {
    OutputSchema::compile(schema.to_string().as_bytes()).unwrap_err()
}

const DIALECTS: [&str; 5] = [
    "http://json-schema.org/draft-04/schema#",
    "http://json-schema.org/draft-06/schema#",
    "http://json-schema.org/draft-07/schema#",
    "https://json-schema.org/draft/2019-09/schema",
    "https://json-schema.org/draft/2020-12/schema",
];

// R035
#[test]
fn objects_are_as_open_as_the_schema_leaves_them() {
    let open = json!({"type": "object", "properties": {"a": {"type": "integer"}}});
    assert!(fits(&open, &json!({"a": 1, "more": {"and": ["more"]}})));
    let shut = json!({"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": false});
    assert!(fits(&shut, &json!({"a": 1})));
    assert_eq!(
        says(&shut, &json!({"a": 1, "hunter2": 1})),
        "/: additionalProperties: unknown field <unexpected key #1>"
    );
}

#[test]
fn a_result_may_be_of_any_type() {
    for (kind, value) in [
        ("null", json!(null)),
        ("boolean", json!(true)),
        ("integer", json!(7)),
        ("number", json!(1.5)),
        ("string", json!("text")),
        ("array", json!([1])),
        ("object", json!({"a": 1})),
    ] {
        assert!(fits(&json!({ "type": kind }), &value), "{kind}");
        let other = if kind == "null" { json!(false) } else { json!(null) };
        assert!(!fits(&json!({ "type": kind }), &other), "{kind}");
    }
}

#[test]
fn every_dialect_is_read_as_it_means() {
    for uri in DIALECTS {
        let schema = json!({"$schema": uri, "type": "object", "required": ["a"],
                            "properties": {"a": {"$ref": "#/definitions/d"}}, "definitions": {"d": {"type": "integer"}}});
        assert!(fits(&schema, &json!({"a": 1})), "{uri}");
        assert!(!fits(&schema, &json!({"a": "1"})), "{uri}");
        assert!(!fits(&schema, &json!({})), "{uri}");
        // Up to draft 7 a format is asserted, later it is a remark.
        let format = json!({"$schema": uri, "format": "ipv4"});
        assert_eq!(fits(&format, &json!("nonsense")), uri.contains("/draft/"), "{uri}");
        // Up to draft 7 nothing beside `$ref` counts.
        let beside = json!({"$schema": uri, "properties": {"a": {"$ref": "#/definitions/d", "maximum": 3}},
                            "definitions": {"d": {"type": "integer"}}});
        assert_eq!(fits(&beside, &json!({"a": 7})), !uri.contains("/draft/"), "{uri}");
    }
    // Without a word it is 2020-12.
    assert!(!fits(&json!({"prefixItems": [{"type": "integer"}]}), &json!(["x"])));
    assert!(fits(&json!({"format": "ipv4"}), &json!("nonsense")));
    let old = json!({"$schema": DIALECTS[0], "maximum": 5, "exclusiveMaximum": true});
    assert!(fits(&old, &json!(4)) && !fits(&old, &json!(5)));
}

// R041
#[test]
fn what_cannot_be_compiled_is_told_by_its_class() {
    for (schema, expected) in [
        (json!({"type": 7}), SchemaFault::NotASchema),
        (json!({"type": "objekt"}), SchemaFault::NotASchema),
        (json!({"properties": []}), SchemaFault::NotASchema),
        (json!({"minimum": "1"}), SchemaFault::NotASchema),
        (json!([]), SchemaFault::NotASchema),
        (json!("x"), SchemaFault::NotASchema),
        (
            json!({"$schema": "https://example.com/own"}),
            SchemaFault::UnknownDialect,
        ),
        (json!({"$ref": "#/nowhere"}), SchemaFault::DanglingReference),
        (
            json!({"$ref": "https://example.com/x"}),
            SchemaFault::ReferenceLeavesDocument,
        ),
        (
            json!({"$ref": "file:///etc/passwd"}),
            SchemaFault::ReferenceLeavesDocument,
        ),
        (json!({"$ref": "#"}), SchemaFault::ReferenceCycle),
    ] {
        assert_eq!(fault(&schema), expected, "{schema}");
    }
    for raw in [
        &b""[..],
        b"{",
        b"{}{}",
        b"{\"type\":\"object\",\"type\":\"string\"}",
        b"\xff",
    ] {
        assert!(matches!(OutputSchema::compile(raw), Err(SchemaFault::Unreadable(_))));
    }
}

#[test]
fn no_schema_makes_us_fetch_or_read() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let http = format!("http://{}/schema.json", listener.local_addr().unwrap());
    let file = std::env::temp_dir().join(format!("portreeve-schema-{}.json", std::process::id()));
    std::fs::write(&file, "{}").unwrap();
    let file_uri = format!("file://{}", file.display());
    for target in [
        http.as_str(),
        file_uri.as_str(),
        "other.json",
        "//host/x",
        "/etc/hostname",
    ] {
        for keyword in ["$ref", "$dynamicRef"] {
            for schema in [
                json!({ keyword: target }),
                json!({"properties": {"a": {"anyOf": [{ keyword: format!("{target}#/x") }]}}}),
                json!({"$id": target, "$defs": {"a": {keyword: format!("{target}x")}}, "$ref": "#/$defs/a"}),
            ] {
                assert_eq!(fault(&schema), SchemaFault::ReferenceLeavesDocument, "{schema}");
            }
        }
    }
    // A file that exists and would be a schema: refused all the same, so nobody read it.
    std::fs::remove_file(&file).unwrap();
    assert!(listener.accept().is_err(), "somebody fetched a schema");
}

/// Each link asks for the next one twice, in the way that `link` says.
fn doubling(links: usize, link: impl Fn(&str) -> Json) -> Json {
    let mut definitions = serde_json::Map::new();
    for number in 0..links {
        definitions.insert(format!("{number}"), link(&format!("#/$defs/{}", number + 1)));
    }
    definitions.insert(format!("{links}"), json!({}));
    json!({"$ref": "#/$defs/0", "$defs": definitions})
}

#[test]
fn schemas_that_cost_too_much_are_refused_before_they_are_compiled() {
    let twice = |next: &str| json!({"allOf": [{"$ref": next}, {"$ref": next}]});
    let chain = doubling(26, twice);
    assert!(chain.to_string().len() < 1_800, "{}", chain.to_string().len());
    assert_eq!(fault(&chain), SchemaFault::TooManyEvaluations);
    assert!(OutputSchema::compile(doubling(12, twice).to_string().as_bytes()).is_ok());
    // Megabytes of nested `anyOf`, wide or deep.
    let wide = format!("{{\"anyOf\":[{}{{}}]}}", "{\"anyOf\":[{},{}]},".repeat(200_000));
    assert!(wide.len() > 3 << 20);
    assert_eq!(
        OutputSchema::compile(wide.as_bytes()).unwrap_err(),
        SchemaFault::Unreadable(Fault::TooLarge)
    );
    let deep = format!("{}{{}}{}", "{\"anyOf\":[".repeat(10_000), "]}".repeat(10_000));
    assert_eq!(
        OutputSchema::compile(deep.as_bytes()).unwrap_err(),
        SchemaFault::Unreadable(Fault::TooDeep)
    );
    let many = json!({"anyOf": vec![json!({}); 5_000]});
    assert_eq!(fault(&many), SchemaFault::TooManySubschemas);
    // Circles that never go down into the value, plain and dynamic.
    for circle in [
        json!({"$dynamicRef": "#a", "$dynamicAnchor": "a"}),
        json!({"$dynamicAnchor": "a", "anyOf": [{"$dynamicRef": "#a"}, {}]}),
        json!({"$defs": {"x": {"$ref": "#/$defs/y"}, "y": {"not": {"$ref": "#/$defs/x"}}}, "$ref": "#/$defs/x"}),
        json!({"$schema": DIALECTS[3], "$recursiveAnchor": true, "$recursiveRef": "#"}),
    ] {
        assert_eq!(fault(&circle), SchemaFault::ReferenceCycle, "{circle}");
    }
    let two = json!({"$id": "https://x/r", "$dynamicAnchor": "a", "properties": {"p": {"$dynamicRef": "#a"}},
                     "$defs": {"o": {"$id": "other", "$dynamicAnchor": "a"}}});
    assert_eq!(fault(&two), SchemaFault::DynamicReference);
    // The twin: a tree.
    let tree = json!({"$dynamicAnchor": "t", "type": "object", "properties": {"next": {"$dynamicRef": "#t"}}});
    assert!(fits(&tree, &json!({"next": {"next": {}}})));
    assert!(!fits(&tree, &json!({"next": {"next": 1}})));
}

#[test]
fn catastrophic_patterns_run_in_linear_time_and_giant_ones_are_refused() {
    let schema = compiled(&json!({"pattern": "^(a+)+$", "not": {"pattern": "^(([a-z])+.)+[A-Z]([a-z])+$"}}));
    assert_eq!(schema.dropped_patterns(), []);
    // A backtracking engine would need 2^50000 steps; that this ends at all is the proof.
    assert!(judge(&schema, &format!("\"{}!\"", "a".repeat(50_000))).is_err());
    assert!(judge(&schema, &format!("\"{}\"", "a".repeat(50_000))).is_ok());
    for pattern in [
        "(((a{1,100}){1,100}){1,100}){1,100}",
        "\\p{L}{5000}",
        &"x".repeat(5_000),
    ] {
        assert_eq!(fault(&json!({ "pattern": pattern })), SchemaFault::PatternTooLarge);
        assert_eq!(
            fault(&json!({"patternProperties": { pattern: {} }})),
            SchemaFault::PatternTooLarge
        );
    }
}

#[test]
fn a_pattern_no_linear_engine_takes_is_dropped_alone_and_told() {
    let schema = compiled(&json!({"properties": {
        "a": {"type": "string", "pattern": "^(?!x).*$", "maxLength": 3}, "b": {"pattern": "^(.)\\1$"}, "c": {"pattern": "^y$"}}}));
    let dropped: Vec<String> = schema.dropped_patterns().iter().map(ToString::to_string).collect();
    assert_eq!(
        dropped,
        [
            "/properties/a: pattern: the pattern does not run in linear time and is not checked",
            "/properties/b: pattern: the pattern does not run in linear time and is not checked",
        ]
    );
    assert_eq!(judge(&schema, r#"{"a":"xyz","b":"no","c":"y"}"#), Ok(()));
    assert!(judge(&schema, r#"{"a":"long"}"#).is_err());
    assert!(judge(&schema, r#"{"c":"x"}"#).is_err());
    assert!(!schema.is_vacuous());
    assert!(compiled(&json!({"pattern": "(?=x)"})).is_vacuous());
}

#[test]
fn nothing_is_called_wrong_because_of_a_pattern_that_is_not_checked() {
    let odd = json!({"pattern": "^(?!x)"});
    for (schema, value) in [
        (json!({"not": {"pattern": "^(?=x)"}}), json!("y")),
        (json!({"not": {"allOf": [{"pattern": "^(?=x)"}]}}), json!("y")),
        (json!({"if": {"pattern": "^(?=x)"}, "then": false}), json!("y")),
        (json!({"oneOf": [{"pattern": "^(?=x)"}, {"pattern": "^y"}]}), json!("y")),
        (json!({"oneOf": [odd, {"type": "string"}]}), json!("x")),
        (
            json!({"contains": {"pattern": "^(?=x)"}, "maxContains": 1}),
            json!(["x", "y"]),
        ),
        (
            json!({"patternProperties": {"^(?!x)": {}}, "additionalProperties": false}),
            json!({"a": 1}),
        ),
        (
            json!({"allOf": [{"patternProperties": {"^(?!x)": {}}}], "unevaluatedProperties": false}),
            json!({"a": 1}),
        ),
        (
            json!({"if": {"properties": {"a": {"pattern": "^(?!x)"}}}, "then": {"properties": {"a": {}}}, "unevaluatedProperties": false}),
            json!({"a": "y"}),
        ),
        (
            json!({"properties": {"p": {"not": {"$ref": "#/$defs/o"}}}, "$defs": {"o": {"pattern": "^(?=x)"}}}),
            json!({"p": "y"}),
        ),
    ] {
        assert!(fits(&schema, &value), "{schema} {value}");
    }
    // What does not hang on the pattern still holds.
    let beside = json!({"not": {"pattern": "^(?=x)"}, "oneOf": [{"pattern": "(?=x)", "maxLength": 2}, {"type": "integer"}],
                        "required": ["a"]});
    assert!(!fits(&beside, &json!("long")) && !fits(&beside, &json!({})) && fits(&beside, &json!("ab")));
}

#[test]
fn schemas_that_say_nothing_are_known() {
    for nothing in [
        json!({}),
        json!(true),
        json!({"description": "anything", "title": "t", "default": 1, "$comment": "c", "x-own": {"type": "string"}}),
        json!({"$schema": DIALECTS[4], "$id": "x"}),
        json!({"properties": {"a": {}, "b": true}}),
        json!({"allOf": [{}, true], "anyOf": [{"type": "string"}, {}], "items": {}}),
        json!({"$ref": "#/$defs/a", "$defs": {"a": {"properties": {"next": {"$ref": "#/$defs/a"}}}}}),
        json!({"$defs": {"unused": {"type": "string"}}}),
        json!({"required": [], "minLength": 0, "uniqueItems": false, "additionalProperties": true}),
        json!({"format": "date"}),
        json!({"if": {"type": "string"}, "then": {}}),
        json!({"then": {"type": "string"}}),
        json!({"not": false}),
    ] {
        let schema = compiled(&nothing);
        assert!(schema.is_vacuous(), "{nothing}");
        for value in ["1", "null", r#"{"a":[1],"next":{"next":7}}"#, "\"x\""] {
            assert_eq!(judge(&schema, value), Ok(()), "{nothing}");
        }
    }
    for something in [
        json!(false),
        json!({"type": "object"}),
        json!({"properties": {"a": {"items": {"type": "string"}}}}),
        json!({"$ref": "#/$defs/a", "$defs": {"a": {"maximum": 3}}}),
        json!({"not": {}}),
        json!({"anyOf": [{"type": "string"}, false]}),
        json!({"oneOf": [{}, {}]}),
        json!({"contains": {}}),
        json!({"dependentRequired": {"a": ["b"]}}),
        json!({"additionalProperties": false}),
        json!({"$schema": DIALECTS[2], "format": "date"}),
        json!({"enum": [1]}),
    ] {
        assert!(!compiled(&something).is_vacuous(), "{something}");
    }
}

#[test]
fn the_hash_is_of_the_bytes_as_they_came() {
    let raw = br#" { "type" : "object" } "#;
    assert_eq!(OutputSchema::compile(raw).unwrap().hash(), Digest::of(raw));
}

#[test]
fn the_first_reason_is_told_by_place_and_keyword() {
    let schema =
        compiled(&json!({"properties": {"items": {"items": {"properties": {"state": {"enum": ["open", "closed"]}}}}}}));
    let violations = judge(&schema, r#"{"items":[{},{"state":"hunter2"}]}"#).unwrap_err();
    assert_eq!(
        (violations.path(), violations.keyword()),
        ("/items/1/state", Some("enum"))
    );
    assert_eq!(
        violations.items(),
        ["/items/1/state: enum: one of [\"open\",\"closed\"]"]
    );
    let map = compiled(&json!({"additionalProperties": {"type": "integer"}}));
    let violations = judge(&map, r#"{"hunter2":"x"}"#).unwrap_err();
    assert_eq!(
        (violations.path(), violations.keyword()),
        ("/<unexpected key #1>", Some("type"))
    );
}

// R025
#[test]
fn reasons_are_few_short_plain_and_hold_nothing_of_the_value() {
    let long = "é".repeat(300);
    let schema = compiled(&json!({"properties": {
        "a": {"enum": [long]}, "b": {"pattern": "^\u{1b}[31m\u{202e}$"}, "c": {"type": "null"}, "d": {"type": "null"},
        "e": {"type": "null"}, "f": {"type": "null"}, "g\u{7}": {"type": "null"}}}));
    let value = r#"{"a":"hunter2","b":"hunter2","c":1,"d":1,"e":1,"f":1,"g\u0007":1}"#;
    let violations = judge(&schema, value).unwrap_err();
    assert_eq!(violations.items().len(), 5);
    for item in violations.items() {
        assert!(item.len() <= 200 && !item.contains("hunter"), "{item}");
        assert!(
            !item.contains(|character: char| character.is_control() || character == '\u{202e}'),
            "{item:?}"
        );
    }
    let only = judge(&schema, r#"{"a":"x"}"#).unwrap_err();
    assert!(only.items()[0].ends_with('…') && only.items()[0].len() > 190, "{only}");
    assert_eq!(judge(&schema, r#"{"g\u0007":1}"#).unwrap_err().path(), "/g\u{fffd}");
}

#[test]
fn a_hundred_thousand_strange_names_are_told_as_a_few() {
    for schema in [
        json!({"additionalProperties": false}),
        json!({"properties": {"a": {}}, "additionalProperties": false}),
        json!({"properties": {"a": {}}, "unevaluatedProperties": false}),
    ] {
        for count in [900, 100_000] {
            let members: Vec<String> = (0..count).map(|number| format!("\"k{number}\":1")).collect();
            let violations = judge(&compiled(&schema), &format!("{{{}}}", members.join(","))).unwrap_err();
            assert!(violations.items().len() <= 5);
            assert!(violations.keyword().unwrap().ends_with("Properties"), "{violations}");
        }
    }
}

#[test]
fn a_value_that_would_keep_the_schema_busy_for_minutes_is_not_judged() {
    let names: Vec<String> = (0..20_000).map(|number| format!("n{number:05}")).collect();
    let members: Vec<String> = (0..100_000).map(|number| format!("\"m{number:05}\":1")).collect();
    let object = format!("{{{}}}", members.join(","));
    let numbers = format!("[{}7]", "7,".repeat(500_000));
    let options: Vec<usize> = (100..40_000).collect();
    let consts: Vec<Json> = (100..5_000).map(|number| json!({ "const": number })).collect();
    for (schema, value) in [
        (json!({ "required": names }), &object),
        (json!({"items": {"enum": options}}), &numbers),
        (json!({"items": {"anyOf": consts}}), &numbers),
    ] {
        let violations = judge(&compiled(&schema), value).unwrap_err();
        assert_eq!(violations.to_string(), "/: too large for this schema");
    }
    // The twins: an ordinary schema and just as much to judge.
    let states: Vec<usize> = (0..200).collect();
    assert_eq!(judge(&compiled(&json!({"items": {"enum": states}})), &numbers), Ok(()));
    let few = json!({"required": ["m00000"], "additionalProperties": {"type": "integer"}});
    assert_eq!(judge(&compiled(&few), &object), Ok(()));
}

#[test]
fn a_long_text_is_not_asked_whether_it_is_a_pattern() {
    let schema = compiled(&json!({"$schema": DIALECTS[2], "format": "regex"}));
    assert_eq!(judge(&schema, r#""^[a-z]+(?!x)$""#), Ok(()));
    let violations = judge(&schema, r#""^(hunter2""#).unwrap_err();
    assert_eq!(violations.to_string(), "/: format: must be a regex");
    // The library would take minutes over this one.
    let groups: String = (0..200_000).map(|number| format!("(?<a{number}>)")).collect();
    assert_eq!(judge(&schema, &format!("\"{groups}\"")), Ok(()));
}

#[test]
fn a_verdict_is_the_same_every_time() {
    // R238
    let text = json!({"properties": {"a": {"type": "integer"}, "b": {"maxItems": 1}}, "required": ["c"]});
    let kept = compiled(&text);
    // The order of members is the sender's, and no reason to say something else.
    let values = [
        r#"{"a":"x","b":[1,2],"d":{"e":1}}"#,
        r#"{"d":{"e":1},"b":[1,2],"a":"x"}"#,
        r#"{ "b":[1 ,2],"a":"x" , "d":{"e":1.0}}"#,
    ];
    let told = "/: required: \"c\" is missing; /a: type: must be integer; /b: maxItems: at most 1 items";
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for value in values.iter().cycle().take(250) {
                    assert_eq!(judge(&kept, value).unwrap_err().to_string(), told);
                    assert_eq!(judge(&compiled(&text), value).unwrap_err().to_string(), told);
                }
            });
        }
    });
}

fn scalar() -> impl Strategy<Value = Json> {
    prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Json::from),
        (-3..4).prop_map(Json::from),
        "[ab]{0,3}".prop_map(Json::from)
    ]
}

fn instance() -> impl Strategy<Value = Json> {
    scalar().prop_recursive(3, 20, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Json::from),
            prop::collection::btree_map("[abc]", inner, 0..4)
                .prop_map(|members| Json::Object(members.into_iter().collect())),
        ]
    })
}

/// Patterns that look around, each beside one that means the same without.
const TWINS: [(&str, &str); 3] = [("^(?=a)", "^a"), ("^(?!a)", "^([^a]|$)"), ("(?<=b)$", "b$")];

fn odd_pattern() -> impl Strategy<Value = &'static str> {
    prop::sample::select(TWINS.map(|(odd, _)| odd).to_vec())
}

fn subschema() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(json!({})),
        Just(json!({"type": "string"})),
        Just(json!({"type": ["object", "array"]})),
        odd_pattern().prop_map(|odd| json!({ "pattern": odd })),
        (0..3).prop_map(|limit| json!({ "maxLength": limit })),
    ];
    leaf.prop_recursive(3, 20, 3, |inner| {
        let list = prop::collection::vec(inner.clone(), 1..3);
        prop_oneof![
            list.clone().prop_map(|schemas| json!({ "allOf": schemas })),
            list.clone().prop_map(|schemas| json!({ "anyOf": schemas })),
            list.prop_map(|schemas| json!({ "oneOf": schemas })),
            inner.clone().prop_map(|schema| json!({ "not": schema })),
            (inner.clone(), inner.clone(), inner.clone())
                .prop_map(|(i, t, e)| json!({ "if": i, "then": t, "else": e })),
            inner
                .clone()
                .prop_map(|schema| json!({ "properties": {"a": schema}, "additionalProperties": false })),
            (odd_pattern(), inner.clone()).prop_map(|(odd, schema)| {
                json!({"patternProperties": { odd: schema }, "additionalProperties": {"type": "null"}})
            }),
            (inner.clone(), inner.clone())
                .prop_map(|(one, other)| json!({ "allOf": [one], "unevaluatedProperties": other })),
            (inner.clone(), 0..2)
                .prop_map(|(schema, most)| json!({ "contains": schema, "maxContains": most, "minContains": 0 })),
            inner.clone().prop_map(|schema| json!({ "items": schema })),
            inner.prop_map(|schema| json!({ "propertyNames": schema })),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    // Dropping a pattern only ever lets more through.
    #[test]
    fn what_fits_the_whole_schema_fits_what_is_left_of_it(schema in subschema(), value in instance()) {
        let mut whole = schema.to_string();
        for (odd, plain) in TWINS {
            whole = whole.replace(odd, plain);
        }
        let whole: Json = serde_json::from_str(&whole).unwrap();
        let theirs = jsonschema::options().with_draft(jsonschema::Draft::Draft202012).build(&whole).unwrap();
        let ours = judge(&compiled(&schema), &value.to_string());
        if theirs.is_valid(&value) {
            prop_assert_eq!(ours, Ok(()), "{} {}", schema, value);
        } else if !schema.to_string().contains("(?") {
            prop_assert!(ours.is_err(), "{} {}", schema, value);
        }
    }
}

#[test]
fn a_schema_that_says_nothing_takes_everything() {
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(600));
    let (nothing, something) = (std::cell::Cell::new(0), std::cell::Cell::new(0));
    let judged = runner.run(&(subschema(), instance()), |(schema, value)| {
        // The patterns as ordinary ones, so that another reader knows them too.
        let mut plain = schema.to_string();
        for (odd, twin) in TWINS {
            plain = plain.replace(odd, twin);
        }
        let plain: Json = serde_json::from_str(&plain).unwrap();
        let theirs = jsonschema::options()
            .with_draft(jsonschema::Draft::Draft202012)
            .build(&plain)
            .unwrap();
        let fits = theirs.is_valid(&value);
        if compiled(&plain).is_vacuous() {
            nothing.set(nothing.get() + 1);
            prop_assert!(fits, "{} {}", plain, value);
        }
        something.set(something.get() + usize::from(!fits));
        Ok(())
    });
    judged.unwrap();
    let (nothing, something) = (nothing.get(), something.get());
    assert!(
        nothing > 10 && something > 100,
        "{nothing} said nothing, {something} refused"
    );
}
