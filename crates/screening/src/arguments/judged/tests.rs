//! The call of a tool: which fields are judged, in which order, and what is said.

use schema::Fields as Closing;
use vocabulary::HostPattern;

use super::*;

const LIMITS: Limits = Limits {
    max_bytes: 10_000,
    max_depth: 32,
    max_string: 5_000,
    max_items: 1_000,
};

const SCHEMA: &str = r#"{"properties":{"path":{"type":"string"},"paths":{"type":"array"},"target":{"additionalProperties":true},"content":{"type":"string"},
    "url":{"type":"string","format":"uri"},"link":{"additionalProperties":true},"moves":{"type":"array","items":{"type":"object","additionalProperties":true}}}}"#;

fn pointers(texts: &[&str]) -> Vec<Pointer> {
    texts.iter().map(|text| Pointer::parse(text).unwrap()).collect()
}

fn hosts(patterns: &[&str]) -> Hosts {
    let patterns = patterns.iter().map(|text| HostPattern::parse(text).unwrap());
    Hosts::Only(HostList::new(patterns.collect()))
}

fn rules(fields: &FieldRules) -> ToolRules {
    let schema = ArgumentSchema::compile(SCHEMA.as_bytes(), Closing::Closed).unwrap();
    ToolRules::new(LIMITS, schema, fields)
}

fn usual() -> FieldRules {
    FieldRules {
        paths: pointers(&["/target", "/moves/*/to"]),
        detect_paths: true,
        urls: pointers(&["/link"]),
        hosts: hosts(&["api.example.org"]),
    }
}

fn bounds() -> Bounds {
    Bounds {
        workspace: "/srv/files".to_owned(),
        read: Vec::new(),
    }
}

/// With every path that is asked about leading inside.
fn outcome(raw: &str, fields: &FieldRules) -> Result<usize, Refusal> {
    let (rules, bounds) = (rules(fields), bounds());
    let judged = judge(Some(raw.as_bytes()), &rules, Some(&bounds))?;
    let leads = vec![Lead::Inside; judged.claims().len()];
    let count = leads.len();
    judged.settle(&leads).map(|_| count)
}

fn code(raw: &str, fields: &FieldRules) -> Option<ReasonCode> {
    outcome(raw, fields).err().map(|refusal| refusal.code)
}

#[test]
fn declared_and_marked_fields_are_judged_and_others_are_not() {
    let honest = r#"{"path":"a","paths":["b","/srv/files/c"],"target":".","content":"../../etc","moves":[{"to":"d","from":"../x"}],
        "url":"https://api.example.org/x","link":"https://api.example.org"}"#;
    assert_eq!(outcome(honest, &usual()), Ok(5));
    for bad in [
        r#"{"path":"../a"}"#,
        r#"{"paths":["a","../b"]}"#,
        r#"{"target":"/etc/passwd"}"#,
        r#"{"moves":[{"to":"a"},{"to":"../b"}]}"#,
    ] {
        assert_eq!(code(bad, &usual()), Some(ReasonCode::DenyPathTraversal), "{bad}");
    }
    for bad in [r#"{"url":"https://evil.test/"}"#, r#"{"link":"https://evil.test/"}"#] {
        assert_eq!(code(bad, &usual()), Some(ReasonCode::DenyHostNotAllowed), "{bad}");
    }
}

#[test]
fn anything_but_a_string_at_a_pointer_is_a_schema_violation() {
    for value in ["null", "1", "true", r#"["a"]"#, r#"{"a":"b"}"#] {
        for raw in [
            format!(r#"{{"target":{value}}}"#),
            format!(r#"{{"link":{value}}}"#),
            format!(r#"{{"moves":[{{"to":{value}}}]}}"#),
        ] {
            assert_eq!(code(&raw, &usual()), Some(ReasonCode::DenySchemaViolation), "{raw}");
        }
    }
    let refusal = outcome(r#"{"moves":[{"to":"a"},{"to":7}]}"#, &usual()).unwrap_err();
    assert_eq!(refusal.message, "the field /moves/1/to must be a string");
}

#[test]
fn the_operator_switches_detection_off_and_says_what_urls_are_held_against() {
    let said = FieldRules {
        detect_paths: false,
        ..usual()
    };
    assert_eq!(code(r#"{"path":"../a"}"#, &said), None);
    assert_eq!(code(r#"{"target":"../a"}"#, &said), Some(ReasonCode::DenyPathTraversal));
    let unsaid = FieldRules {
        hosts: Hosts::Unsaid,
        ..usual()
    };
    assert_eq!(
        code(r#"{"url":"https://evil.test/","link":"https://evil.test/"}"#, &unsaid),
        None
    );
    let walled = FieldRules {
        hosts: Hosts::Nothing,
        ..usual()
    };
    assert_eq!(code(r#"{"url":"urn:isbn:1"}"#, &walled), None);
    assert_eq!(
        code(r#"{"link":"https://evil.test/"}"#, &walled),
        Some(ReasonCode::DenyHostNotAllowed)
    );
    let nothing = rules(&FieldRules::nothing());
    assert!(!nothing.has_paths() && nothing.urls.is_none());
    assert!(rules(&usual()).has_paths());
}

#[test]
fn where_a_path_leads_decides_before_urls_and_silence_leads_out() {
    let (rules, bounds) = (rules(&usual()), bounds());
    let raw = br#"{"path":"a","target":"b","link":"https://evil.test/"}"#;
    let settled = |leads: &[Lead]| {
        let judged = judge(Some(raw), &rules, Some(&bounds)).unwrap();
        assert_eq!(judged.claims().len(), 2);
        judged.settle(leads).unwrap_err().code
    };
    assert_eq!(settled(&[]), ReasonCode::DenyPathTraversal);
    assert_eq!(settled(&[Lead::Inside]), ReasonCode::DenyPathTraversal);
    assert_eq!(settled(&[Lead::Inside, Lead::Outside]), ReasonCode::DenyPathTraversal);
    assert_eq!(settled(&[Lead::NoWorkspace]), ReasonCode::DenySandboxUnavailable);
    assert_eq!(settled(&[Lead::Inside, Lead::Inside]), ReasonCode::DenyHostNotAllowed);
}

#[test]
fn a_refusal_names_the_field_and_what_is_allowed_and_quotes_nothing() {
    let refusal = outcome(r#"{"moves":[{"to":"../hunter2"}]}"#, &usual()).unwrap_err();
    assert!(
        refusal
            .message
            .starts_with("the path in /moves/0/to has a part that is `..`"),
        "{}",
        refusal.message
    );
    assert!(
        refusal.message.contains("inside the workspace /srv/files"),
        "{}",
        refusal.message
    );
    assert!(!refusal.message.contains("hunter2"), "{}", refusal.message);
    assert!(refusal.digest.is_some());
    for (read, allowed) in [
        (Vec::new(), "allowed are paths inside the workspace /srv/files: name"),
        (
            vec!["/usr/share".to_owned()],
            "allowed are paths inside the workspace /srv/files, and to read in /usr/share: name",
        ),
    ] {
        let (rules, bounds) = (rules(&usual()), Bounds { read, ..bounds() });
        let refusal = judge(Some(br#"{"path":"../a"}"#), &rules, Some(&bounds)).unwrap_err();
        assert!(refusal.message.contains(allowed), "{}", refusal.message);
    }
    let refusal = outcome(r#"{"link":"https://api.exampel.org/hunter2"}"#, &usual()).unwrap_err();
    assert_eq!(
        refusal.message,
        "the URL in /link names a host that is not allowed (did you mean api.example.org?); allowed are api.example.org:443: \
         use `https://` and one of these"
    );
}

#[test]
fn rules_of_a_tool_say_whether_a_pattern_is_not_checked() {
    let partial = |pattern: &str| {
        let text = format!(r#"{{"properties":{{"a":{{"pattern":"{pattern}"}}}}}}"#);
        let schema = ArgumentSchema::compile(text.as_bytes(), Closing::Closed).unwrap();
        ToolRules::new(LIMITS, schema, &FieldRules::nothing()).is_partial()
    };
    assert_eq!(["^a$", "(?=a)b"].map(partial), [false, true]);
}
