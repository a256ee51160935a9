//! Which formats of a schema nobody here can check.

use jsonschema::Validator;
use serde_json::{Value, json};

use crate::dialect::Dialect;

/// Where the first format stands that would not be asserted.
pub(super) fn unchecked(raw: &[u8], dialect: Dialect) -> Option<String> {
    let document: Value = serde_json::from_slice(raw).ok()?;
    let mut places = vec![(String::new(), &document)];
    let mut known: Vec<&str> = Vec::new();
    while let Some((pointer, place)) = places.pop() {
        match place {
            Value::Object(members) => {
                if let Some(name) = members.get("format").and_then(Value::as_str) {
                    if !known.contains(&name) && !is_asserted(name, dialect) {
                        return Some(format!("{pointer}/format"));
                    }
                    known.push(name);
                }
                let schemas = members.iter().filter(|(name, _)| !DATA.contains(&name.as_str()));
                places.extend(schemas.map(|(name, member)| {
                    let name = name.replace('~', "~0").replace('/', "~1");
                    (format!("{pointer}/{name}"), member)
                }));
            }
            Value::Array(items) => {
                places.extend(
                    items
                        .iter()
                        .enumerate()
                        .map(|(index, item)| (format!("{pointer}/{index}"), item)),
                );
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    None
}

/// Found by trying: a text that is of no format at all is refused by those that are checked.
fn is_asserted(name: &str, dialect: Dialect) -> bool {
    let options = jsonschema::options()
        .with_draft(dialect.draft())
        .should_validate_formats(true)
        .offline();
    let validator: Option<Validator> = options.build(&json!({ "format": name })).ok();
    validator.is_some_and(|validator| !validator.is_valid(&Value::from(OF_NO_FORMAT)))
}

const OF_NO_FORMAT: &str = " [{\u{7f}";

/// Keywords whose values are data.
const DATA: [&str; 4] = ["enum", "const", "default", "examples"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_formats_are_checked_and_others_are_told() {
        for name in [
            "date-time",
            "date",
            "time",
            "email",
            "hostname",
            "ipv4",
            "ipv6",
            "uri",
            "uuid",
            "duration",
            "regex",
        ] {
            assert!(is_asserted(name, Dialect::Draft202012), "{name}");
        }
        let told = |schema: &str| unchecked(schema.as_bytes(), Dialect::Draft202012);
        assert_eq!(told(r#"{"type":"string","format":"email"}"#), None);
        assert_eq!(
            told(r#"{"properties":{"a/b":{"format":"colour"}}}"#).as_deref(),
            Some("/properties/a~1b/format")
        );
        assert_eq!(
            told(r#"{"properties":{"format":{"type":"string"}},"enum":[{"format":"colour"}]}"#),
            None
        );
        assert_eq!(
            unchecked(br#"{"format":"uuid"}"#, Dialect::Draft7).as_deref(),
            Some("/format")
        );
    }
}
