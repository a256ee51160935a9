//! What the library asks of a representation (its `conformance` module, clause by clause), but for one
//! clause that is broken on purpose: no value is ever handed back.

use serde_json::json;
use vocabulary::json::Limits;

use super::*;

const DOCUMENT: &str = r#"{"string":"h\u00e9llo","integer":42,"float":1.5,"boolean":true,"null":null,
    "array":[10,20,30],"duplicates":[1,{"a":1},{"a":1.0}],"object":{"nested":"value"}}"#;

fn with_document(judge: impl FnOnce(Spot<'_>, &dyn Fn(&str) -> Spot<'static>)) {
    let limits = Limits {
        max_bytes: 1 << 10,
        max_depth: 9,
        max_string: 99,
        max_items: 99,
    };
    // The trait wants one lifetime for a tree and what it borrows.
    let root: &'static Value<'static> = Box::leak(Box::new(Value::parse(DOCUMENT.as_bytes(), &limits).unwrap()));
    let members = Spot::Value(root).as_object().unwrap();
    judge(Spot::Value(root), &|name| {
        members.get(&Tree::prepare_key(name)).unwrap()
    });
}

#[test]
fn types_are_told_alike_by_every_question() {
    with_document(|root, member| {
        assert_eq!(root.as_object().unwrap().len(), 8);
        assert!(root.as_object().unwrap().get(&Tree::prepare_key("missing")).is_none());
        for (name, expected) in [
            ("string", JsonType::String),
            ("integer", JsonType::Number),
            ("float", JsonType::Number),
            ("boolean", JsonType::Boolean),
            ("null", JsonType::Null),
            ("array", JsonType::Array),
            ("object", JsonType::Object),
        ] {
            let node = member(name);
            assert_eq!(node.json_type(), expected, "{name}");
            assert_eq!(node.is_number(), expected == JsonType::Number, "{name}");
            assert_eq!(node.as_number().is_some(), expected == JsonType::Number, "{name}");
            assert_eq!(node.is_string(), expected == JsonType::String, "{name}");
            assert_eq!(node.as_string().is_some(), expected == JsonType::String, "{name}");
            assert_eq!(node.is_null(), expected == JsonType::Null, "{name}");
            assert_eq!(node.as_boolean().is_some(), expected == JsonType::Boolean, "{name}");
            assert_eq!(node.as_object().is_some(), expected == JsonType::Object, "{name}");
            assert_eq!(node.as_array().is_some(), expected == JsonType::Array, "{name}");
        }
    });
}

#[test]
fn scalars_are_read_as_they_are() {
    with_document(|_, member| {
        assert_eq!(member("string").as_string().as_deref(), Some("héllo"));
        assert_eq!(member("string").string_length(), Some(5), "code points, not bytes");
        assert_eq!(member("integer").string_length(), None);
        assert_eq!(member("boolean").as_boolean(), Some(true));
        let integer = member("integer").as_number().unwrap();
        assert_eq!(
            (integer.as_u64(), integer.as_i64(), integer.as_f64()),
            (Some(42), Some(42), Some(42.0))
        );
        assert!(integer.is_integer());
        assert_eq!(integer.to_number().as_ref(), &serde_json::Number::from(42));
        let float = member("float").as_number().unwrap();
        assert_eq!(
            (float.as_u64(), float.as_i64(), float.as_f64()),
            (None, None, Some(1.5))
        );
        assert!(!float.is_integer());
        Tree::with_string_node(&mut (), "héllo", |node| {
            assert_eq!(node.json_type(), JsonType::String);
            assert_eq!(node.as_string().as_deref(), Some("héllo"));
        });
    });
}

#[test]
fn containers_keep_their_order_and_know_their_equals() {
    with_document(|_, member| {
        let array = member("array").as_array().unwrap();
        let elements: Vec<_> = array
            .elements()
            .map(|element| element.as_number().and_then(|number| number.as_u64()))
            .collect();
        assert_eq!(elements, [Some(10), Some(20), Some(30)]);
        assert!(array.is_unique());
        assert!(!member("duplicates").as_array().unwrap().is_unique());
        let names: Vec<&str> = member("object")
            .as_object()
            .unwrap()
            .members()
            .map(|(name, _)| name)
            .collect();
        assert_eq!(names, ["nested"]);
        assert!(member("integer").equals_value(&json!(42.0)));
        assert!(!member("integer").equals_value(&json!(43)));
        assert!(!member("boolean").equals_value(&json!(1)));
        assert!(member("object").equals_value(&json!({"nested": "value"})));
        assert!(!member("object").equals_value(&json!({"nested": "other"})));
        assert!(!member("object").equals_value(&json!({})));
    });
}

#[test]
fn a_node_is_one_node_through_every_handle() {
    with_document(|root, member| {
        assert_eq!(root.identity(), root.identity());
        assert_ne!(root.identity(), member("object").identity());
        assert_eq!(member("object").identity(), member("object").identity());
        assert_eq!(root.container_identity(), root.identity());
    });
}

// The clause that is not kept: the library would put the value into an error.
#[test]
fn no_value_is_handed_back() {
    with_document(|_, member| assert_eq!(member("object").to_value().as_ref(), &json!(null)));
}
