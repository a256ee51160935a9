use proptest::prelude::*;

use super::*;

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn asked(requests: &str) -> Result<InputRequired, BadInput> {
    InputRequired::read(&bytes(&format!(
        r#"{{"resultType":"input_required","inputRequests":{requests}}}"#
    )))
}

#[test]
fn a_type_that_is_unknown_or_unreadable_is_never_complete() {
    for (result, expected) in [
        ("{}", ResultType::Complete),
        (r#"{"a":{"resultType":"task"}}"#, ResultType::Complete),
        (r#"{"resultType":"complete"}"#, ResultType::Complete),
        (
            r#"{"r\u0065sultType":"input\u005frequired"}"#,
            ResultType::InputRequired,
        ),
        (r#"{"resultType":"task"}"#, ResultType::Task),
        (r#"{"resultType":"Complete"}"#, ResultType::Unknown),
        (r#"{"resultType":null}"#, ResultType::Unknown),
        (r#"{"resultType":["complete"]}"#, ResultType::Unknown),
        (r#"{"resultType":"complete","resultType":"task"}"#, ResultType::Unknown),
        ("[]", ResultType::Unknown),
        ("", ResultType::Unknown),
    ] {
        assert_eq!(result_type(result.as_bytes()), expected, "{result}");
    }
}

#[test]
fn questions_that_servers_may_not_ask_are_refused() {
    for (requests, fault) in [
        (r#"{"a":{"method":"tools/call","params":{}}}"#, BadInput::UnknownMethod),
        (r#"{"a":{"method":"Roots/list"}}"#, BadInput::UnknownMethod),
        (r#"{"a":{"method":7}}"#, BadInput::Shape),
        (r#"{"a":{}}"#, BadInput::Shape),
        (r#"{"a":[]}"#, BadInput::Shape),
        (r#"{"a":null}"#, BadInput::Shape),
        ("[]", BadInput::Shape),
        (r#""x""#, BadInput::Shape),
        (r#"{"a":{"method":"elicitation/create"}}"#, BadInput::Shape),
        (
            r#"{"a":{"method":"sampling/createMessage","params":[]}}"#,
            BadInput::Shape,
        ),
        (r#"{"a":{"method":"roots/list","params":null}}"#, BadInput::Shape),
        (
            r#"{"a":{"method":"roots/list"},"\u0061":{"method":"roots/list"}}"#,
            BadInput::Duplicate,
        ),
        (
            r#"{"a":{"method":"roots/list","m\u0065thod":"elicitation/create"}}"#,
            BadInput::Duplicate,
        ),
    ] {
        assert_eq!(asked(requests), Err(fault), "{requests}");
    }
}

#[test]
fn questions_are_bounded() {
    let many = |count: usize| {
        let each: Vec<String> = (0..count)
            .map(|n| format!(r#""k{n}":{{"method":"roots/list"}}"#))
            .collect();
        asked(&format!("{{{}}}", each.join(",")))
    };
    assert_eq!(many(MOST_INPUTS).map(|all| all.requests.len()), Ok(MOST_INPUTS));
    assert_eq!(many(MOST_INPUTS + 1), Err(BadInput::TooMany));
    let long = |length: usize| asked(&format!(r#"{{"{}":{{"method":"roots/list"}}}}"#, "k".repeat(length)));
    assert!(long(LONGEST_KEY).is_ok());
    assert_eq!(long(LONGEST_KEY + 1), Err(BadInput::KeyTooLong));
}

#[test]
fn at_least_questions_or_a_state_are_there() {
    for (result, fault) in [
        (r#"{"resultType":"input_required"}"#, BadInput::Empty),
        (r#"{"inputRequests":null,"requestState":null}"#, BadInput::Empty),
        (r#"{"requestState":7}"#, BadInput::Shape),
        (r#"{"requestState":{}}"#, BadInput::Shape),
        (r#"{"requestState":"a","requestState":"b"}"#, BadInput::Duplicate),
    ] {
        assert_eq!(InputRequired::read(&bytes(result)), Err(fault), "{result}");
    }
    let state_only = bytes(r#"{"requestState":"a\u0062\n"}"#);
    assert_eq!(
        InputRequired::read(&state_only),
        Ok(InputRequired {
            requests: Vec::new(),
            request_state: Some(bytes(r#""a\u0062\n""#)),
        })
    );
}

#[test]
fn questions_keep_their_order_and_their_bytes() {
    let result = bytes(
        r#"{"inputRequests":{"z\u0079":{ "method":"elicitation/create","params": {"message":"m", "n":1e2} },"a":{"method":"roots/list"}}}"#,
    );
    let InputRequired {
        requests,
        request_state,
    } = InputRequired::read(&result).expect("questions");
    assert_eq!(request_state, None);
    assert_eq!(
        requests,
        [
            InputRequest {
                key: "zy".to_owned(),
                method: InputMethod::Elicit,
                params: Some(bytes(r#"{"message":"m", "n":1e2}"#)),
                whole: bytes(r#"{ "method":"elicitation/create","params": {"message":"m", "n":1e2} }"#),
            },
            InputRequest {
                key: "a".to_owned(),
                method: InputMethod::ListRoots,
                params: None,
                whole: bytes(r#"{"method":"roots/list"}"#),
            },
        ]
    );
}

#[test]
fn answers_are_an_object_without_duplicates() {
    assert_eq!(
        read_input_responses(br#"{"b":{ "action":"accept" },"a":{}}"#),
        Ok(vec![
            ("b".to_owned(), bytes(r#"{ "action":"accept" }"#)),
            ("a".to_owned(), bytes("{}"))
        ])
    );
    assert_eq!(read_input_responses(b"{}"), Ok(Vec::new()));
    for (raw, fault) in [
        (r#"{"a":{},"\u0061":{}}"#, BadInput::Duplicate),
        ("[]", BadInput::Shape),
        ("null", BadInput::Shape),
        (r#""{}""#, BadInput::Shape),
    ] {
        assert_eq!(read_input_responses(raw.as_bytes()), Err(fault), "{raw}");
    }
    let many: Vec<String> = (0..=MOST_INPUTS).map(|n| format!(r#""{n}":{{}}"#)).collect();
    assert_eq!(
        read_input_responses(format!("{{{}}}", many.join(",")).as_bytes()),
        Err(BadInput::TooMany)
    );
}

#[test]
fn methods_are_recognised_as_they_are_spelled() {
    for method in [InputMethod::CreateMessage, InputMethod::Elicit, InputMethod::ListRoots] {
        assert_eq!(InputMethod::parse(method.as_str()), Some(method));
    }
    assert_eq!(InputMethod::parse("ping"), None);
}

proptest! {
    #[test]
    fn what_we_ask_can_be_read_again(keys in prop::collection::btree_set(".{0,20}", 0..8), state in any::<String>()) {
        let params = br#"{ "message" : "m" }"#.as_slice();
        let requests: Vec<_> = keys.iter().map(|key| (key.clone(), "elicitation/create", Some(params))).collect();
        let composed = compose_input_required(&requests, &state);
        prop_assert_eq!(result_type(&composed), ResultType::InputRequired);
        let read = InputRequired::read(&composed).expect("our own");
        prop_assert_eq!(read.requests.iter().map(|one| one.key.clone()).collect::<Vec<_>>(), Vec::from_iter(keys));
        prop_assert!(read.requests.iter().all(|one| one.params.as_deref() == Some(params)));
        let literal = read.request_state.expect("a state");
        prop_assert_eq!(text_of(&literal).expect("text"), state);
    }

    #[test]
    fn answers_come_back_as_they_were_given(keys in prop::collection::btree_set(".{0,20}", 0..8)) {
        let responses: Vec<(String, Bytes)> = keys.into_iter().map(|key| (key, bytes(r#"{ "n":1e2 }"#))).collect();
        prop_assert_eq!(read_input_responses(&compose_input_responses(&responses)), Ok(responses));
    }
}
