//! Says beforehand what a runtime's own schema option would refuse. A hint: the harness's verdict alone counts.

use serde_json::Value;

/// Places where a schema is not in the strict form that OpenAI's structured outputs ask for.
pub(crate) fn openai_strict(schema: &[u8]) -> Vec<String> {
    let Ok(document) = serde_json::from_slice::<Value>(schema) else {
        return vec!["/: is not JSON".to_owned()];
    };
    let mut found = Vec::new();
    if document.get("type").and_then(Value::as_str) != Some("object") {
        found.push("/: the root must be of type object".to_owned());
    }
    walk(&document, "", &mut found);
    found
}

fn walk(node: &Value, path: &str, found: &mut Vec<String>) {
    match node {
        Value::Object(members) => {
            let place = if path.is_empty() { "/" } else { path };
            if let Some(properties) = members.get("properties").and_then(Value::as_object) {
                if members.get("additionalProperties") != Some(&Value::Bool(false)) {
                    found.push(format!("{place}: additionalProperties must be false"));
                }
                let required: Vec<&str> = members
                    .get("required")
                    .and_then(Value::as_array)
                    .map(|names| names.iter().filter_map(Value::as_str).collect())
                    .unwrap_or_default();
                let optional = properties.keys().filter(|name| !required.contains(&name.as_str()));
                found.extend(optional.map(|name| format!("{place}: `{name}` must be in required")));
            }
            for (name, member) in members.iter().filter(|(name, _)| !LITERAL.contains(&name.as_str())) {
                walk(member, &format!("{path}/{name}"), found);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                walk(item, &format!("{path}/{index}"), found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Keywords whose values are data.
const LITERAL: [&str; 4] = ["enum", "const", "default", "examples"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_objects_and_optional_members_are_named() {
        let schema = br#"{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"object","properties":{}}},"required":["a"],"additionalProperties":false}"#;
        assert_eq!(
            openai_strict(schema),
            [
                "/: `b` must be in required",
                "/properties/b: additionalProperties must be false"
            ]
        );
        let strict = br#"{"type":"object","properties":{"a":{"enum":[{"properties":{}}]}},"required":["a"],"additionalProperties":false}"#;
        assert_eq!(openai_strict(strict), Vec::<String>::new());
    }
}
