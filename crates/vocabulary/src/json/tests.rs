//! What the reader takes, what it refuses, and that it agrees with another reader about which is which.

use proptest::prelude::*;

use super::*;

const WIDE: Limits = Limits {
    max_bytes: 1 << 20,
    max_depth: 64,
    max_string: 1 << 16,
    max_items: 10_000,
};

fn read(text: &str) -> Result<Value<'_>, Fault> {
    Value::parse(text.as_bytes(), &WIDE)
}

fn string(text: &str) -> Value<'_> {
    Value::String(text.into())
}

#[test]
fn a_document_becomes_the_tree_it_spells() {
    let text = r#" {"a": [1, -0.5e+3, true, false, null, "x"], "b": {}, "c": [], "": {"d": "é\n😀"}} "#;
    let expected = Value::Object(vec![
        (
            "a".into(),
            Value::Array(vec![
                Value::Number("1"),
                Value::Number("-0.5e+3"),
                Value::Bool(true),
                Value::Bool(false),
                Value::Null,
                string("x"),
            ]),
        ),
        ("b".into(), Value::Object(vec![])),
        ("c".into(), Value::Array(vec![])),
        ("".into(), Value::Object(vec![("d".into(), string("é\n😀"))])),
    ]);
    assert_eq!(read(text), Ok(expected));
}

#[test]
fn strings_are_borrowed_unless_an_escape_forces_a_copy() {
    let tree = read(r#"["plain é", "esc\u0061ped"]"#).unwrap();
    let Value::Array(elements) = tree else {
        panic!("an array")
    };
    assert!(matches!(&elements[0], Value::String(Cow::Borrowed("plain é"))));
    assert!(matches!(&elements[1], Value::String(Cow::Owned(text)) if text == "escaped"));
}

// R202
#[test]
fn what_is_not_json_is_refused() {
    for bad in [
        "",
        " ",
        "{",
        "[",
        "}",
        "]",
        "[1",
        "[1,",
        "[1,]",
        "[,1]",
        "[1 2]",
        "{\"a\"",
        "{\"a\":",
        "{\"a\":1",
        "{\"a\":1,}",
        "{a:1}",
        "{'a':1}",
        "{\"a\" 1}",
        "{1:1}",
        "[1}",
        "{\"a\":1]",
        "tru",
        "True",
        "nul",
        "nan",
        "NaN",
        "Infinity",
        "-",
        "+1",
        "01",
        "-01",
        "00",
        "1.",
        ".5",
        "1.e3",
        "1e",
        "1e+",
        "0x10",
        "1_000",
        "\"",
        "\"a",
        "\"\\",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\u12G4\"",
        "\"\t\"",
        "\"a\nb\"",
        "\"\u{0}\"",
        "1 1",
        "{} {}",
        "null,",
        "[] x",
        "\u{feff}{}",
        "// c\n1",
        "/**/1",
        "\u{a0}1",
        "\u{c}1",
    ] {
        assert_eq!(read(bad), Err(Fault::Malformed), "{bad:?}");
    }
}

// R202
#[test]
fn bytes_that_are_not_utf_8_are_refused() {
    for bad in [
        &b"\"\xff\""[..],
        b"\"\xc0\xaf\"",
        b"\"\xed\xa0\x80\"",
        b"\"\xf4\x90\x80\x80\"",
        b"\xff\xfe{\0}\0",
    ] {
        assert_eq!(Value::parse(bad, &WIDE), Err(Fault::NotUtf8));
    }
}

// R139, R202
#[test]
fn a_name_used_twice_is_refused_at_every_level_however_it_is_spelled() {
    for bad in [
        r#"{"a":1,"a":1}"#,
        r#"{"a":1,"\u0061":2}"#,
        r#"{"\u00e9":1,"é":2}"#,
        r#"{"\ud83d\ude00":1,"😀":2}"#,
        r#"{"":1,"":2}"#,
        r#"{"x":[{"y":{"a":1,"b":2,"a":3}}]}"#,
        r#"{"a\/b":1,"a/b":2}"#,
    ] {
        assert_eq!(read(bad), Err(Fault::DuplicateKey), "{bad}");
    }
    // The twins: names that differ in case, in normal form or by level are different names.
    for good in [
        r#"{"a":1,"A":1}"#,
        "{\"é\":1,\"e\u{301}\":2}",
        r#"{"a":{"a":{"a":1}}}"#,
        r#"[{"a":1},{"a":2}]"#,
    ] {
        assert!(read(good).is_ok(), "{good}");
    }
}

// R139
#[test]
fn a_name_used_twice_is_found_among_many_without_comparing_all_pairs() {
    for count in [2, 15, 16, 17, 18, 5_000] {
        let members: Vec<String> = (0..count).map(|number| format!("\"k{number}\":{number}")).collect();
        let unique = format!("{{{}}}", members.join(","));
        let twice = format!("{{{},\"\\u006b0\":0}}", members.join(","));
        assert!(read(&unique).is_ok(), "{count}");
        assert_eq!(read(&twice), Err(Fault::DuplicateKey), "{count}");
    }
}

#[test]
fn half_a_surrogate_pair_is_refused_and_a_whole_one_is_a_character() {
    for bad in [
        r#""\ud800""#,
        r#""\udc00""#,
        r#""\ud800\ud800""#,
        r#""\ud800x""#,
        r#""\ud800\n""#,
        r#"{"\udfff":1}"#,
    ] {
        assert_eq!(read(bad), Err(Fault::LoneSurrogate), "{bad}");
    }
    assert_eq!(read(r#""\uD83D\uDE00""#), Ok(string("😀")));
    assert_eq!(read(r#""\ud7ff\ue000""#), Ok(string("\u{d7ff}\u{e000}")));
}

#[test]
fn numbers_no_double_can_hold_are_refused() {
    let long = format!("1{}", "0".repeat(309));
    for bad in [
        "1e400",
        "-1e400",
        "1.8e308",
        "1e309",
        "1E+0999",
        "1e1000000000",
        "1e-1000000000",
        "0e9999999999",
        &long,
    ] {
        assert_eq!(read(bad), Err(Fault::NumberOutOfRange), "{bad}");
    }
    let almost = format!("1{}", "0".repeat(308));
    for good in [
        "1e308",
        "1.7976931348623157e308",
        "1e-400",
        "0e999999999",
        "-0",
        "0.0",
        "1e00000000000300",
        &almost,
    ] {
        assert_eq!(read(good), Ok(Value::Number(good)));
    }
}

// R139, R201
#[test]
fn each_limit_holds_below_at_and_above_it() {
    let limits = Limits {
        max_bytes: 40,
        max_depth: 3,
        max_string: 4,
        max_items: 5,
    };
    let read = |text: &str| Value::parse(text.as_bytes(), &limits).map(|_| ());
    let padded = |length: usize| format!("1{}", " ".repeat(length - 1));
    for (text, expected) in [
        (padded(39), Ok(())),
        (padded(40), Ok(())),
        (padded(41), Err(Fault::TooLarge)),
        ("[1]".to_owned(), Ok(())),
        ("[[1]]".to_owned(), Ok(())),
        ("[[[]]]".to_owned(), Ok(())),
        ("[[[1]]]".to_owned(), Err(Fault::TooDeep)),
        ("[[[[]]]]".to_owned(), Err(Fault::TooDeep)),
        (r#"{"a":{"b":1}}"#.to_owned(), Ok(())),
        (r#"{"a":{"b":{"c":1}}}"#.to_owned(), Err(Fault::TooDeep)),
        (r#""abc""#.to_owned(), Ok(())),
        (r#""abcd""#.to_owned(), Ok(())),
        (r#""abcde""#.to_owned(), Err(Fault::StringTooLong)),
        (r#""\u0061bcd""#.to_owned(), Ok(())),
        (r#""\u0061bcde""#.to_owned(), Err(Fault::StringTooLong)),
        (r#""ééé""#.to_owned(), Err(Fault::StringTooLong)),
        (r#"{"abcde":1}"#.to_owned(), Err(Fault::StringTooLong)),
        ("[1,2,3,4]".to_owned(), Ok(())),
        ("[1,2,3,4,5]".to_owned(), Ok(())),
        ("[1,2,3,4,5,6]".to_owned(), Err(Fault::TooManyItems)),
        (r#"[{"a":1,"b":2},3]"#.to_owned(), Ok(())),
        (r#"[{"a":1,"b":2},3,[]]"#.to_owned(), Ok(())),
        (r#"[{"a":1,"b":2},3,[5]]"#.to_owned(), Err(Fault::TooManyItems)),
    ] {
        assert_eq!(read(&text), expected, "{text}");
    }
    let none = Limits { max_depth: 0, ..limits };
    assert_eq!(Value::parse(b"1", &none), Err(Fault::TooDeep));
}

#[test]
fn no_depth_is_so_large_that_reading_or_dropping_overflows_the_stack() {
    let limits = Limits {
        max_bytes: usize::MAX,
        max_depth: usize::MAX,
        max_string: 9,
        max_items: usize::MAX,
    };
    let deep = "[".repeat(1_000_000);
    assert_eq!(Value::parse(deep.as_bytes(), &limits), Err(Fault::TooDeep));
    let named = "{\"a\":".repeat(1_000_000);
    assert_eq!(Value::parse(named.as_bytes(), &limits), Err(Fault::TooDeep));
    let deepest = format!("{}{}", "[".repeat(Limits::DEEPEST), "]".repeat(Limits::DEEPEST));
    assert!(Value::parse(deepest.as_bytes(), &limits).is_ok());
}

#[test]
fn faults_carry_no_word_of_the_document() {
    let text = read("{\"hunter2\":1,\"hunter2\":2}").unwrap_err().to_string();
    assert_eq!(text, "an object names a member twice");
}

fn as_serde(value: &Value<'_>) -> serde_json::Value {
    match value {
        Value::Null => serde_json::Value::Null,
        Value::Bool(bool) => (*bool).into(),
        Value::Number(text) => serde_json::from_str(text).unwrap(),
        Value::String(text) => text.as_ref().into(),
        Value::Array(elements) => elements.iter().map(as_serde).collect(),
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| (name.to_string(), as_serde(value)))
            .collect(),
    }
}

/// JSON, and JSON with a few characters changed.
fn nearly_json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        any::<f64>()
            .prop_filter("finite", |number| number.is_finite())
            .prop_map(|number| format!("{number:?}")),
        any::<i64>().prop_map(|number| number.to_string()),
        any::<String>().prop_map(|text| serde_json::to_string(&text).unwrap()),
        "\"(\\\\u[0-9a-f]{4}|\\\\[bfnrt/]|[a-c]){0,4}\"",
    ];
    let tree = leaf.prop_recursive(5, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(|elements| format!("[{}]", elements.join(", "))),
            prop::collection::vec(("[a-d]{0,2}", inner), 0..5).prop_map(|members| {
                let members: Vec<String> = members
                    .iter()
                    .map(|(name, value)| format!("\"{name}\" :{value}"))
                    .collect();
                format!("{{{}}}", members.join(","))
            }),
        ]
    });
    (
        tree,
        prop::option::of((any::<prop::sample::Index>(), "[\\[\\]{}:,\"\\\\0-9eE.+ \\-a-z]")),
    )
        .prop_map(|(mut text, change)| {
            if let Some((index, with)) = change {
                let at = index.index(text.len());
                if text.is_char_boundary(at) && text.is_char_boundary(at + 1) {
                    text.replace_range(at..=at, &with);
                }
            }
            text
        })
}

proptest! {
    #[test]
    fn another_reader_agrees_on_everything_but_duplicate_names(text in nearly_json()) {
        match (read(&text), serde_json::from_str::<serde_json::Value>(&text)) {
            (Ok(ours), Ok(theirs)) => prop_assert_eq!(as_serde(&ours), theirs),
            (Err(Fault::DuplicateKey), Ok(_)) => {}
            (Err(_), Err(_)) => {}
            (ours, theirs) => prop_assert!(false, "{:?} {:?} {:?}", text, ours, theirs),
        }
    }

    #[test]
    fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Value::parse(&bytes, &WIDE);
    }
}

#[test]
fn plain_text_ends_at_the_first_byte_that_a_string_cannot_hold() {
    let ends = |byte: u8| byte < 0x20 || byte == b'"' || byte == b'\\';
    for length in 0..40 {
        for place in 0..length {
            for byte in 0..=255 {
                // Neighbours that a borrow could spill over to.
                for filler in [b' ', b'!', b'#', b'[', b']', 0x7f, 0x80, 0xff] {
                    let mut text = vec![filler; length];
                    text[place] = byte;
                    let expected = if ends(byte) { place } else { length };
                    assert_eq!(plain_length(&text), expected, "{byte:#x} at {place} of {length}");
                }
            }
        }
    }
}
