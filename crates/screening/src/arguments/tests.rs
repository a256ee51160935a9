//! Every rule of preflight, below, at and above its border.

use schema::{ArgumentSchema, Fields};

use super::*;

const LIMITS: Limits = Limits {
    max_bytes: 200,
    max_depth: 4,
    max_string: 10,
    max_items: 6,
};

fn rules(schema: &str, fields: Fields) -> ArgumentRules {
    ArgumentRules::new(LIMITS, ArgumentSchema::compile(schema.as_bytes(), fields).unwrap())
}

fn open() -> ArgumentRules {
    rules("{}", Fields::Open)
}

fn code(raw: &str, rules: &ArgumentRules) -> Option<ReasonCode> {
    check(Some(raw.as_bytes()), rules).err().map(|refusal| refusal.code)
}

#[test]
fn what_passes_is_byte_for_byte_what_came() {
    let rules = rules(r#"{"properties":{"a":{"type":"number"},"b":{}}}"#, Fields::Closed);
    let raw = br#" { "b" : "\u0061",  "a":1.00 } "#;
    let checked = check(Some(raw), &rules).unwrap();
    assert_eq!(checked.raw(), Some(&raw[..]));
    assert_eq!(checked.digest(), Digest::of(br#"{"a":1,"b":"a"}"#));
    assert_eq!(checked.spelling(), Spelling::Jcs);
    assert_eq!(checked.tree().member("a"), Some(&Value::Number("1.00")));
}

#[test]
fn absent_arguments_count_as_an_empty_object_and_stay_absent() {
    let checked = check(None, &rules("{}", Fields::Closed)).unwrap();
    assert_eq!(checked.raw(), None);
    assert_eq!(checked.tree(), &Value::Object(vec![]));
    assert_eq!(checked.digest(), Digest::of(b"{}"));
    let refusal = check(
        None,
        &rules(r#"{"required":["a"],"properties":{"a":{}}}"#, Fields::Closed),
    )
    .unwrap_err();
    assert_eq!(
        refusal,
        Refusal {
            code: ReasonCode::DenySchemaViolation,
            message: "the arguments do not fit the tool's input schema: /: required: \"a\" is missing".to_owned(),
            digest: Some(Digest::of(b"{}")),
        }
    );
}

// R138, R200
#[test]
fn an_unknown_field_has_its_own_code_and_the_refusal_says_what_is_allowed() {
    let schema = r#"{"properties":{"path":{"type":"string"},"o":{"properties":{"x":{}}}}}"#;
    let refusal = check(Some(br#"{"hunter2":1}"#), &rules(schema, Fields::Closed)).unwrap_err();
    assert_eq!(
        refusal,
        Refusal {
            code: ReasonCode::DenyUnknownFields,
            message: "the arguments do not fit the tool's input schema: /: unknown field \"hunter2\": \
                      one of [\"o\",\"path\"]"
                .to_owned(),
            digest: Some(Digest::of(br#"{"hunter2":1}"#)),
        }
    );
    let near = check(Some(br#"{"o":{"X_":1},"pth":1}"#), &rules(schema, Fields::Closed)).unwrap_err();
    for part in [
        "/: unknown field \"pth\" (did you mean \"path\"?): one of [",
        "/o: unknown field \"X_\" (did you mean \"x\"?): one of [",
    ] {
        assert!(near.message.contains(part), "{}", near.message);
    }
    let below = r#"{"additionalProperties":{"type":"integer"}}"#;
    let refusal = check(Some(br#"{"a/b":"hunter2"}"#), &rules(below, Fields::Closed)).unwrap_err();
    assert!(
        refusal.message.ends_with(": /a~1b: type: must be integer"),
        "{}",
        refusal.message
    );
    assert_eq!(
        code(r#"{"o":{"z":1}}"#, &rules(schema, Fields::Closed)),
        Some(ReasonCode::DenyUnknownFields)
    );
    assert_eq!(code(r#"{"o":{"x":1}}"#, &rules(schema, Fields::Closed)), None);
    assert_eq!(code(r#"{"hunter2":1,"o":{"z":1}}"#, &rules(schema, Fields::Open)), None);
    assert_eq!(
        code(r#"{"path":1}"#, &rules(schema, Fields::Open)),
        Some(ReasonCode::DenySchemaViolation)
    );
}

// R139, R201
#[test]
fn each_limit_holds_below_at_and_above_it() {
    let padded = |bytes: usize| format!("{{}}{}", " ".repeat(bytes - 2));
    let text = |bytes: usize| format!(r#"{{"a":"{}"}}"#, "x".repeat(bytes));
    let name = |bytes: usize| format!(r#"{{"{}":1}}"#, "x".repeat(bytes));
    let items = |count: usize| format!(r#"{{"a":[{}]}}"#, vec!["1"; count - 1].join(","));
    let members = |count: usize| {
        format!(
            "{{{}}}",
            (0..count).map(|n| format!("\"k{n}\":1")).collect::<Vec<_>>().join(",")
        )
    };
    let nested = |depth: usize| format!("{}1{}", r#"{"a":"#.repeat(depth - 1), "}".repeat(depth - 1));
    for (what, make, limit) in [
        ("bytes", &padded as &dyn Fn(usize) -> String, LIMITS.max_bytes),
        ("string", &text, LIMITS.max_string),
        ("name", &name, LIMITS.max_string),
        ("elements", &items, LIMITS.max_items),
        ("members", &members, LIMITS.max_items),
        ("depth", &nested, LIMITS.max_depth),
    ] {
        assert_eq!(code(&make(limit - 1), &open()), None, "{what} below");
        assert_eq!(code(&make(limit), &open()), None, "{what} at");
        assert_eq!(
            code(&make(limit + 1), &open()),
            Some(ReasonCode::DenyPayloadTooLarge),
            "{what} above"
        );
    }
    let refusal = check(Some(padded(201).as_bytes()), &open()).unwrap_err();
    assert_eq!(
        refusal.message,
        "the arguments are too large: at most 200 bytes are allowed"
    );
    assert_eq!(refusal.digest, None);
}

// R139, R202
#[test]
fn a_field_named_twice_is_refused_however_it_is_spelled() {
    for raw in [
        r#"{"a":1,"a":1}"#,
        r#"{"a":1,"\u0061":2}"#,
        r#"{"o":[{"a":1,"\u0061":2}]}"#,
    ] {
        assert_eq!(code(raw, &open()), Some(ReasonCode::DenyDuplicateKey), "{raw}");
    }
    assert_eq!(code(r#"{"a":1,"A":2}"#, &open()), None);
}

// R202
#[test]
fn malformed_arguments_are_refused() {
    for raw in [
        "",
        "{",
        "[]",
        "1",
        "\"x\"",
        "null",
        "true",
        r#"[{"a":1}]"#,
        "{} {}",
        "{\"a\":1,}",
        "\u{feff}{}",
        r#"{"a":"\ud800"}"#,
        r#"{"a":1e400}"#,
        r#"{"a":01}"#,
        "{'a':1}",
        "{\"a\":\"\u{1}\"}",
    ] {
        assert_eq!(code(raw, &open()), Some(ReasonCode::DenySchemaViolation), "{raw:?}");
    }
    let refusal = check(Some(b"{\"a\":\"\xff\"}"), &open()).unwrap_err();
    assert_eq!(
        (refusal.code, refusal.message.as_str()),
        (
            ReasonCode::DenySchemaViolation,
            "the arguments cannot be read: not UTF-8"
        )
    );
    // One that can be read has a digest, though it is no object.
    assert_eq!(
        check(Some(b" [ ] "), &open()).unwrap_err().digest,
        Some(Digest::of(b"[]"))
    );
}

// R202
#[test]
fn wrong_types_and_missing_fields_are_refused() {
    let rules = rules(
        r#"{"type":"object","required":["n"],"properties":{"n":{"type":"integer"},"s":{"enum":["a","b"]}}}"#,
        Fields::Closed,
    );
    for raw in [
        "{}",
        r#"{"n":"1"}"#,
        r#"{"n":1.5}"#,
        r#"{"n":null}"#,
        r#"{"n":1,"s":"c"}"#,
        r#"{"n":[1]}"#,
    ] {
        assert_eq!(code(raw, &rules), Some(ReasonCode::DenySchemaViolation), "{raw}");
    }
    assert_eq!(code(r#"{"n":1,"s":"a"}"#, &rules), None);
}

#[test]
fn what_goes_along_beside_arguments_is_within_their_limits_and_stays_as_it_came() {
    let arguments = || check(Some(br#"{ "a":1 }"#), &open()).unwrap();
    let (task, progress): (Member<'_>, Member<'_>) = (("task", br#"{ "ttl": 1 }"#), ("token", b" 7 "));
    let beside = Beside {
        members: vec![task],
        meta: vec![progress],
    };
    let call = check_call(arguments(), beside, &LIMITS).unwrap();
    let checked: &dyn Checked = &call;
    assert_eq!(checked.arguments(), Some(&br#"{ "a":1 }"#[..]));
    assert_eq!((checked.members(), checked.meta()), (&[task][..], &[progress][..]));
    assert_eq!(checked.digest(), Digest::of(br#"{"a":1}"#));
    let twice: Member<'_> = ("x", br#"{"a":1,"\u0061":2}"#);
    for (members, meta) in [(vec![task, twice], vec![]), (vec![task], vec![twice])] {
        let refused = check_call(arguments(), Beside { members, meta }, &LIMITS).unwrap_err();
        assert_eq!(refused, BesideLimits);
    }
    assert_eq!(
        [b"1".as_slice(), b"01"].map(|raw| is_within(raw, &LIMITS)),
        [true, false]
    );
}

#[test]
fn params_of_other_methods_go_out_as_they_came_and_their_digest_is_of_what_lasts() {
    let limits = Limits {
        max_string: 20,
        ..LIMITS
    };
    let raw = br#"{ "uri":"a", "_meta":{"k":1}, "inputResponses":{}, "requestState":"s" }"#;
    let (uri, meta): (Member<'_>, Member<'_>) = (("uri", &raw[8..11]), ("k", &raw[26..27]));
    let sent = Beside {
        members: vec![uri],
        meta: vec![meta],
    };
    let params = check_params(Some(raw), sent, &limits).unwrap();
    assert_eq!(params.tree(), &Value::parse(br#"{"uri":"a"}"#, &limits).unwrap());
    assert_eq!(
        (params.digest(), params.spelling()),
        (Digest::of(br#"{"uri":"a"}"#), Spelling::Jcs)
    );
    let checked: &dyn Checked = &params;
    assert_eq!((checked.arguments(), checked.digest()), (None, params.digest()));
    assert_eq!(checked.members(), [("uri", &br#""a""#[..])]);
    assert_eq!(checked.meta(), [("k", &b"1"[..])]);
    let none = check_params(None, Beside::default(), &limits).unwrap();
    assert_eq!(none.digest(), Digest::of(b"{}"));
    let refusal = check_params(Some(br#"{"a":1,"a":1}"#), Beside::default(), &limits).unwrap_err();
    assert_eq!(refusal.code, ReasonCode::DenyDuplicateKey);
}

#[test]
fn nothing_is_sent_of_params_that_does_not_lie_within_what_was_read() {
    let all = br#" {"uri":"a"} "#;
    let read = &all[1..12];
    let code = |raw: Option<&'static [u8]>, part: &'static [u8], in_meta: bool| {
        let (sent, nothing): (Vec<Member<'_>>, _) = (vec![("uri", part)], Vec::new());
        let (members, meta) = if in_meta { (nothing, sent) } else { (sent, nothing) };
        check_params(raw, Beside { members, meta }, &LIMITS)
            .err()
            .map(|refusal| refusal.code)
    };
    for in_meta in [false, true] {
        let code = |raw, part| code(raw, part, in_meta);
        assert_eq!(code(Some(read), read), None);
        assert_eq!(code(Some(read), &all[8..11]), None);
        for part in [&all[0..5], &all[8..13], &all[..], br#""a""#] {
            assert_eq!(code(Some(read), part), Some(ReasonCode::DenyMalformed), "{part:?}");
        }
        assert_eq!(code(None, read), Some(ReasonCode::DenyMalformed));
    }
}

#[test]
fn rules_say_whether_their_schema_has_patterns_that_are_not_checked() {
    let partial = |schema| rules(schema, Fields::Open).is_partial();
    assert!(!partial(r#"{"properties":{"a":{"pattern":"^a$"}}}"#));
    assert!(partial(r#"{"properties":{"a":{"pattern":"(?=a)b"}}}"#));
}
