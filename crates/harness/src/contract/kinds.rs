//! Whether a schema says of which kind a document is. Keywords about members say nothing of what has no members, so a schema
//! without a `type` lets a bare word pass as if it had been looked at.

use serde_json::Value;

/// Whether the root says its kinds, on every way through it.
pub(super) fn are_said(raw: &[u8]) -> bool {
    serde_json::from_slice::<Value>(raw).is_ok_and(|document| says(&document, &document, 0))
}

fn says(schema: &Value, root: &Value, depth: usize) -> bool {
    let Value::Object(members) = schema else {
        // `false` lets nothing pass.
        return *schema == Value::Bool(false);
    };
    if depth > DEEPEST {
        return false;
    }
    // Before 2019-09 nothing beside a reference counts; where an edition lets it count, the reference says it as well.
    if let Some(target) = members.get("$ref").and_then(Value::as_str)
        && !siblings_count(root)
    {
        let target = target.strip_prefix('#').and_then(|pointer| root.pointer(pointer));
        return target.is_some_and(|schema| says(schema, root, depth + 1));
    }
    let named = ["type", "const", "enum"]
        .iter()
        .any(|keyword| members.contains_key(*keyword));
    let below = |schema: &Value| says(schema, root, depth + 1);
    let list = |keyword: &str| members.get(keyword).and_then(Value::as_array);
    let every = |keyword: &str| list(keyword).is_some_and(|schemas| schemas.iter().all(below));
    let target = members.get("$ref").and_then(Value::as_str);
    let target = target.and_then(|target| root.pointer(target.strip_prefix('#')?));
    named
        || list("allOf").is_some_and(|schemas| schemas.iter().any(below))
        || every("anyOf")
        || every("oneOf")
        || target.is_some_and(below)
}

/// Whether keywords beside `$ref` count in the edition that the document names.
fn siblings_count(root: &Value) -> bool {
    let edition = root.get("$schema").and_then(Value::as_str).unwrap_or_default();
    !["draft-03", "draft-04", "draft-06", "draft-07"]
        .iter()
        .any(|old| edition.contains(old))
}

/// References may lead in a circle.
const DEEPEST: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_says_its_kinds_on_every_way() {
        for said in [
            r#"{"type":"object"}"#,
            r#"{"type":["object","null"]}"#,
            r#"{"const":"a"}"#,
            r#"{"enum":["a","b"]}"#,
            r##"{"$ref":"#/$defs/a","$defs":{"a":{"type":"object"}}}"##,
            r#"{"allOf":[{"required":["a"]},{"type":"object"}]}"#,
            r#"{"anyOf":[{"type":"object"},{"type":"string"}]}"#,
            r#"{"oneOf":[{"type":"object"},{"type":"object","required":["a"]}]}"#,
        ] {
            assert!(are_said(said.as_bytes()), "{said}");
        }
        for unsaid in [
            r#"{"properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}"#,
            r#"{"minLength":3}"#,
            r##"{"$schema":"http://json-schema.org/draft-07/schema#","$ref":"#/definitions/x","type":"object","definitions":{"x":{"required":["a"]}}}"##,
            r##"{"$schema":"http://json-schema.org/draft-04/schema#","$ref":"#/definitions/x","type":"object","definitions":{"x":{"required":["a"]}}}"##,
            r#"{"anyOf":[{"type":"object"},{"required":["a"]}]}"#,
            r#"{"not":{"type":"string"}}"#,
            r##"{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/a"}}}"##,
            r#"{"$ref":"https://elsewhere/","minLength":1}"#,
        ] {
            assert!(!are_said(unsaid.as_bytes()), "{unsaid}");
        }
    }

    #[test]
    fn a_schema_that_lets_nothing_pass_says_enough_and_one_that_lets_all_pass_does_not() {
        assert!(are_said(br#"{"anyOf":[{"type":"object"},false]}"#));
        assert!(!are_said(br#"{"anyOf":[{"type":"object"},true]}"#));
    }

    #[test]
    fn what_is_beside_a_reference_counts_in_the_editions_that_say_so() {
        let schema = |edition: &str| {
            format!(
                r##"{{"$schema":"{edition}","$ref":"#/$defs/x","type":"object","$defs":{{"x":{{"required":["a"]}}}}}}"##
            )
        };
        assert!(are_said(
            schema("https://json-schema.org/draft/2020-12/schema").as_bytes()
        ));
        assert!(!are_said(schema("http://json-schema.org/draft-06/schema#").as_bytes()));
    }

    #[test]
    fn kinds_are_looked_for_so_deep_and_no_deeper_and_a_circle_ends() {
        let nested = |levels: usize| {
            let open = r#"{"allOf":["#.repeat(levels);
            format!(r#"{open}{{"type":"object"}}{}"#, "]}".repeat(levels))
        };
        assert!(are_said(nested(DEEPEST).as_bytes()));
        assert!(!are_said(nested(DEEPEST + 1).as_bytes()));
        let circle = r##"{"$schema":"http://json-schema.org/draft-07/schema#","$ref":"#/definitions/a",
            "definitions":{"a":{"$ref":"#/definitions/a"}}}"##;
        assert!(!are_said(circle.as_bytes()));
    }
}
