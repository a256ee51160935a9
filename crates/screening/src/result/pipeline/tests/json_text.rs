//! A text that is itself JSON is JSON behind its masks, too (ADR 0069).

use super::*;

const NUMBER: &str = concat!("4539578", "763621486");

/// The text of the only block, after masking, and how many masks there are.
fn masked(inner: &str) -> (String, usize) {
    let quoted = serde_json::to_string(inner).unwrap();
    let raw = format!(r#"{{"content":[{{"type":"text","text":{quoted}}}]}}"#);
    let told = told(&raw, &UNTRUSTED, &redacting());
    let out: Json = serde_json::from_str(told.text()).unwrap();
    let text = out["content"][0]["text"].as_str().unwrap().to_owned();
    let count = text.matches("[REDACTED:").count();
    (text, count)
}

#[test]
fn a_number_becomes_a_string() {
    let (text, count) = masked(&format!(r#"{{"card_number": {NUMBER}, "n": [1, -2.5e3, 17]}}"#));
    assert_eq!(count, 1, "{text}");
    let value: Json = serde_json::from_str(&text).expect(&text);
    assert_eq!(value["card_number"], "[REDACTED:credit_card]");
    let (text, _) = masked(&format!("[\n  {{\"pan\":{NUMBER}}}\n]\n"));
    assert_eq!(text, "[\n  {\"pan\":\"[REDACTED:credit_card]\"}\n]\n");
}

#[test]
fn a_secret_that_reaches_over_strings_is_masked_in_each() {
    let line = "Qm9yZGVyIGNyb3NzaW5nIGlzIGZvciBzaGlwcyBvbmx5LCAxMjM0NTY3ODkwQUJD";
    let begin = concat!("-----BEGIN PRI", "VATE KEY-----");
    let inner = format!(r#"{{"lines":["{begin}","{line}","{line}","{line}"],"é\"\\\u00e9":[true,null]}}"#);
    let (text, count) = masked(&inner);
    assert!(count >= 3 && !text.contains(line), "{text}");
    let value: Json = serde_json::from_str(&text).expect(&text);
    assert_eq!(value["lines"].as_array().map(Vec::len), Some(4));
    assert_eq!(value["é\"\\é"], serde_json::json!([true, null]));
}

#[test]
fn escapes_of_the_inner_text_are_not_cut() {
    for inner in [
        format!(r#"{{"a":"x\n{TOKEN}\n","b":"\u0067{}"}}"#, TOKEN.get(1..).unwrap()),
        format!(r#"{{"a":"\\{TOKEN}\\\"","{TOKEN}":1}}"#),
        format!("{{\"a\":1}}\n{{\"token\":\"{TOKEN}\"}}\n{{\"card\":{NUMBER}}}\n"),
        format!(r#""{TOKEN}\"""#),
    ] {
        let (text, count) = masked(&inner);
        assert!(count >= 1 && !text.contains(TOKEN), "{text}");
        let mut documents = serde_json::Deserializer::from_str(&text).into_iter::<Json>();
        assert!(documents.all(|document| document.is_ok()), "{text}");
    }
}

#[test]
fn strings_of_structured_output_that_are_json_stay_json() {
    let inner = serde_json::to_string(&format!(r#"{{"card":{NUMBER}}}"#)).unwrap();
    let raw = format!(r#"{{"content":[],"structuredContent":{{"body":{inner}}}}}"#);
    let told = told(&raw, &UNTRUSTED, &redacting());
    let out: Json = serde_json::from_str(told.text()).unwrap();
    let body = out["structuredContent"]["body"].as_str().unwrap();
    assert_eq!(body, r#"{"card":"[REDACTED:credit_card]"}"#);
}

#[test]
fn what_is_no_json_is_masked_as_ever() {
    for (inner, wanted) in [
        (format!("[see {TOKEN}]"), "[see [REDACTED:api_token]]"),
        (format!("card {NUMBER}"), "card [REDACTED:credit_card]"),
        (format!("{{\"card\":{NUMBER}"), "{\"card\":[REDACTED:credit_card]"),
    ] {
        assert_eq!(masked(&inner).0, wanted);
    }
}
