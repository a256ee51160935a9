//! Arguments as people see them: hidden characters spelled out, long texts folded, numbers to the last digit.

use policy::revealed;
use serde_json::{Map, Number, Value, json};
use vocabulary::Digest;
use vocabulary::json as tree;

const READING: tree::Limits = tree::Limits {
    max_bytes: 1 << 26,
    max_depth: 512,
    max_string: 1 << 26,
    max_items: 1 << 22,
};

/// A longer text is shown with its beginning and its end.
const FOLDED: usize = 2000;
/// So many characters of each are.
const PART: usize = 600;

/// Canonical JSON as a value to look at.
pub(super) fn revealed_text(text: &[u8]) -> Value {
    tree::Value::parse(text, &READING).map_or(Value::Null, |value| folded(shown(&value)))
}

/// What differs between two, place by place.
pub(super) fn changes(old: &[u8], new: &[u8]) -> Vec<Value> {
    let read = |text| tree::Value::parse(text, &READING).map_or(Value::Null, |value| shown(&value));
    let mut found = Vec::new();
    compare("", Some(&read(old)), Some(&read(new)), &mut found);
    found
}

fn shown(value: &tree::Value<'_>) -> Value {
    match value {
        tree::Value::Null => Value::Null,
        tree::Value::Bool(truth) => Value::Bool(*truth),
        tree::Value::Number(spelling) => number(spelling),
        tree::Value::String(text) => Value::String(revealed(text)),
        tree::Value::Array(items) => items.iter().map(shown).collect(),
        tree::Value::Object(members) => {
            let mut object = Map::new();
            for (name, value) in members {
                // Names that look the same once they are shown are still two.
                let mut name = revealed(name);
                while object.contains_key(&name) {
                    name.push_str(" (again)");
                }
                object.insert(name, shown(value));
            }
            Value::Object(object)
        }
    }
}

/// As a number where that says it exactly, else its digits.
fn number(spelling: &str) -> Value {
    let exact: Option<Number> = serde_json::from_str(spelling).ok();
    match exact.filter(|number| number.to_string() == spelling) {
        Some(number) => Value::Number(number),
        None => Value::String(format!("{spelling} (a number)")),
    }
}

fn folded(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(folded_text(text)),
        Value::Array(items) => items.into_iter().map(folded).collect(),
        Value::Object(members) => members.into_iter().map(|(name, value)| (name, folded(value))).collect(),
        other @ (Value::Null | Value::Bool(_) | Value::Number(_)) => other,
    }
}

fn folded_text(text: String) -> String {
    let count = text.chars().count();
    if count <= FOLDED {
        return text;
    }
    let first: String = text.chars().take(PART).collect();
    let last: String = text.chars().skip(count - PART).collect();
    let left_out = count - 2 * PART;
    format!(
        "{first} […{left_out} characters are not shown; {} of all…] {last}",
        Digest::of(text.as_bytes())
    )
}

fn compare(path: &str, old: Option<&Value>, new: Option<&Value>, found: &mut Vec<Value>) {
    if old == new {
        return;
    }
    let below = |name: &str| format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"));
    match (old, new) {
        (Some(Value::Object(before)), Some(Value::Object(now))) => {
            let names: std::collections::BTreeSet<&String> = before.keys().chain(now.keys()).collect();
            for name in names {
                compare(&below(name), before.get(name), now.get(name), found);
            }
        }
        (Some(Value::Array(before)), Some(Value::Array(now))) => {
            for place in 0..before.len().max(now.len()) {
                compare(&below(&place.to_string()), before.get(place), now.get(place), found);
            }
        }
        _ => {
            let kind = match (old, new) {
                (None, _) => "added",
                (_, None) => "removed",
                (Some(_), Some(_)) => "changed",
            };
            let part = |value: Option<&Value>| value.cloned().map(folded);
            found.push(json!({ "path": path, "kind": kind, "old": part(old), "new": part(new) }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_sees_is_spelled_out_and_every_digit_is_there() {
        let text = "{\"a\":\"x\u{202e}y\",\"big\":9007199254740993,\"n\":1.50,\"zero\u{200b}\":true}";
        assert_eq!(
            revealed_text(text.as_bytes()),
            json!({"a": "x<U+202E>y", "big": 9_007_199_254_740_993_i64, "n": "1.50 (a number)", "zero<U+200B>": true})
        );
        let exact = br#"{"n":0.1000000000000000055511151231257827}"#;
        assert_eq!(
            revealed_text(exact),
            json!({"n": "0.1000000000000000055511151231257827 (a number)"})
        );
    }

    #[test]
    fn a_long_text_shows_both_ends_and_the_digest_of_all() {
        let text = format!("\"{}rm -rf /\"", "a".repeat(5000));
        let shown = revealed_text(text.as_bytes());
        let shown = shown.as_str().expect("a text");
        assert!(shown.starts_with("aaaa") && shown.ends_with("rm -rf /"), "{shown}");
        assert!(shown.contains("3808 characters are not shown; sha256:"), "{shown}");
        assert!(shown.len() < 1500);
    }

    #[test]
    fn every_difference_is_told_once() {
        let (old, new) = (
            br#"{"a":[1,2],"gone":1,"same":{"x":1}}"#,
            br#"{"a":[1,3],"new":null,"same":{"x":1}}"#,
        );
        assert_eq!(
            changes(old, new),
            [
                json!({"path": "/a/1", "kind": "changed", "old": 2, "new": 3}),
                json!({"path": "/gone", "kind": "removed", "old": 1, "new": null}),
                json!({"path": "/new", "kind": "added", "old": null, "new": null}),
            ]
        );
        assert!(changes(old, old).is_empty());
        // Two numbers that a double cannot tell apart are two.
        assert_eq!(changes(b"[9007199254740992]", b"[9007199254740993]").len(), 1);
    }
}
