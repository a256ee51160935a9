//! The guards, on small results and on enormous ones.

use proptest::prelude::*;

use super::*;

struct Sent(Bytes);

impl Received for Sent {
    fn into_raw(self) -> Raw {
        Raw::Unread(self.0)
    }
}

const WIDE: Guards = Guards {
    max_bytes: 1 << 20,
    max_depth: 64,
};

/// A withheld message has its code whether or not that is on record; only a released one needs the records.
fn released(screening: Screening) -> Result<ScreenedResult, Withheld> {
    match screening.preview() {
        Err(withheld) => Err(withheld.clone()),
        Ok(_) => screening.release(Vec::new()),
    }
}

fn screened(text: impl Into<Bytes>, guards: &Guards) -> Result<ScreenedResult, Withheld> {
    let rules = Rules {
        guards: *guards,
        validation: validate::ValidationRules::default(),
        sanitisation: Sanitisation::default(),
        truncation: None,
    };
    let origin = Origin {
        server: "s",
        name: "t",
        message: walk::Message::ToolResult,
        standing: OutputTrust::Untrusted,
        declared: validate::Declared::Nothing,
    };
    released(screen(Sent(text.into()), &origin, &rules))
}

fn code(text: impl Into<Bytes>, guards: &Guards) -> Option<ReasonCode> {
    screened(text, guards).err().map(|withheld| withheld.code)
}

#[test]
fn a_clean_result_is_forwarded_as_the_very_bytes_that_came() {
    let bytes = Bytes::from_static(
        br#" {"content": [{"type":"text","text":"a\u00e9 \\\" ]}"}], "big": 9007199254740993, "x":1.0, "-0":-0} "#,
    );
    let place = bytes.as_ptr();
    let screened = screened(bytes.clone(), &WIDE).unwrap();
    assert_eq!(screened.bytes(), &bytes);
    assert_eq!(screened.bytes().as_ptr(), place, "not even copied");
}

#[test]
fn a_piece_of_what_was_screened_is_screened_and_nothing_from_elsewhere_is() {
    let all = Bytes::from_static(br#" {"content":[]} "#);
    let screened = screened(all.slice(1..15), &WIDE).unwrap();
    for (from, to) in [(1, 15), (2, 4), (12, 14)] {
        let piece = all.slice(from..to);
        let part = screened.part(&piece).expect("it lies within");
        assert_eq!((part.bytes(), part.is_error(), part.fences()), (&piece, false, 0));
    }
    for elsewhere in [
        all.slice(0..4),
        all.slice(12..16),
        all.clone(),
        Bytes::copy_from_slice(b"[]"),
    ] {
        assert!(screened.part(&elsewhere).is_none(), "{elsewhere:?}");
    }
}

#[test]
fn each_fenced_text_is_counted() {
    let rules = Rules {
        guards: WIDE,
        validation: validate::ValidationRules::default(),
        sanitisation: Sanitisation {
            spotlight: Spotlight::Untrusted,
            ..Sanitisation::default()
        },
        truncation: None,
    };
    let origin = Origin {
        server: "s",
        name: "t",
        message: walk::Message::ToolResult,
        standing: OutputTrust::Untrusted,
        declared: validate::Declared::Nothing,
    };
    for (texts, content) in [
        (0, r#"{"type":"image","data":"","mimeType":"image/png"}"#),
        (1, r#"{"type":"text","text":"a"}"#),
        (2, r#"{"type":"text","text":"a"},{"type":"text","text":"b"}"#),
    ] {
        let sent = Bytes::from(format!(r#"{{"content":[{content}]}}"#));
        let screened = released(screen(Sent(sent), &origin, &rules)).unwrap();
        assert_eq!(screened.fences(), texts, "{content}");
    }
}

#[test]
fn the_size_of_what_came_is_its_bytes() {
    for text in ["", "1", r#"{"a":1}"#] {
        assert_eq!(Raw::Unread(Bytes::from_static(text.as_bytes())).size(), text.len());
    }
    let document = Bytes::from_static(br#"{"result": [1,2] }"#);
    let [result] = vocabulary::json::scanned::members_of(&document, 8, ["result"]).unwrap();
    assert_eq!(Raw::Scanned(result.unwrap()).size(), 5);
}

// R201
#[test]
fn size_holds_below_at_and_above_the_limit() {
    let guards = Guards {
        max_bytes: 100,
        max_depth: 4,
    };
    let padded = |bytes: usize| format!("{{}}{}", " ".repeat(bytes - 2));
    assert_eq!(code(padded(99), &guards), None);
    assert_eq!(code(padded(100), &guards), None);
    let withheld = screened(padded(101), &guards).unwrap_err();
    assert_eq!(
        withheld,
        Withheld {
            code: ReasonCode::WithheldSchema,
            message: "output schema validation failed: the result has more than 100 bytes".to_owned(),
        }
    );
}

#[test]
fn depth_counts_a_scalar_as_one_and_holds_below_at_and_above_the_limit() {
    for depth in [1, 2, 3, 4, 63, 64, 65, 127, 128, 129, 200] {
        let guards = Guards {
            max_bytes: 1 << 20,
            max_depth: depth,
        };
        let with_scalar = |depth: usize| format!("{}1{}", "[".repeat(depth - 1), "]".repeat(depth - 1));
        let with_name = |depth: usize| format!("{}\"x\"{}", r#"{"a":"#.repeat(depth - 1), "}".repeat(depth - 1));
        let empty = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        for make in [&with_scalar as &dyn Fn(usize) -> String, &with_name, &empty] {
            assert_eq!(code(make(depth), &guards), None, "{depth}");
            assert_eq!(
                code(make(depth + 1), &guards),
                Some(ReasonCode::WithheldSchema),
                "{depth}"
            );
        }
    }
    assert_eq!(
        code(
            "[[],[],{\"a\":[]}]",
            &Guards {
                max_bytes: 99,
                max_depth: 3
            }
        ),
        None
    );
}

#[test]
fn brackets_and_quotes_must_have_their_partners() {
    for bad in [
        "",
        "  ",
        "{",
        "}",
        "[",
        "]",
        "{]",
        "[}",
        "[[]",
        "[]]",
        "{\"a\":[}",
        "\"",
        "{\"a",
        "\"\\",
        "\"a\\\"",
        "{}{}",
        "[] []",
        "\"a\"\"b\"",
    ] {
        let withheld = screened(bad, &WIDE).unwrap_err();
        assert_eq!(
            (withheld.code, withheld.message.as_str()),
            (ReasonCode::ErrorUpstream, "the result is not well-formed JSON"),
            "{bad}"
        );
    }
    assert_eq!(code(&b"\"\xff\""[..], &WIDE), Some(ReasonCode::ErrorUpstream));
    // Brackets inside strings are text.
    for good in [
        r#""]}[{""#,
        r#"{"}":"]"}"#,
        r#"["\"]"]"#,
        r#"["\\"]"#,
        "null",
        "-1.5e3",
        "true",
    ] {
        assert_eq!(code(good, &WIDE), None, "{good}");
    }
    // Mixed nesting across the borders of the words that remember it.
    for depth in [63, 64, 65, 128, 200] {
        let guards = Guards {
            max_bytes: 1 << 20,
            max_depth: 500,
        };
        let open: String = (0..depth)
            .map(|level| if level % 3 == 0 { "[" } else { "{\"a\":" })
            .collect();
        let close: String = (0..depth)
            .rev()
            .map(|level| if level % 3 == 0 { ']' } else { '}' })
            .collect();
        assert_eq!(code(format!("{open}1{close}"), &guards), None, "{depth}");
        let swapped: String = close.chars().map(|c| if c == ']' { '}' } else { ']' }).collect();
        assert_eq!(
            code(format!("{open}1{swapped}"), &guards),
            Some(ReasonCode::ErrorUpstream),
            "{depth}"
        );
    }
}

#[test]
fn a_million_levels_or_a_quarter_of_a_gigabyte_do_no_harm() {
    let limits = Guards {
        max_bytes: 33_554_432,
        max_depth: 512,
    };
    assert_eq!(code("[".repeat(1_000_000), &limits), Some(ReasonCode::WithheldSchema));
    assert_eq!(
        code(r#"{"a":"#.repeat(1_000_000), &limits),
        Some(ReasonCode::WithheldSchema)
    );
    assert_eq!(code(vec![b'['; 256 << 20], &limits), Some(ReasonCode::WithheldSchema));
    // Even without a limit on depth nothing recurses: a small stack is enough.
    let unlimited = Guards {
        max_bytes: usize::MAX,
        max_depth: usize::MAX,
    };
    let work = move || {
        code(
            format!("{}{}", "[".repeat(1_000_000), "]".repeat(1_000_000)),
            &unlimited,
        )
    };
    let result = std::thread::Builder::new()
        .stack_size(64 << 10)
        .spawn(work)
        .unwrap()
        .join()
        .unwrap();
    assert_eq!(result, None);
}

#[test]
fn a_result_that_calls_itself_an_error_is_seen_at_the_top_level_only() {
    for (text, expected) in [
        (r#"{"isError":true}"#, true),
        (r#"{"content":[],"isError" : true ,"x":1}"#, true),
        (r#"{"\u0069sErr\u006fr":true}"#, true),
        ("{\"isError\"\n:\ttrue}", true),
        (r#"{"isError":false}"#, false),
        (r#"{"isError":"true"}"#, false),
        (r#"{"isError":1}"#, false),
        (r#"{"x":"isError","y":true}"#, false),
        (r#"{"x":{"isError":true}}"#, false),
        (r#"[{"isError":true}]"#, false),
        (r#"{"x":"\"isError\":true"}"#, false),
        (r#"{"isErrors":true,"iserror":true}"#, false),
        (r#""isError""#, false),
    ] {
        assert_eq!(screened(text, &WIDE).unwrap().is_error(), expected, "{text}");
    }
}

fn json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<i64>().prop_map(Into::into),
        any::<String>().prop_map(Into::into)
    ];
    leaf.prop_recursive(6, 60, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Into::into),
            prop::collection::hash_map(any::<String>(), inner, 0..5).prop_map(|members| members.into_iter().collect()),
        ]
    })
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
    fn the_loop_counts_depth_as_a_tree_does(value in json()) {
        let (text, depth) = (value.to_string(), depth_of(&value));
        let [at, below] = [depth, depth - 1].map(|max_depth| Guards { max_bytes: 1 << 20, max_depth });
        prop_assert_eq!(code(text.clone(), &at), None);
        prop_assert_eq!(code(text, &below), Some(ReasonCode::WithheldSchema));
    }

    #[test]
    fn no_bytes_make_the_loop_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = screened(bytes, &WIDE);
    }

    #[test]
    fn whatever_a_reader_takes_passes_and_comes_out_unchanged(value in json()) {
        let text = value.to_string();
        let screened = screened(text.clone(), &Guards { max_bytes: 1 << 20, max_depth: 100 }).unwrap();
        prop_assert_eq!(screened.bytes(), &Bytes::from(text));
    }
}

#[test]
fn the_type_a_result_claims_is_seen_on_the_way() {
    for (text, expected) in [
        ("{}", Said::Nothing),
        (r#"{"content":[],"resultType" : "complete" }"#, Said::Complete),
        (r#"{"result\u0054ype":"complete"}"#, Said::Complete),
        (r#"{"resultType":"input_required"}"#, Said::Otherwise),
        (r#"{"resultType":"compl\u0065te"}"#, Said::Otherwise),
        (r#"{"resultType":null}"#, Said::Otherwise),
        (r#"{"x":{"resultType":"complete"}}"#, Said::Nothing),
        (r#"{"x":"resultType","y":"complete"}"#, Said::Nothing),
    ] {
        assert_eq!(screened(text, &WIDE).unwrap().result_type(), expected, "{text}");
    }
    assert!(screened(r#"{"resultType":"complete","resultType":"task"}"#, &WIDE).is_err());
}

#[test]
fn what_was_read_before_is_held_to_the_same_limits() {
    let read = |result: &str| {
        let answer = Bytes::from(format!(r#"{{"result":{result}}}"#));
        let [result] = vocabulary::json::scanned::members_of(&answer, 64, ["result"]).unwrap();
        result.unwrap()
    };
    let judged = |result: &str, max_bytes: usize, max_depth: usize| {
        guard::judge(&read(result), &Guards { max_bytes, max_depth })
    };
    let result = r#"{"content":[{}]}"#;
    assert!(judged(result, result.len(), 3).is_ok());
    assert_eq!(judged(result, result.len() - 1, 3), Err(Breach::TooLarge));
    assert_eq!(judged(result, result.len(), 2), Err(Breach::TooDeep));
    assert_eq!(judged(result, 1, 1), Err(Breach::TooLarge));
    assert!(judged(result, 1000, 60).is_ok());
    for (word, is_error) in [("true", true), ("false", false), ("\"true\"", false)] {
        let seen = judged(&format!(r#"{{"isError":{word}}}"#), 1000, 60).unwrap();
        assert_eq!(seen.is_error, is_error, "{word}");
    }
}
