//! What is not let through for its place, its pieces or its size.

use ledger::ScreeningGuard;

use super::*;

#[test]
fn a_secret_in_the_place_of_a_picture_or_a_file_withholds() {
    for block in [
        format!(r#"{{"type":"image","mimeType":"image/png","data":"{TOKEN}"}}"#),
        format!(r#"{{"type":"image","mimeType":"image/png","data":{{"x":"{TOKEN}"}}}}"#),
        format!(r#"{{"type":"audio","mimeType":"audio/wav","data":{{"{TOKEN}":"x"}}}}"#),
        format!(r#"{{"type":"resource","resource":{{"uri":"a:b","mimeType":"text/plain","blob":"{TOKEN}"}}}}"#),
        format!(r#"{{"type":"resource","resource":{{"uri":"a:b","blob":["{TOKEN}"]}}}}"#),
    ] {
        let result = format!(r#"{{"content":[{block}]}}"#);
        for rules in [redacting(), blocking()] {
            assert!(told(&result, &UNTRUSTED, &rules).outcome.is_err(), "{block}");
        }
    }
    let picture = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==";
    let result = format!(r#"{{"content":[{{"type":"image","mimeType":"image/png","data":"{picture}"}}]}}"#);
    assert_eq!(told(&result, &UNTRUSTED, &redacting()).text(), result);
}

#[test]
fn the_lines_of_a_key_in_an_array_are_one_key() {
    let line = "Qm9yZGVyIGNyb3NzaW5nIGlzIGZvciBzaGlwcyBvbmx5LCAxMjM0NTY3ODkwQUJD";
    let lines = format!(r#""-----BEGIN PRIVATE KEY-----","{line}","{line}","{line}","-----END PRIVATE KEY-----""#);
    let result = format!(r#"{{"content":[],"structuredContent":{{"lines":[{lines}],"after":"stays"}}}}"#);
    let told = told(&result, &UNTRUSTED, &redacting());
    assert!(
        !told.text().contains(line) && told.text().contains("stays"),
        "{}",
        told.text()
    );
}

#[test]
fn the_value_of_a_pair_is_known_by_its_name() {
    let secret = concat!("wJx2lrXUtnFEMI/K7MDENG", "/bPxRfiCYZk3mPqL9s");
    for pair in [
        format!(r#"{{"name":"AWS_SECRET_ACCESS_KEY","value":"{secret}"}}"#),
        format!(r#"{{ "value" : "{secret}" , "name" : "AWS_SECRET_ACCESS_KEY" }}"#),
        format!(r#"{{"Key":"AWS_SECRET_ACCESS_KEY","Value":"{secret}"}}"#),
    ] {
        let result = format!(r#"{{"content":[],"structuredContent":{{"environment":[{pair}]}}}}"#);
        let told = told(&result, &UNTRUSTED, &redacting());
        assert!(told.text().contains("[REDACTED:cloud_credentials]"), "{}", told.text());
        assert!(!told.text().contains(secret));
    }
    // Another object's name is none of its own.
    let apart = format!(r#"[{{"name":"AWS_SECRET_ACCESS_KEY"}},{{"value":"{secret}"}}]"#);
    let result = format!(r#"{{"content":[],"structuredContent":{{"environment":{apart}}}}}"#);
    assert_eq!(told(&result, &UNTRUSTED, &redacting()).text(), result);
}

#[test]
fn a_message_does_not_grow_without_end() {
    let mut fencing = rules();
    fencing.guards.max_bytes = 32 << 20;
    fencing.sanitisation.spotlight = Spotlight::Untrusted;
    let mut stripping = rules();
    stripping.guards.max_bytes = 32 << 20;
    stripping.sanitisation.strip = Classes::ALL;
    let array = format!(
        r#"{{"content":[{{"type":"text","text":[{}"a"]}}]}}"#,
        r#""a","#.repeat(400_000)
    );
    let odd = "a\u{7f}".repeat(1_100_000);
    let uneditable = format!(r#"{{"content":[{{"type":"resource","resource":{{"uri":"a:b","text":"{odd}"}}}}]}}"#);
    for (what, result, rules) in [
        ("entities", text(&"&".repeat(2_200_000)), &fencing),
        ("fences", array, &fencing),
        ("removals", text(&odd), &stripping),
        ("removals of what is not edited", uneditable, &stripping),
    ] {
        let told = told(&result, &UNTRUSTED, rules);
        assert_eq!(
            told.outcome.err().map(|withheld| withheld.code),
            Some(ReasonCode::WithheldSanitisation),
            "{what}"
        );
        assert_eq!(
            told.decisions.last().and_then(|decision| decision.guard),
            Some(ScreeningGuard::Edits),
            "{what}"
        );
    }
    let told = told(&text(&"&".repeat(100_000)), &UNTRUSTED, &fencing);
    assert!(told.text().len() > 500_000, "a short one may");
}
