//! Every rule of output validation: the modes, the guards below, at and above their borders, what hides
//! in the bytes, and ten thousand results of each kind.

mod shape;
mod speed;

use std::cell::Cell;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use shape::{Random, Shape};

const STATES: &str = r#"{"type":"object","required":["n"],"properties":{"n":{"type":"integer"},
    "items":{"type":"array","items":{"type":"object","properties":{"state":{"enum":["open","closed"]}}}}},
    "additionalProperties":false}"#;

fn schema(text: &str) -> OutputSchema {
    OutputSchema::compile(text.as_bytes()).unwrap()
}

fn rules(mode: Mode) -> ValidationRules {
    ValidationRules {
        mode,
        ..ValidationRules::default()
    }
}

fn result(structured: &str) -> Bytes {
    Bytes::from(format!(
        r#"{{"content":[{{"type":"text","text":"x"}}],"structuredContent":{structured}}}"#
    ))
}

fn judged(structured: &str, schema: &OutputSchema, rules: &ValidationRules) -> Verdict {
    let bytes = result(structured);
    let verdict = validate(&bytes, false, Declared::Schema(schema), rules);
    assert_eq!(
        validate_scanned(&scanned(&bytes), false, Declared::Schema(schema), rules),
        verdict
    );
    verdict
}

fn scanned(result: &Bytes) -> Scanned {
    let message = [b"{\"result\":", result.as_ref(), b"}"].concat();
    let [found] = vocabulary::json::scanned::members_of(&message.into(), 512, ["result"]).unwrap();
    found.unwrap()
}

fn violation(verdict: Verdict) -> Violation {
    match verdict {
        Verdict::Violates(violation) => violation,
        Verdict::Conforms => panic!("it conforms"),
    }
}

fn kind(verdict: Verdict) -> Option<(ViolationKind, ViolationOutcome)> {
    match verdict {
        Verdict::Conforms => None,
        Verdict::Violates(violation) => Some((violation.kind, violation.outcome)),
    }
}

/// Counts what is done after the guards.
#[derive(Default)]
struct Counting {
    trees: Cell<usize>,
    checks: Cell<usize>,
}

impl Judge for Counting {
    fn tree<'a>(&self, raw: &'a [u8], limits: &Limits) -> Result<Value<'a>, Fault> {
        self.trees.set(self.trees.get() + 1);
        Library.tree(raw, limits)
    }

    fn check(&self, schema: &OutputSchema, tree: &Value<'_>) -> Result<(), Violations> {
        self.checks.set(self.checks.get() + 1);
        Library.check(schema, tree)
    }
}

/// The verdict, how many trees were made, how many values judged.
fn counted(bytes: &Bytes, declared: Declared<'_>, rules: &ValidationRules) -> (Verdict, usize, usize) {
    let counting = Counting::default();
    let verdict = match Question::of(false, declared, rules) {
        None => Verdict::Conforms,
        Some(question) => question.judge(&locate::in_bytes(bytes), &counting),
    };
    (verdict, counting.trees.get(), counting.checks.get())
}

// R004, R036, R046, R055, R056, R060
#[test]
fn the_defaults_withhold_nothing() {
    assert_eq!(
        ValidationRules::default(),
        ValidationRules {
            mode: Mode::Warn,
            max_bytes: 5_242_880,
            max_depth: 64,
            missing_structured_content: Missing::Allow,
            uncompilable_schema: Uncompilable::Allow,
        }
    );
}

// R006, R008, R009, R025, R047
#[test]
fn a_violation_is_told_by_place_keyword_and_what_is_allowed() {
    let schema = schema(STATES);
    for (mode, outcome) in [
        (Mode::Warn, ViolationOutcome::Forward),
        (Mode::Strict, ViolationOutcome::Withhold),
    ] {
        assert_eq!(
            violation(judged(
                r#"{"n":1,"items":[{},{"state":"hunter2"}]}"#,
                &schema,
                &rules(mode)
            )),
            Violation {
                kind: ViolationKind::Schema,
                guard: None,
                path: "/items/1/state".to_owned(),
                keyword: Some("enum".to_owned()),
                items: vec![r#"/items/1/state: enum: one of ["open","closed"]"#.to_owned()],
                schema_hash: Digest::of(STATES.as_bytes()),
                message: r#"output schema validation failed: /items/1/state: enum: one of ["open","closed"]"#
                    .to_owned(),
                outcome,
            }
        );
    }
}

// R003
#[test]
fn each_class_of_bad_output_is_stopped() {
    let schema = schema(STATES);
    let tight = ValidationRules {
        max_bytes: 200,
        max_depth: 4,
        ..rules(Mode::Strict)
    };
    let large = format!(r#"{{"n":{}}}"#, "1".repeat(200));
    for (what, bad, expected) in [
        ("wrong type", r#"{"n":"1"}"#, ViolationKind::Schema),
        ("missing", "{}", ViolationKind::Schema),
        ("unexpected", r#"{"n":1,"hunter2":1}"#, ViolationKind::Schema),
        ("too large", large.as_str(), ViolationKind::Guard),
        ("too deep", r#"{"n":[[[1]]]}"#, ViolationKind::Guard),
    ] {
        let violation = violation(judged(bad, &schema, &tight));
        assert_eq!(
            (violation.kind, violation.outcome),
            (expected, ViolationOutcome::Withhold),
            "{what}"
        );
        assert!(!violation.message.contains("hunter"), "{}", violation.message);
    }
    assert_eq!(judged(r#"{"n":1,"items":[{}]}"#, &schema, &tight), Verdict::Conforms);
}

// R010, R020, R023, R026, R027, R030, R039, R040, R042
#[test]
fn modes_and_kinds_of_results_make_this_table() {
    let schema = schema(STATES);
    let valid = result(r#"{"n":1}"#);
    let invalid = result(r#"{"n":"x"}"#);
    let over = result(&format!(r#"{{"n":{}}}"#, "[".repeat(70) + &"]".repeat(70)));
    let text_only = Bytes::from_static(br#"{"content":[{"type":"text","text":"{\"n\":\"x\"}"}]}"#);
    let no = None;
    for (mode, expected) in [
        (Mode::Off, [no, no, no, no, no]),
        (
            Mode::Warn,
            [
                no,
                Some((ViolationKind::Schema, ViolationOutcome::Forward)),
                Some((ViolationKind::Guard, ViolationOutcome::Forward)),
                no,
                no,
            ],
        ),
        (
            Mode::Strict,
            [
                no,
                Some((ViolationKind::Schema, ViolationOutcome::Withhold)),
                Some((ViolationKind::Guard, ViolationOutcome::Withhold)),
                no,
                no,
            ],
        ),
    ] {
        let rules = rules(mode);
        let found = [
            kind(validate(&valid, false, Declared::Schema(&schema), &rules)),
            kind(validate(&invalid, false, Declared::Schema(&schema), &rules)),
            kind(validate(&over, false, Declared::Schema(&schema), &rules)),
            kind(validate(&text_only, false, Declared::Schema(&schema), &rules)),
            kind(validate(&invalid, true, Declared::Schema(&schema), &rules)),
        ];
        assert_eq!(found, expected, "{mode:?}");
        for bytes in [&valid, &invalid, &over, &text_only] {
            assert_eq!(counted(bytes, Declared::Nothing, &rules), (Verdict::Conforms, 0, 0));
        }
        let (_, trees, checks) = counted(&invalid, Declared::Schema(&schema), &rules);
        let once = usize::from(mode != Mode::Off);
        assert_eq!((trees, checks), (once, once), "{mode:?}");
    }
}

// R023, R050, R054
#[test]
fn with_nothing_to_judge_not_a_byte_is_read() {
    // Bytes that no reader could get through: whoever looked would have complained.
    let garbage = Bytes::from_static(b"\xff{{{\"structuredContent\":");
    let schema = schema(STATES);
    let hash = schema.hash();
    for (is_error, declared, mode) in [
        (false, Declared::Schema(&schema), Mode::Off),
        (false, Declared::Uncompilable { hash }, Mode::Off),
        (false, Declared::Nothing, Mode::Warn),
        (false, Declared::Nothing, Mode::Strict),
        (true, Declared::Schema(&schema), Mode::Strict),
        (false, Declared::Uncompilable { hash }, Mode::Strict),
        (false, Declared::Uncompilable { hash }, Mode::Warn),
    ] {
        assert_eq!(validate(&garbage, is_error, declared, &rules(mode)), Verdict::Conforms);
    }
    assert_eq!(
        kind(validate(
            &garbage,
            false,
            Declared::Schema(&schema),
            &rules(Mode::Strict)
        )),
        Some((ViolationKind::Unreadable, ViolationOutcome::Withhold))
    );
}

// R013, R014, R015, R016, R017, R028, R038, R051
#[test]
fn guards_hold_at_their_borders_before_any_tree() {
    let schema = schema("{\"type\":\"string\"}");
    let text = |bytes: usize| format!("\"{}\"", "x".repeat(bytes - 2));
    let arrays = |depth: usize| format!("{}1{}", "[".repeat(depth - 1), "]".repeat(depth - 1));
    let objects = |depth: usize| format!("{}1{}", "{\"a\":".repeat(depth - 1), "}".repeat(depth - 1));
    let empty = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    for (mode, outcome) in [
        (Mode::Warn, ViolationOutcome::Forward),
        (Mode::Strict, ViolationOutcome::Withhold),
    ] {
        let tight = ValidationRules {
            max_bytes: 400,
            max_depth: 5,
            ..rules(mode)
        };
        for (make, limit, guard) in [
            (&text as &dyn Fn(usize) -> String, 400, Guard::MaxBytes),
            (&arrays, 5, Guard::MaxDepth),
            (&objects, 5, Guard::MaxDepth),
            (&empty, 5, Guard::MaxDepth),
        ] {
            for size in [limit - 1, limit] {
                let (verdict, trees, checks) = counted(&result(&make(size)), Declared::Schema(&schema), &tight);
                assert_eq!((trees, checks), (1, 1), "{size}");
                assert_eq!(verdict == Verdict::Conforms, guard == Guard::MaxBytes);
            }
            // Each of these but the first breaks the schema too: one verdict, the guard's.
            let (verdict, trees, checks) = counted(&result(&make(limit + 1)), Declared::Schema(&schema), &tight);
            let violation = violation(verdict);
            assert_eq!((trees, checks), (0, 0));
            assert_eq!(
                (violation.kind, violation.guard, violation.keyword, violation.outcome),
                (ViolationKind::Guard, Some(guard), None, outcome)
            );
            assert_eq!(violation.items.len(), 1);
        }
    }
}

#[test]
fn guards_say_their_limit() {
    let schema = schema("{\"type\":\"string\"}");
    let tight = ValidationRules {
        max_bytes: 20,
        max_depth: 2,
        ..rules(Mode::Strict)
    };
    for (structured, message) in [
        (
            "[[1]]",
            "output schema validation failed: structuredContent is nested deeper than 2 levels",
        ),
        (
            "[[[[[[[[[[[[1]]]]]]]]]]]]",
            "output schema validation failed: structuredContent has more than 20 bytes",
        ),
    ] {
        assert_eq!(violation(judged(structured, &schema, &tight)).message, message);
    }
    // A scalar counts 1; what stands beside structured output does not count.
    let flat = ValidationRules { max_depth: 1, ..tight };
    let beside = Bytes::from(format!(
        r#"{{"content":[[[[1]]]],"structuredContent":"x","more":"{}"}}"#,
        "x".repeat(100)
    ));
    assert_eq!(
        validate(&beside, false, Declared::Schema(&schema), &flat),
        Verdict::Conforms
    );
}

// R012, R015
#[test]
fn what_is_enormous_never_meets_the_validator() {
    // Judging this value by this schema would take 2^60 steps without the guard.
    let branches = json!({"properties": {"c": {"$ref": "#"}}, "required": ["v"]});
    let schema = schema(&json!({"anyOf": vec![branches; 20], "properties": {"v": {"type": "null"}}}).to_string());
    let deep = format!("{}1{}", r#"{"v":1,"c":"#.repeat(200), "}".repeat(200));
    let million = "[".repeat(1_000_000) + &"]".repeat(1_000_000);
    let large = format!("[{}1]", "1,".repeat(4 << 20));
    for (structured, guard) in [
        (&deep, Guard::MaxDepth),
        (&million, Guard::MaxDepth),
        (&large, Guard::MaxBytes),
    ] {
        let (verdict, trees, checks) = counted(&result(structured), Declared::Schema(&schema), &rules(Mode::Strict));
        assert_eq!((violation(verdict).guard, trees, checks), (Some(guard), 0, 0));
    }
    let raw = result(&deep);
    let timed = |_| {
        let began = std::time::Instant::now();
        let _ = validate(&raw, false, Declared::Schema(&schema), &rules(Mode::Strict));
        began.elapsed().as_millis()
    };
    let quickest = (0..5).map(timed).min().unwrap();
    assert!(quickest < 50, "{quickest} ms");
}

// R027, R040
#[test]
fn null_is_a_value_and_absence_is_absence() {
    let schema = schema(STATES);
    let null = result("null");
    let absent = Bytes::from_static(br#"{"content":[]}"#);
    let demanding = ValidationRules {
        missing_structured_content: Missing::Block,
        ..rules(Mode::Strict)
    };
    assert_eq!(
        kind(validate(&absent, false, Declared::Schema(&schema), &demanding)),
        Some((ViolationKind::MissingStructuredContent, ViolationOutcome::Withhold))
    );
    assert_eq!(
        kind(validate(&null, false, Declared::Schema(&schema), &demanding)),
        Some((ViolationKind::Schema, ViolationOutcome::Withhold))
    );
    let nullable = OutputSchema::compile(br#"{"type":"null"}"#).unwrap();
    assert_eq!(
        validate(&null, false, Declared::Schema(&nullable), &demanding),
        Verdict::Conforms
    );
    // Only strict demands it; an error, or a result that is not the last word, owes none.
    let warning = ValidationRules {
        mode: Mode::Warn,
        ..demanding
    };
    assert_eq!(
        validate(&absent, false, Declared::Schema(&schema), &warning),
        Verdict::Conforms
    );
    assert_eq!(
        validate(&absent, true, Declared::Schema(&schema), &demanding),
        Verdict::Conforms
    );
    for (text, expected) in [
        (r#"{"resultType":"input_required","inputRequests":{}}"#, None),
        (r#"{"resultType":"t\u0061sk"}"#, None),
        (
            r#"{"resultType":"complete"}"#,
            Some(ViolationKind::MissingStructuredContent),
        ),
        (
            r#"{"resultType":"bogus"}"#,
            Some(ViolationKind::MissingStructuredContent),
        ),
        (
            r#"{"resultType":"task","structuredContent":{"n":"x"}}"#,
            Some(ViolationKind::Schema),
        ),
        (
            r#"{"structuredContent":{"n":"x"},"resultType":"task"}"#,
            Some(ViolationKind::Schema),
        ),
        ("[]", Some(ViolationKind::MissingStructuredContent)),
    ] {
        let bytes = Bytes::from_static(text.as_bytes());
        let found = validate(&bytes, false, Declared::Schema(&schema), &demanding);
        assert_eq!(
            validate_scanned(&scanned(&bytes), false, Declared::Schema(&schema), &demanding),
            found
        );
        assert_eq!(kind(found).map(|(kind, _)| kind), expected, "{text}");
    }
}

// R029, R041
#[test]
fn a_schema_nobody_can_use_stops_structured_output_only_where_the_operator_says_so() {
    let hash = Digest::of(b"{\"type\":7}");
    let structured = result("{}");
    let absent = Bytes::from_static(br#"{"content":[]}"#);
    for (mode, posture, expected) in [
        (Mode::Off, Uncompilable::Block, None),
        (Mode::Warn, Uncompilable::Allow, None),
        (Mode::Warn, Uncompilable::Block, None),
        (Mode::Strict, Uncompilable::Allow, None),
        (
            Mode::Strict,
            Uncompilable::Block,
            Some((ViolationKind::UncompilableSchema, ViolationOutcome::Withhold)),
        ),
    ] {
        let rules = ValidationRules {
            uncompilable_schema: posture,
            ..rules(mode)
        };
        let (verdict, trees, checks) = counted(&structured, Declared::Uncompilable { hash }, &rules);
        assert_eq!((kind(verdict), trees, checks), (expected, 0, 0));
        assert_eq!(
            validate(&absent, false, Declared::Uncompilable { hash }, &rules),
            Verdict::Conforms
        );
    }
    let blocking = ValidationRules {
        uncompilable_schema: Uncompilable::Block,
        ..rules(Mode::Strict)
    };
    let violation = violation(validate(&structured, false, Declared::Uncompilable { hash }, &blocking));
    assert_eq!(violation.schema_hash, hash);
}

#[test]
fn what_a_parser_would_read_otherwise_is_a_violation_and_no_internal_error() {
    let anything = schema("true");
    for (structured, expected, item) in [
        (
            r#"{"a":1,"a":1}"#,
            ViolationKind::DuplicateKey,
            "/: an object names a member twice",
        ),
        (
            r#"{"a":1,"\u0061":2}"#,
            ViolationKind::DuplicateKey,
            "/: an object names a member twice",
        ),
        (
            r#"[[{"x":{"k":1,"\u006B":2}}]]"#,
            ViolationKind::DuplicateKey,
            "/: an object names a member twice",
        ),
        (
            r#""\ud800""#,
            ViolationKind::Unreadable,
            "/: a string holds half a surrogate pair",
        ),
        (
            r#"{"\udc00":1}"#,
            ViolationKind::Unreadable,
            "/: a string holds half a surrogate pair",
        ),
        ("1e400", ViolationKind::Unreadable, "/: a number is out of range"),
        ("[-1e400]", ViolationKind::Unreadable, "/: a number is out of range"),
    ] {
        for mode in [Mode::Warn, Mode::Strict] {
            let violation = violation(judged(structured, &anything, &rules(mode)));
            assert_eq!(
                (violation.kind, violation.items),
                (expected, vec![item.to_owned()]),
                "{structured}"
            );
        }
    }
    // The twins.
    for good in [
        r#"{"a":1,"A":1}"#,
        r#""\ud83d\ude00""#,
        "1e308",
        "-0",
        "1.0",
        "9007199254740993",
    ] {
        assert_eq!(
            judged(good, &anything, &rules(Mode::Strict)),
            Verdict::Conforms,
            "{good}"
        );
    }
    // Named twice, in whatever spelling and however alike.
    for twice in [
        r#"{"structuredContent":{"n":1},"structuredContent":{"n":1}}"#,
        r#"{"structuredContent":{"n":1},"x":1,"structured\u0043ontent":{"n":"x"}}"#,
        r#"{"structuredContent":null,"structuredContent":null,"structuredContent":1}"#,
    ] {
        let bytes = Bytes::from_static(twice.as_bytes());
        let verdict = validate(&bytes, false, Declared::Schema(&anything), &rules(Mode::Strict));
        assert_eq!(
            validate_scanned(
                &scanned(&bytes),
                false,
                Declared::Schema(&anything),
                &rules(Mode::Strict)
            ),
            verdict
        );
        assert_eq!(
            kind(verdict),
            Some((ViolationKind::DuplicateKey, ViolationOutcome::Withhold)),
            "{twice}"
        );
    }
    for spelled in [
        r#"{"\u0073tructuredContent":{"n":"x"}}"#,
        r#"{ "structuredContent" : {"n":"x"} }"#,
    ] {
        let bytes = Bytes::from_static(spelled.as_bytes());
        let verdict = validate(&bytes, false, Declared::Schema(&schema(STATES)), &rules(Mode::Strict));
        assert_eq!(
            kind(verdict),
            Some((ViolationKind::Schema, ViolationOutcome::Withhold)),
            "{spelled}"
        );
    }
    for broken in [
        r#"{"structuredContent" {"n":1}}"#,
        r#"{"structuredContent":{"n":1} "structuredContent":1}"#,
        r#"{"structuredContent":{"n":1},}"#,
        r#"{"structuredContent":{"n":01}}"#,
        r#"{"structuredContent":{"n":1}}x"#,
    ] {
        let bytes = Bytes::from_static(broken.as_bytes());
        let verdict = validate(&bytes, false, Declared::Schema(&schema(STATES)), &rules(Mode::Strict));
        assert_eq!(
            kind(verdict),
            Some((ViolationKind::Unreadable, ViolationOutcome::Withhold)),
            "{broken}"
        );
    }
}

// R061
#[test]
fn only_structured_content_is_judged() {
    let schema = schema(STATES);
    for beside in [
        r#"{"content":[{"type":"text","text":"{\"n\":\"x\"}"}],"structuredContent":{"n":1}}"#,
        r#"{"content":[{"type":"image","data":"AA==","structuredContent":{"n":"x"}}],"structuredContent":{"n":1}}"#,
        r#"{"_meta":{"structuredContent":7},"structuredContent":{"n":1},"other":1e400,"twice":1,"twice":2}"#,
        r#"{"content":[],"structuredContent":{"n":1}}"#,
        r#"{"structuredContent":{"n":1}}"#,
    ] {
        let bytes = Bytes::from_static(beside.as_bytes());
        assert_eq!(
            validate(&bytes, false, Declared::Schema(&schema), &rules(Mode::Strict)),
            Verdict::Conforms,
            "{beside}"
        );
    }
}

// R007
#[test]
fn odd_spellings_conform() {
    let schema = schema(r#"{"type":"array","items":{"type":"number"},"uniqueItems":true}"#);
    assert_eq!(
        judged(
            " [ 1.0 , 1e2,-0,\t9007199254740993, 9007199254740992,\n123456789012345678901234567890 ] ",
            &schema,
            &rules(Mode::Strict)
        ),
        Verdict::Conforms
    );
}

#[test]
fn an_edit_that_breaks_the_schema_withholds_in_every_mode_that_validates() {
    let schema = schema(
        r#"{"properties":{"token":{"type":"string","maxLength":12},"kind":{"enum":["a","b"]},"note":{"type":"string"}}}"#,
    );
    let before = result(r#"{"token":"abc","kind":"a","note":"x"}"#);
    let declared = Declared::Schema(&schema);
    for mode in [Mode::Warn, Mode::Strict] {
        let rules = rules(mode);
        let verdict = validate(&before, false, declared, &rules);
        let stands = result(r#"{"token":"abc","kind":"a","note":"[REDACTED:api_token]"}"#);
        assert_eq!(
            revalidate(&stands, false, &verdict, declared, &rules),
            Verdict::Conforms
        );
        for (broken, keyword) in [
            (r#"{"token":"[REDACTED:api_token]","kind":"a"}"#, "maxLength"),
            (r#"{"token":"abc","kind":"[REDACTED:api_token]"}"#, "enum"),
        ] {
            let violation = violation(revalidate(&result(broken), false, &verdict, declared, &rules));
            assert_eq!(
                (violation.kind, violation.outcome, violation.keyword.as_deref()),
                (
                    ViolationKind::RedactionBreaksSchema,
                    ViolationOutcome::Withhold,
                    Some(keyword)
                )
            );
            assert!(
                violation
                    .message
                    .starts_with("tool output blocked by sanitisation policy: redaction_breaks_schema: /"),
                "{}",
                violation.message
            );
        }
    }
    let broken = result(r#"{"token":"[REDACTED:api_token]"}"#);
    // No schema, no validation, an error: the edit stands.
    for (is_error, declared, mode) in [
        (false, Declared::Nothing, Mode::Strict),
        (false, declared, Mode::Off),
        (true, declared, Mode::Strict),
    ] {
        assert_eq!(
            revalidate(&broken, is_error, &Verdict::Conforms, declared, &rules(mode)),
            Verdict::Conforms
        );
    }
    // What was wrong before, and forwarded by the operator's word, was not broken by the edit.
    let wrong = result(r#"{"token":7,"note":"secret"}"#);
    let verdict = validate(&wrong, false, declared, &rules(Mode::Warn));
    assert_eq!(
        kind(verdict.clone()),
        Some((ViolationKind::Schema, ViolationOutcome::Forward))
    );
    let masked = result(r#"{"token":7,"note":"[REDACTED:api_token]"}"#);
    assert_eq!(
        revalidate(&masked, false, &verdict, declared, &rules(Mode::Warn)),
        Verdict::Conforms
    );
}

fn depth_of(value: &serde_json::Value) -> usize {
    let below = match value {
        serde_json::Value::Array(elements) => elements.iter().map(depth_of).max(),
        serde_json::Value::Object(members) => members.values().map(depth_of).max(),
        serde_json::Value::Null
        | serde_json::Value::Bool(_)
        | serde_json::Value::Number(_)
        | serde_json::Value::String(_) => None,
    };
    below.unwrap_or_default() + 1
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..99), json in "[\\[\\]{}:,\"\\\\a0-9 ]{0,40}") {
        let schema = schema("{\"type\":\"object\"}");
        let framed = format!("{{\"structuredContent\":{json}}}");
        for bytes in [bytes, json.into_bytes(), framed.into_bytes()] {
            let _ = validate(&bytes.into(), false, Declared::Schema(&schema), &rules(Mode::Strict));
        }
    }
}

const SEED: u64 = 0x5eed_0056;

// R048
#[test]
fn ten_thousand_violations_are_found_in_each_mode() {
    println!("seed {SEED:#x}");
    let mut random = Random::new(SEED);
    for _ in 0..100 {
        let shape = Shape::any(&mut random, 3);
        let schema = schema(&shape.schema().to_string());
        for _ in 0..100 {
            let bad = shape.bad(&mut random);
            let bad = result(&random.spelled(&bad));
            for (mode, outcome) in [
                (Mode::Warn, ViolationOutcome::Forward),
                (Mode::Strict, ViolationOutcome::Withhold),
            ] {
                let verdict = validate(&bad, false, Declared::Schema(&schema), &rules(mode));
                assert_eq!(
                    kind(verdict),
                    Some((ViolationKind::Schema, outcome)),
                    "{} {}",
                    shape.schema(),
                    String::from_utf8_lossy(&bad)
                );
            }
        }
    }
}

// R005, R011, R034
#[test]
fn ten_thousand_conforming_results_conform() {
    println!("seed {SEED:#x}");
    let mut random = Random::new(SEED);
    for _ in 0..100 {
        let shape = Shape::any(&mut random, 3);
        let schema = schema(&shape.schema().to_string());
        for _ in 0..100 {
            let good = shape.good(&mut random);
            let good = result(&random.spelled(&good));
            let Structured::Once { raw, depth } = locate::in_bytes(&good) else {
                panic!("not found");
            };
            assert_eq!(depth, depth_of(&serde_json::from_slice(raw).unwrap()));
            let (copy, place) = (good.to_vec(), good.as_ptr());
            let verdict = validate(&good, false, Declared::Schema(&schema), &rules(Mode::Strict));
            assert_eq!(
                verdict,
                Verdict::Conforms,
                "{} {}",
                shape.schema(),
                String::from_utf8_lossy(&good)
            );
            assert_eq!((good.as_ref(), good.as_ptr()), (copy.as_slice(), place));
        }
    }
}

#[test]
fn a_declaration_tells_what_of_it_is_not_checked() {
    let told = |schema: Option<&str>| {
        let declaration = Declaration::compile(schema.map(str::as_bytes));
        (declaration.is_partial(), declaration.is_vacuous())
    };
    assert_eq!(told(None), (false, false));
    assert_eq!(told(Some("{\"type\":5}")), (false, false), "cannot be compiled");
    assert_eq!(told(Some("{\"type\":\"object\"}")), (false, false));
    assert_eq!(told(Some("{}")), (false, true));
    assert_eq!(
        told(Some(r#"{"type":"object","properties":{"a":{"pattern":"(a)\\1"}}}"#)),
        (true, false)
    );
}

#[test]
fn structured_output_is_found_with_its_depth_and_in_no_broken_result() {
    let depth = |raw: &str| match locate::in_bytes(raw.as_bytes()) {
        Structured::Once { depth, .. } => Some(depth),
        Structured::Absent | Structured::Unfinished | Structured::Twice | Structured::Unreadable => None,
    };
    let once = |value: &str| depth(&format!(r#"{{"structuredContent":{value},"z":[[[0]]]}}"#));
    for (value, deep) in [
        ("1", 1),
        ("{}", 1),
        ("[ ]", 1),
        ("{ \n\r\t }", 1),
        (r#"{"a" : 1 , "b" : 2 }"#, 2),
        (r#"["]","[["]"#, 2),
        (r#"["a\"]","[\\",[1]]"#, 3),
        (r#"{"a":[{}]}"#, 3),
        ("[\"a\u{1}\\n\u{1f}]\",[1]]", 3),
    ] {
        assert_eq!(once(value), Some(deep), "{value}");
    }
    for broken in [
        r#"{"x":,"structuredContent":1}"#,
        r#"{"x":],"structuredContent":1}"#,
        r#"{"x"::1,"structuredContent":1}"#,
        r#"{"structuredContent":}"#,
    ] {
        assert!(
            matches!(locate::in_bytes(broken.as_bytes()), Structured::Unreadable),
            "{broken}"
        );
    }
}
