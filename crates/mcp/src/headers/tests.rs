use proptest::prelude::*;

use super::*;

const SCHEMA: &[u8] = br#"{"type":"object","properties":{
    "region":{"type":"string","x-mcp-header":"Region"},
    "count":{"type":"integer","x-mcp-header":"Count"},
    "dry":{"type":"boolean","x-mcp-header":"Dry"},
    "deep":{"type":"object","properties":{"er":{"type":"string","x-mcp-header":"Deep"}}}}}"#;

const FACTS: Named<'static> = Named {
    version: "2026-07-28",
    method: "tools/call",
    name: Some("t"),
};

fn marks() -> Marks {
    Marks::read(SCHEMA).expect("marks")
}

fn headers(more: &[(&str, &str)]) -> HeaderMap {
    let standard = [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "t"),
    ];
    let mut map = HeaderMap::new();
    for (name, value) in standard.iter().chain(more) {
        map.append(
            HeaderName::from_bytes(name.as_bytes()).expect("a name"),
            HeaderValue::from_bytes(value.as_bytes()).expect("a value"),
        );
    }
    map
}

fn with_arguments(more: &[(&str, &str)], arguments: &str) -> Result<(), HeaderMismatch> {
    check(&headers(more), &FACTS, &marks(), Some(arguments.as_bytes()))
}

fn label(text: &str) -> String {
    text.to_owned()
}

#[test]
fn each_standard_header_is_there_once_and_equal() {
    let plain = |map: &HeaderMap, facts: &Named<'_>| check(map, facts, &Marks::default(), None);
    assert_eq!(plain(&headers(&[]), &FACTS), Ok(()));
    for (name, shown) in [
        (PROTOCOL_VERSION, "MCP-Protocol-Version"),
        (METHOD, "Mcp-Method"),
        (NAME, "Mcp-Name"),
    ] {
        let mut map = headers(&[]);
        let value = map.remove(&name).expect("a header");
        assert_eq!(plain(&map, &FACTS), Err(HeaderMismatch::Missing(label(shown))));
        map.append(&name, value.clone());
        map.append(&name, value);
        assert_eq!(plain(&map, &FACTS), Err(HeaderMismatch::Repeated(label(shown))));
        map.insert(&name, HeaderValue::from_static("T"));
        assert_eq!(plain(&map, &FACTS), Err(HeaderMismatch::Unequal(label(shown))));
        map.insert(&name, HeaderValue::from_bytes("é".as_bytes()).expect("opaque"));
        assert_eq!(plain(&map, &FACTS), Err(HeaderMismatch::Malformed(label(shown))));
    }
    let nameless = Named { name: None, ..FACTS };
    assert_eq!(plain(&headers(&[]), &nameless), Ok(()));
    assert_eq!(plain(&headers(&[("mcp-param-unknown", "x")]), &FACTS), Ok(()));
}

#[test]
fn values_are_trimmed_and_never_folded() {
    let named = |value: &str, name: &str| {
        let mut map = headers(&[]);
        map.insert(NAME, HeaderValue::from_bytes(value.as_bytes()).expect("a value"));
        let facts = Named {
            name: Some(name),
            ..FACTS
        };
        check(&map, &facts, &Marks::default(), None)
    };
    assert_eq!(named(" \tget_weather ", "get_weather"), Ok(()));
    assert!(named("Get_weather", "get_weather").is_err());
    assert!(named("get_weather,get_weather", "get_weather").is_err());
    assert!(named("", "get_weather").is_err());
    assert_eq!(named("=?base64?SGVsbG8sIOS4lueVjA==?=", "Hello, 世界"), Ok(()));
    assert_eq!(
        named("=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=", "=?base64?literal?="),
        Ok(())
    );
    assert_eq!(named("=?base64??=", ""), Ok(()));
    assert_eq!(
        named("=?BASE64?dA==?=", "t"),
        Err(HeaderMismatch::Unequal(label("Mcp-Name")))
    );
}

#[test]
fn base64_is_read_strictly() {
    for value in [
        "=?base64?dA?=",        // no padding
        "=?base64?dA=?=",       // half of it
        "=?base64?dA===?=",     // too much
        "=?base64?dB==?=",      // bits that say nothing
        "=?base64?d A==?=",     // white space
        "=?base64?_w==?=",      // another alphabet
        "=?base64?/w==?=",      // not UTF-8
        "=?base64?=",           // open and close share a character
        "=?base64?dA==?dA==?=", // twice
    ] {
        let mut map = headers(&[]);
        map.insert(NAME, HeaderValue::from_str(value).expect("a value"));
        assert_eq!(
            check(&map, &FACTS, &Marks::default(), None),
            Err(HeaderMismatch::Malformed(label("Mcp-Name"))),
            "{value}"
        );
    }
    // The standard names have no encoded form.
    let mut map = headers(&[]);
    map.insert(METHOD, HeaderValue::from_static("=?base64?dG9vbHMvY2FsbA==?="));
    assert_eq!(
        check(&map, &FACTS, &Marks::default(), None),
        Err(HeaderMismatch::Unequal(label("Mcp-Method")))
    );
}

#[test]
fn a_marked_argument_and_its_header_stand_or_fall_together() {
    let region = ("mcp-param-region", "us-west1");
    assert_eq!(with_arguments(&[region], r#"{"region":"us-west1"}"#), Ok(()));
    assert_eq!(with_arguments(&[region], r#"{"r\u0065gion":"us\u002dwest1"}"#), Ok(()));
    assert_eq!(
        with_arguments(&[], r#"{"region":"us-west1"}"#),
        Err(HeaderMismatch::Missing(label("Mcp-Param-Region")))
    );
    assert_eq!(
        with_arguments(&[region], r#"{"region":"us-west2"}"#),
        Err(HeaderMismatch::Unequal(label("Mcp-Param-Region")))
    );
    assert_eq!(
        with_arguments(&[region, region], r#"{"region":"us-west1"}"#),
        Err(HeaderMismatch::Repeated(label("Mcp-Param-Region")))
    );
    for arguments in ["{}", r#"{"region":null}"#, r#"{"deep":{"region":"us-west1"}}"#, "[]"] {
        assert_eq!(
            with_arguments(&[region], arguments),
            Err(HeaderMismatch::Unexpected(label("Mcp-Param-Region"))),
            "{arguments}"
        );
        assert_eq!(with_arguments(&[], arguments), Ok(()), "{arguments}");
    }
    assert_eq!(check(&headers(&[]), &FACTS, &marks(), None), Ok(()));
    for arguments in [
        r#"{"region":"a","region":"us-west1"}"#,
        r#"{"region":["us-west1"]}"#,
        r#"{"region":{}}"#,
        r#"{"region":"\ud800"}"#,
    ] {
        assert_eq!(
            with_arguments(&[region], arguments),
            Err(HeaderMismatch::NotMirrorable(label("Mcp-Param-Region"))),
            "{arguments}"
        );
    }
}

#[test]
fn nested_arguments_are_read_at_their_exact_path() {
    let deep = ("mcp-param-deep", "x");
    assert_eq!(with_arguments(&[deep], r#"{"deep":{"er":"x"}}"#), Ok(()));
    assert!(with_arguments(&[deep], r#"{"er":"x"}"#).is_err());
    assert!(with_arguments(&[deep], r#"{"deep":"x"}"#).is_err());
    assert!(with_arguments(&[], r#"{"deep":{"er":"x"}}"#).is_err());
}

#[test]
fn integers_compare_as_numbers_and_booleans_as_words() {
    for (header, body) in [
        ("42", "42"),
        ("42.0", "42"),
        ("42", "42.0"),
        ("4.2e1", "42"),
        ("-7", "-7"),
        ("0", "-0"),
        ("9007199254740991", "9007199254740991"),
        ("=?base64?NDI=?=", "42"),
    ] {
        assert_eq!(
            with_arguments(&[("mcp-param-count", header)], &format!(r#"{{"count":{body}}}"#)),
            Ok(()),
            "{header} {body}"
        );
    }
    for (header, body) in [
        ("43", "42"),
        ("+42", "42"),
        ("042", "42"),
        ("42.", "42"),
        ("0x2a", "42"),
        ("4 2", "42"),
        ("", "42"),
        ("true", "1"),
        ("9007199254740993", "9007199254740993"),
        ("1e999999999", "1e999999999"),
        ("1.5", "1.5"),
    ] {
        assert!(
            with_arguments(&[("mcp-param-count", header)], &format!(r#"{{"count":{body}}}"#)).is_err(),
            "{header} {body}"
        );
    }
    assert_eq!(with_arguments(&[("mcp-param-dry", "true")], r#"{"dry":true}"#), Ok(()));
    for header in ["True", "1", "false"] {
        assert!(with_arguments(&[("mcp-param-dry", header)], r#"{"dry":true}"#).is_err());
    }
}

#[test]
fn a_mismatch_names_the_header_and_no_value() {
    let fault = with_arguments(&[("mcp-param-region", "hunter2")], r#"{"region":"s3cret"}"#).expect_err("unequal");
    assert_eq!(
        fault.to_string(),
        "header mismatch: Mcp-Param-Region does not match the body"
    );
}

#[test]
fn what_we_write_replaces_what_was_there() {
    let mut map = headers(&[("mcp-param-region", "stale"), ("mcp-param-other", "stale")]);
    map.insert("authorization", HeaderValue::from_static("kept"));
    let facts = Named {
        version: "2026-07-28",
        method: "tools/call",
        name: Some("Hello, 世界"),
    };
    let arguments = r#"{"region":" padded ","count":42.0,"dry":false,"deep":{"er":"=?base64?literal?="}}"#;
    write(&mut map, &facts, &marks(), Some(arguments.as_bytes()));
    let mut lines: Vec<String> = map
        .iter()
        .map(|(name, value)| format!("{name}: {}", value.to_str().expect("ascii")))
        .collect();
    lines.sort();
    assert_eq!(
        lines,
        [
            "authorization: kept",
            "mcp-method: tools/call",
            "mcp-name: =?base64?SGVsbG8sIOS4lueVjA==?=",
            "mcp-param-count: 42",
            "mcp-param-deep: =?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=",
            "mcp-param-dry: false",
            "mcp-param-region: =?base64?IHBhZGRlZCA=?=",
            "mcp-protocol-version: 2026-07-28",
        ]
    );
    write(&mut map, &Named { name: None, ..FACTS }, &Marks::default(), None);
    assert_eq!(map.len(), 3);
}

proptest! {
    #[test]
    fn what_we_write_passes_our_own_check(
        name in any::<String>(),
        region in any::<String>(),
        count in -9_007_199_254_740_991_i64..=9_007_199_254_740_991,
        dry in any::<Option<bool>>(),
    ) {
        let arguments = serde_json::json!({"region": region, "count": count, "dry": dry, "other": [1]}).to_string();
        let facts = Named { name: Some(&name), ..FACTS };
        let mut map = HeaderMap::new();
        write(&mut map, &facts, &marks(), Some(arguments.as_bytes()));
        prop_assert_eq!(check(&map, &facts, &marks(), Some(arguments.as_bytes())), Ok(()));
    }

    #[test]
    fn another_value_never_passes(one in any::<String>(), other in any::<String>()) {
        prop_assume!(one != other);
        let mut map = HeaderMap::new();
        write(&mut map, &Named { name: Some(&one), ..FACTS }, &Marks::default(), None);
        let facts = Named { name: Some(&other), ..FACTS };
        prop_assert!(check(&map, &facts, &Marks::default(), None).is_err());
    }
}
