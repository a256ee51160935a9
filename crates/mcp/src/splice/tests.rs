use proptest::prelude::*;
use serde_json::{Map, Value};

use super::*;

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn edited(text: &str, edit: impl FnOnce(&mut Splice<'_>)) -> String {
    let original = bytes(text);
    let mut splice = Splice::new(&original).expect("an object");
    edit(&mut splice);
    String::from_utf8(splice.finish().to_vec()).expect("UTF-8")
}

#[test]
fn what_two_readers_could_read_in_two_ways_is_refused() {
    for (text, fault) in [
        (r#"{"a":1,"a":1}"#, SpliceFault::Duplicate),
        (
            r#"{"resultType":"task","r\u0065sultType":"complete"}"#,
            SpliceFault::Duplicate,
        ),
        (r#"{"_meta":{},"_m\u0065ta":{}}"#, SpliceFault::Duplicate),
        (r#"{"_meta":{"a":1,"a":2}}"#, SpliceFault::Duplicate),
        (r#"{"_meta":{"a":1}"#, SpliceFault::NotAnObject),
        (r#"{} {}"#, SpliceFault::NotAnObject),
        ("[]", SpliceFault::NotAnObject),
        ("null", SpliceFault::NotAnObject),
        ("", SpliceFault::NotAnObject),
    ] {
        assert_eq!(Splice::new(&bytes(text)).err(), Some(fault), "{text}");
    }
    let deep = format!(r#"{{"a":{}{}}}"#, "[".repeat(600), "]".repeat(600));
    assert_eq!(Splice::new(&bytes(&deep)).err(), Some(SpliceFault::NotAnObject));
}

#[test]
fn a_name_that_is_no_text_keeps_nothing_back() {
    assert_eq!(
        edited(r#"{"\ud800":1,"\uDC00\ud800":{"\ud800":2}}"#, |splice| {
            splice.insert_if_absent("k", b"1".as_slice());
        }),
        r#"{"\ud800":1,"\uDC00\ud800":{"\ud800":2},"k":1}"#
    );
    let twice = bytes(r#"{"\ud800":1,"\ud800":2}"#);
    assert_eq!(Splice::new(&twice).err(), Some(SpliceFault::Duplicate));
}

#[test]
fn insertions_go_before_the_closing_brace() {
    for (text, expected) in [
        ("{}", r#"{"k":1}"#),
        ("{ \n}", "{ \n\"k\":1}"),
        (r#"{"a":"}"}"#, r#"{"a":"}","k":1}"#),
        (" { \"a\" : 1e2 \n} ", " { \"a\" : 1e2 \n,\"k\":1} "),
        (r#"{"k":null}"#, r#"{"k":null}"#),
        (r#"{"\u006b":null}"#, r#"{"\u006b":null}"#),
        (r#"{"a":{"k":2}}"#, r#"{"a":{"k":2},"k":1}"#),
    ] {
        assert_eq!(edited(text, |s| s.insert_if_absent("k", b"1".as_slice())), expected);
    }
    assert_eq!(
        edited("{}", |s| s.insert_if_absent("a\"\n", b"1".as_slice())),
        r#"{"a\"\n":1}"#
    );
}

#[test]
fn replacing_touches_the_value_only() {
    for (text, expected) in [
        ("{}", r#"{"k":1}"#),
        (r#"{ "k" : [ 2 ] , "a":3}"#, r#"{ "k" : 1 , "a":3}"#),
        (r#"{"a":3,"\u006b":"x" }"#, r#"{"a":3,"\u006b":1 }"#),
    ] {
        assert_eq!(edited(text, |s| s.replace_or_insert("k", b"1".as_slice())), expected);
    }
}

#[test]
fn removing_takes_one_comma_along() {
    for (text, expected) in [
        (r#"{"k":1}"#, "{}"),
        (r#"{ "k":1 }"#, "{}"),
        (r#"{"k":1, "a":2}"#, r#"{ "a":2}"#),
        (r#"{"a":2 ,"k":1}"#, r#"{"a":2 }"#),
        (r#"{"a":2,"k":[{"k":1}],"b":3}"#, r#"{"a":2,"b":3}"#),
        (r#"{"a":2}"#, r#"{"a":2}"#),
    ] {
        assert_eq!(edited(text, |s| s.remove("k")), expected);
    }
}

#[test]
fn the_last_edit_of_a_member_counts() {
    let both = |s: &mut Splice<'_>| {
        s.remove("k");
        s.insert_if_absent("k", b"2".as_slice());
        s.replace_or_insert("k", b"3".as_slice());
        s.insert_if_absent("k", b"4".as_slice());
    };
    assert_eq!(edited(r#"{"k":1}"#, both), r#"{"k":3}"#);
    assert_eq!(edited("{}", both), r#"{"k":3}"#);
    assert_eq!(
        edited("{}", |s| {
            s.insert_if_absent("k", b"1".as_slice());
            s.remove("k");
        }),
        "{}"
    );
}

#[test]
fn meta_is_made_where_missing_and_left_alone_where_it_is_no_object() {
    let insert = |s: &mut Splice<'_>| s.meta_insert_if_absent("x/y", b"1".as_slice());
    for (text, expected) in [
        ("{}", r#"{"_meta":{"x/y":1}}"#),
        (r#"{"_meta":{}}"#, r#"{"_meta":{"x/y":1}}"#),
        (
            r#"{"_meta" : { "a":1 } ,"b":2}"#,
            r#"{"_meta" : { "a":1 ,"x/y":1} ,"b":2}"#,
        ),
        (r#"{"_meta":{"x\/y":0}}"#, r#"{"_meta":{"x\/y":0}}"#),
        (r#"{"_meta":null}"#, r#"{"_meta":null}"#),
        (r#"{"_meta":[]}"#, r#"{"_meta":[]}"#),
        (r#"{"a":{"_meta":{}}}"#, r#"{"a":{"_meta":{}},"_meta":{"x/y":1}}"#),
    ] {
        assert_eq!(edited(text, insert), expected);
    }
    assert_eq!(
        edited(r#"{"_meta":{"a":1,"b":2}}"#, |s| s.meta_remove("a")),
        r#"{"_meta":{"b":2}}"#
    );
    assert_eq!(edited("{}", |s| s.meta_remove("a")), "{}");
    assert_eq!(
        edited(r#"{"_meta":{"a": 1}}"#, |s| s
            .meta_replace_or_insert("a", b"2".as_slice())),
        r#"{"_meta":{"a": 2}}"#
    );
}

#[test]
fn an_edit_of_meta_as_a_whole_counts_more() {
    let both = |s: &mut Splice<'_>| {
        s.meta_insert_if_absent("a", b"1".as_slice());
        s.replace_or_insert("_meta", b"{}".as_slice());
    };
    assert_eq!(edited("{}", both), r#"{"_meta":{}}"#);
    assert_eq!(edited(r#"{"_meta":{"b":1}}"#, both), r#"{"_meta":{}}"#);
    assert_eq!(
        edited(r#"{"_meta":{"b":1}}"#, |s| {
            s.meta_remove("b");
            s.remove("_meta");
        }),
        "{}"
    );
}

#[test]
fn nothing_to_change_copies_nothing() {
    let original = bytes(r#" {"cacheScope":"private","_meta":{"a":1}} "#);
    let mut splice = Splice::new(&original).expect("an object");
    splice.insert_if_absent("cacheScope", b"\"public\"".as_slice());
    splice.replace_or_insert("cacheScope", b"\"private\"".as_slice());
    splice.meta_insert_if_absent("a", b"2".as_slice());
    splice.meta_replace_or_insert("a", b"1".as_slice());
    splice.remove("absent");
    assert_eq!(splice.raw("cacheScope"), Some(b"\"private\"".as_slice()));
    assert_eq!(splice.meta_raw("a"), Some(b"1".as_slice()));
    assert_eq!((splice.member("a"), splice.meta_member("b")), (None, None));
    assert_eq!(splice.finish().as_ptr(), original.as_ptr());
}

/// A JSON value with names that collide, escapes and nesting.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(name(), inner, 0..4).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![Just("_meta".to_owned()), "[a-d]", "[a\"\\\\\u{1}é{},:]{0,3}"]
}

fn object() -> impl Strategy<Value = Map<String, Value>> {
    prop::collection::btree_map(name(), value(), 0..6).prop_map(|map| map.into_iter().collect())
}

#[derive(Clone, Debug)]
enum Edit {
    Insert(Value),
    Put(Value),
    Remove,
}

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        value().prop_map(Edit::Insert),
        value().prop_map(Edit::Put),
        Just(Edit::Remove)
    ]
}

fn apply(model: &mut Map<String, Value>, name: &str, edit: &Edit) {
    match edit {
        Edit::Insert(value) => drop(model.entry(name).or_insert_with(|| value.clone())),
        Edit::Put(value) => drop(model.insert(name.to_owned(), value.clone())),
        Edit::Remove => drop(model.remove(name)),
    }
}

proptest! {
    #[test]
    fn a_splice_changes_nothing_but_the_named_members(
        object in object(),
        pretty in any::<bool>(),
        edits in prop::collection::vec((any::<bool>(), "[a-d]", edit()), 0..6),
    ) {
        let text = if pretty { serde_json::to_string_pretty(&object) } else { serde_json::to_string(&object) };
        let original = bytes(&text.expect("JSON"));
        let mut model = object;
        let mut splice = Splice::new(&original).expect("an object");
        for (inside_meta, name, edit) in &edits {
            match (inside_meta, edit) {
                (false, Edit::Insert(value)) => splice.insert_if_absent(name, value.to_string().into_bytes()),
                (false, Edit::Put(value)) => splice.replace_or_insert(name, value.to_string().into_bytes()),
                (false, Edit::Remove) => splice.remove(name),
                (true, Edit::Insert(value)) => splice.meta_insert_if_absent(name, value.to_string().into_bytes()),
                (true, Edit::Put(value)) => splice.meta_replace_or_insert(name, value.to_string().into_bytes()),
                (true, Edit::Remove) => splice.meta_remove(name),
            }
            if !inside_meta {
                apply(&mut model, name, edit);
            }
        }
        let inside: Vec<_> = edits.iter().filter(|(inside_meta, _, _)| *inside_meta).collect();
        let was_missing = !model.contains_key("_meta");
        if let Value::Object(meta) = model.entry("_meta").or_insert_with(|| Map::new().into()) {
            for (_, name, edit) in inside {
                apply(meta, name, edit);
            }
        }
        if was_missing && model.get("_meta") == Some(&Map::new().into()) {
            model.remove("_meta");
        }
        let after: Value = serde_json::from_slice(&splice.finish()).expect("still JSON");
        prop_assert_eq!(after, Value::Object(model));
    }

    #[test]
    fn the_bytes_around_a_replaced_value_are_identical(object in object(), pretty in any::<bool>(), new in value()) {
        let text = if pretty { serde_json::to_string_pretty(&object) } else { serde_json::to_string(&object) };
        let original = bytes(&text.expect("JSON"));
        let new = new.to_string();
        for name in object.keys() {
            let mut splice = Splice::new(&original).expect("an object");
            let span = splice.member(name).expect("a member");
            splice.replace_or_insert(name, new.as_bytes());
            let expected = [&original[..span.start], new.as_bytes(), &original[span.end..]].concat();
            prop_assert_eq!(splice.finish(), expected);
        }
    }

    #[test]
    fn the_bytes_before_an_insertion_are_identical(object in object(), new in value()) {
        let original = bytes(&serde_json::to_string_pretty(&object).expect("JSON"));
        let mut splice = Splice::new(&original).expect("an object");
        let new = new.to_string();
        splice.insert_if_absent("new", new.as_bytes());
        let comma = if object.is_empty() { "" } else { "," };
        let kept = &original[..original.len() - 1];
        let expected = [kept, comma.as_bytes(), b"\"new\":", new.as_bytes(), b"}"].concat();
        prop_assert_eq!(splice.finish(), expected);
    }

    #[test]
    fn no_bytes_make_it_fall_over(text in "[{}\\[\\]:,\"a_met \\\\u0-9]{0,32}") {
        let original = bytes(&text);
        if let Ok(mut splice) = Splice::new(&original) {
            splice.meta_insert_if_absent("k", b"1".as_slice());
            splice.remove("a");
            prop_assert!(serde_json::from_slice::<Value>(&splice.finish()).is_ok());
        }
    }
}
