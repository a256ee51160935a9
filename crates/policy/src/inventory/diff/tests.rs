use serde_json::json;

use super::*;

fn found(old: Value, new: Value) -> Vec<(String, &'static str)> {
    let changes = differences(old.to_string().as_bytes(), new.to_string().as_bytes());
    changes
        .into_iter()
        .map(|change| (change.path, change.kind.as_str()))
        .collect()
}

/// A tool whose one property has this schema.
fn tool(property: Value) -> Value {
    json!({"name": "t", "inputSchema": {"type": "object", "properties": {"p": property}}})
}

#[test]
fn what_a_schema_takes_is_narrowed_or_widened() {
    for (keyword, old, new) in [
        ("maxLength", json!(5), json!(9)),
        ("minLength", json!(9), json!(5)),
        ("exclusiveMinimum", json!(1.5), json!(-1)),
        ("maximum", json!(1), json!(2)),
        ("enum", json!(["a"]), json!(["b", "a"])),
        ("type", json!("integer"), json!("number")),
        ("type", json!("string"), json!(["string", "null"])),
        ("multipleOf", json!(4), json!(2)),
        ("uniqueItems", json!(true), json!(false)),
        ("items", json!({"type": "string"}), json!(true)),
        (
            "anyOf",
            json!([{"type": "string"}]),
            json!([{"type": "string"}, {"type": "null"}]),
        ),
        (
            "allOf",
            json!([{"minLength": 1}, {"maxLength": 2}]),
            json!([{"minLength": 1}]),
        ),
        ("required", json!(["a", "b"]), json!(["a"])),
        ("additionalProperties", json!(false), json!(true)),
        ("additionalProperties", json!(false), json!({"type": "string"})),
    ] {
        let path = format!("/inputSchema/properties/p/{keyword}");
        let (old, new) = (tool(json!({keyword: old})), tool(json!({keyword: new})));
        assert_eq!(
            found(old.clone(), new.clone()),
            [(path.clone(), "widened")],
            "{keyword}"
        );
        assert_eq!(found(new, old), [(path, "narrowed")], "{keyword}");
    }
}

#[test]
fn a_constraint_that_comes_narrows_and_one_that_goes_widens() {
    for (keyword, value) in [
        ("maxLength", json!(5)),
        ("pattern", json!("^a$")),
        ("const", json!(1)),
        ("enum", json!([1])),
        ("format", json!("uri")),
        ("type", json!("string")),
        ("required", json!(["a"])),
        ("additionalProperties", json!(false)),
        ("items", json!({"type": "string"})),
        ("anyOf", json!([{"type": "string"}])),
        ("not", json!({"type": "string"})),
    ] {
        let path = format!("/inputSchema/properties/p/{keyword}");
        let (old, new) = (tool(json!({})), tool(json!({keyword: value})));
        assert_eq!(
            found(old.clone(), new.clone()),
            [(path.clone(), "narrowed")],
            "{keyword}"
        );
        assert_eq!(found(new, old), [(path, "widened")], "{keyword}");
    }
    let opened = found(tool(json!({})), tool(json!({"additionalProperties": true})));
    assert_eq!(
        opened[0].1, "widened",
        "what says nothing of further members is closed here"
    );
}

#[test]
fn properties_texts_and_hints_have_words_of_their_own() {
    let old = json!({"name": "t", "title": "T", "description": "reads a file",
        "annotations": {"readOnlyHint": true, "title": "a b"}, "_meta": {"x/y": {"deep": [1, 2]}}, "icons": [{"src": "a"}],
        "inputSchema": {"type": "object", "properties": {"gone": {}, "kept": {"description": "old"}}}});
    let new = json!({"name": "t", "title": "U", "description": "reads a file and sends it away",
        "annotations": {"readOnlyHint": false, "title": "a c", "destructiveHint": true}, "_meta": {"x/y": {"deep": [1, 3, 4]}},
        "icons": [{"src": "b"}], "outputSchema": {"type": "object"},
        "inputSchema": {"type": "object", "properties": {"come": {}, "kept": {"description": "new"}}}});
    let expected = [
        ("/_meta/x~1y/deep/1", "other"),
        ("/_meta/x~1y/deep/2", "added"),
        ("/annotations/destructiveHint", "added"),
        ("/annotations/readOnlyHint", "flipped"),
        ("/annotations/title", "reworded"),
        ("/description", "reworded"),
        ("/icons/0/src", "other"),
        ("/inputSchema/properties/come", "added"),
        ("/inputSchema/properties/gone", "removed"),
        ("/inputSchema/properties/kept/description", "reworded"),
        ("/outputSchema", "added"),
        ("/title", "reworded"),
    ];
    assert_eq!(found(old, new), expected.map(|(path, kind)| (path.to_owned(), kind)));
}

#[test]
fn arguments_of_prompts_are_told_apart_by_name_and_orders_are_noticed() {
    let prompt = |arguments: Value| json!({"name": "p", "arguments": arguments});
    let one = json!({"name": "one", "description": "d"});
    let two = json!({"name": "two", "required": true});
    let (old, new) = (json!([one, two]), json!([{"name": "two"}, {"name": "three"}]));
    let expected = [
        ("/arguments/0", "removed"),
        ("/arguments/0/required", "widened"),
        ("/arguments/1", "added"),
    ];
    assert_eq!(
        found(prompt(old), prompt(new)),
        expected.map(|(path, kind)| (path.to_owned(), kind))
    );
    let (old, new) = (json!([one, two]), json!([two, one]));
    assert_eq!(found(prompt(old), prompt(new)), [("/arguments".to_owned(), "other")]);
    let required = |names: Value| json!({"name": "t", "inputSchema": {"required": names}});
    let reordered = found(required(json!(["a", "b"])), required(json!(["b", "a"])));
    assert_eq!(reordered, [("/inputSchema/required".to_owned(), "other")]);
}

#[test]
fn nothing_that_differs_is_told_as_nothing() {
    for (old, new) in [
        (tool(json!({"properties": {}})), tool(json!({}))),
        (tool(json!({"additionalProperties": true})), tool(json!({}))),
        (tool(json!({"items": true})), tool(json!({}))),
        (tool(json!(true)), tool(json!({}))),
        (json!({"a": null}), json!({})),
        (json!("be kind"), json!("be cruel")),
        (json!(1), json!([1])),
    ] {
        assert!(!found(old.clone(), new.clone()).is_empty(), "{old} {new}");
        assert!(!found(new.clone(), old.clone()).is_empty(), "{new} {old}");
    }
    let spelled = differences(br#"{"a":1.0,"b":[]}"#, br#"{"b": [], "a": 1}"#);
    assert!(spelled.iter().all(|change| change.path.is_empty()), "{spelled:?}");
}

#[test]
fn what_nobody_sees_is_spelled_out() {
    let texts = |old: &str, new: &str| {
        let mut changes = differences(old.as_bytes(), new.as_bytes());
        let change = changes.pop().unwrap();
        (change.kind, change.new.unwrap().as_str().unwrap().to_owned())
    };
    for (new, shown) in [
        ("send it\u{200b} all", "send it<U+200B> all"),
        ("tag\u{e0041}ged", "tag<U+E0041>ged"),
        ("t\u{202e}urned", "t<U+202E>urned"),
        ("p\u{430}ypal", "pа<U+0430>ypal"),
        (
            "plain \u{441}\u{43e}\u{440}\u{443}",
            "plain с<U+0441>о<U+043E>р<U+0440>у<U+0443>",
        ),
        ("\u{ff52}m", "ｒ<U+FF52>m"),
        ("no\u{a0}break", "no<U+00A0>break"),
        ("bell\u{7}", "bell<U+0007>"),
        ("Größe und Привет, мир", "Größe und Привет, мир"),
        ("two\nlines\tand tabs", "two\nlines\tand tabs"),
    ] {
        assert_eq!(texts("before", new), (Difference::Reworded, shown.to_owned()));
    }
    let named = differences(b"{}", "{\"a\u{200d}b\":{\"c\u{2060}\":1}}".as_bytes());
    assert_eq!(named[0].path, "/a<U+200D>b");
    assert_eq!(named[0].new, Some(json!({"c<U+2060>": 1})));
}
