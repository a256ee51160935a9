use super::*;

fn read(text: &str) -> Capabilities {
    Capabilities::read(text.as_bytes()).expect("capabilities")
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("UTF-8")
}

#[test]
fn declarations_that_cannot_be_read_are_refused() {
    for (raw, fault) in [
        (r#"{"sampling":{},"sampling":{}}"#, BadCapabilities::Duplicate),
        (r#"{"sampling":{},"s\u0061mpling":null}"#, BadCapabilities::Duplicate),
        (r#"{"elicitation":{"url":{},"url":null}}"#, BadCapabilities::Duplicate),
        (r#"{"extensions":{"a/b":{},"a/b":{}}}"#, BadCapabilities::Duplicate),
        (r#"{"roots":{"x":{"y":1,"y":2}}}"#, BadCapabilities::Duplicate),
        (r#"{"roots":{"x":[{"y":1,"y":2}]}}"#, BadCapabilities::Duplicate),
        ("[]", BadCapabilities::NotAnObject),
        ("null", BadCapabilities::NotAnObject),
        ("{", BadCapabilities::NotAnObject),
        ("", BadCapabilities::NotAnObject),
    ] {
        assert_eq!(Capabilities::read(raw.as_bytes()).err(), Some(fault), "{raw}");
    }
    let deep = format!(r#"{{"roots":{{"a":{}{}}}}}"#, "[".repeat(20), "]".repeat(20));
    assert_eq!(
        Capabilities::read(deep.as_bytes()).err(),
        Some(BadCapabilities::NotAnObject)
    );
    let large = format!(r#"{{"a":"{}"}}"#, "x".repeat(LARGEST_CAPABILITIES));
    assert_eq!(
        Capabilities::read(large.as_bytes()).err(),
        Some(BadCapabilities::NotAnObject)
    );
    assert_eq!(
        Capabilities::read(b"{\"a\":\"\xff\"}").err(),
        Some(BadCapabilities::NotAnObject)
    );
}

#[test]
fn what_is_not_declared_is_not_allowed() {
    for nothing in [
        Capabilities::default(),
        read("{}"),
        read(r#"{"sampling":null,"elicitation":true,"roots":[],"tasks":1,"extensions":"x"}"#),
        read(r#"{"experimental":{"sampling":{}},"extensions":{"other/x":{}}}"#),
    ] {
        for method in [InputMethod::CreateMessage, InputMethod::Elicit, InputMethod::ListRoots] {
            assert!(!nothing.allows(method, None), "{method:?}");
        }
        assert!(!nothing.has_tasks_extension() && !nothing.has_legacy_tasks());
        assert_eq!(text(nothing.relayed_modern()), "{}");
        assert_eq!(nothing, Capabilities::default());
        assert_eq!(nothing.key(), b"{}");
    }
}

#[test]
fn elicitation_has_forms_unless_it_names_urls_only() {
    let url = Some(br#"{"mode":"url","url":"https://a"}"#.as_slice());
    let form = Some(br#"{"mode":"form"}"#.as_slice());
    for (declared, forms, urls) in [
        (r#"{"elicitation":{}}"#, true, false),
        (r#"{"elicitation":{"form":{}}}"#, true, false),
        (r#"{"elicitation":{"url":{}}}"#, false, true),
        (r#"{"elicitation":{"form":{},"url":{}}}"#, true, true),
        (r#"{"elicitation":{"url":null}}"#, true, false),
        (r#"{"elicitation":{"schemaValidation":true}}"#, true, false),
    ] {
        let capabilities = read(declared);
        assert_eq!(
            (
                capabilities.allows(InputMethod::Elicit, None),
                capabilities.allows(InputMethod::Elicit, form),
                capabilities.allows(InputMethod::Elicit, url)
            ),
            (forms, forms, urls),
            "{declared}"
        );
    }
    let all = read(r#"{"elicitation":{"form":{},"url":{}}}"#);
    for params in [
        r#"{"mode":"URL"}"#,
        r#"{"mode":null}"#,
        r#"{"mode":"form","m\u006fde":"url"}"#,
        r#"{"mode":"popup"}"#,
        "[]",
    ] {
        assert!(!all.allows(InputMethod::Elicit, Some(params.as_bytes())), "{params}");
    }
    assert!(!read(r#"{"elicitation":{}}"#).allows(InputMethod::Elicit, Some(br#"{"mode":"\u0075rl"}"#)));
}

#[test]
fn sampling_with_tools_needs_its_own_declaration() {
    let plain = read(r#"{"sampling":{"context":{}}}"#);
    let tools = read(r#"{"sampling":{"tools":{}}}"#);
    assert!(plain.allows(InputMethod::CreateMessage, Some(br#"{"includeContext":"allServers"}"#)));
    for params in [r#"{"tools":[]}"#, r#"{"toolChoice":{}}"#] {
        assert!(!plain.allows(InputMethod::CreateMessage, Some(params.as_bytes())));
        assert!(tools.allows(InputMethod::CreateMessage, Some(params.as_bytes())));
    }
    assert!(plain.has_sampling_context() && !tools.has_sampling_context());
    assert!(tools.has_sampling_tools() && !plain.has_sampling_tools());
}

#[test]
fn only_what_we_relay_reaches_a_server() {
    let capabilities = read(
        r#"{"experimental":{"x":{}}, "roots": {"listChanged": true},"sampling":{ "tools":{} },"elicitation":{},
            "tasks":{"list":{}},"extensions":{"io.modelcontextprotocol/tasks":{"a": 1},"io.modelcontextprotocol/ui":{}}}"#,
    );
    assert_eq!(
        text(capabilities.relayed_legacy()),
        r#"{"sampling":{ "tools":{} },"elicitation":{},"roots":{"listChanged": true}}"#
    );
    assert_eq!(
        text(capabilities.relayed_modern()),
        r#"{"sampling":{ "tools":{} },"elicitation":{},"roots":{"listChanged": true},"extensions":{"io.modelcontextprotocol/tasks":{"a": 1}}}"#
    );
    assert!(capabilities.has_roots() && capabilities.has_roots_list_changed());
    assert!(capabilities.has_tasks_extension() && capabilities.has_legacy_tasks());
    let only_tasks = read(r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#);
    assert_eq!(
        text(only_tasks.relayed_modern()),
        r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#
    );
    assert_eq!(text(only_tasks.relayed_legacy()), "{}");
}

#[test]
fn equal_declarations_have_one_key() {
    let one = read(r#"{"sampling":{"tools":{},"x":[1, "a\/b" ,{}]},"roots":{}}"#);
    let other = read(r#"{ "roots" : { } , "experimental":{"y":1}, "s\u0061mpling":{"x":[1,"a/b",{ }],"tools":{}}}"#);
    assert_eq!(one, other);
    assert_eq!(
        text(one.key().to_vec()),
        r#"{"roots":{},"sampling":{"tools":{},"x":[1,"a/b",{}]}}"#
    );
    for different in [
        "{}",
        r#"{"sampling":{"tools":{}},"roots":{}}"#,
        r#"{"sampling":{"tools":{},"x":["1","a/b",{}]},"roots":{}}"#,
        r#"{"sampling":{"tools":{},"x":[1,"a/b",{}]},"roots":{},"tasks":{}}"#,
    ] {
        assert_ne!(one, read(different), "{different}");
    }
}
