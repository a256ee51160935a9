//! Files that come in base64 are looked into, and a secret in one withholds: they are never edited (ADR 0069).

use super::*;
use crate::detect::encoded_base64 as base64;

/// As much text around a secret as makes a file.
fn file(secret: &str) -> String {
    format!("# settings of the service\nregion = eu-west-1\n\ntoken = {secret}\n\n# the end of the settings\n")
}

fn result(block: &str) -> String {
    format!(r#"{{"content":[{block}]}}"#)
}

fn withheld(raw: &str, case: &Case<'_>, rules: &Rules) -> Vec<String> {
    let told = told(raw, case, rules);
    assert_eq!(
        told.outcome.as_ref().err().map(|withheld| withheld.code),
        Some(ReasonCode::WithheldSanitisation),
        "{raw}"
    );
    told.words()
}

#[test]
fn a_file_of_text_or_without_a_label_is_looked_into() {
    let data = base64(file(TOKEN).as_bytes());
    let escaped = data.replace('/', "\\/");
    for block in [
        format!(r#"{{"type":"resource","resource":{{"uri":"f:a","mimeType":"text/plain","blob":"{data}"}}}}"#),
        format!(r#"{{"type":"resource","resource":{{"uri":"f:a","blob":"{data}"}}}}"#),
        format!(r#"{{"type":"resource","resource":{{"blob":"{data}","mimeType":"application/json; charset=utf-8"}}}}"#),
        format!(
            r#"{{"type":"resource","resource":{{"uri":"f:a","mimeType":"application/octet-stream","blob":"{data}"}}}}"#
        ),
        format!(r#"{{"type":"resource","resource":{{"uri":"f:a","mimeType":"image/svg+xml","blob":"{escaped}"}}}}"#),
        format!(r#"{{"type":"image","data":"{data}"}}"#),
        format!(r#"{{"type":"audio","mimeType":"","data":"{data}"}}"#),
    ] {
        assert_eq!(
            withheld(&result(&block), &UNTRUSTED, &redacting()),
            ["blocked/detection/redaction_not_possible"],
            "{block}"
        );
        assert_eq!(
            withheld(&result(&block), &UNTRUSTED, &blocking()),
            ["blocked/detection"],
            "{block}"
        );
    }
}

#[test]
fn a_label_alone_makes_no_picture() {
    let data = base64(file(TOKEN).as_bytes());
    for block in [
        format!(r#"{{"type":"image","mimeType":"image/png","data":"{data}"}}"#),
        format!(r#"{{"type":"resource","resource":{{"mimeType":"application/pdf","blob":"{data}"}}}}"#),
        // Two labels: the one that says less counts.
        format!(r#"{{"type":"image","mimeType":"image/png","mimeType":"text/plain","data":"{data}"}}"#),
    ] {
        withheld(&result(&block), &UNTRUSTED, &redacting());
    }
    // A text that begins as pictures do is a text where it says so, or says nothing.
    let data = base64(format!("GIF89a\n{}", file(TOKEN)).as_bytes());
    for label in [r#""mimeType":"text/plain","#, ""] {
        let block = format!(r#"{{"type":"resource","resource":{{{label}"blob":"{data}"}}}}"#);
        withheld(&result(&block), &UNTRUSTED, &redacting());
    }
}

#[test]
fn what_hides_in_a_file_is_seen_as_elsewhere() {
    let (head, tail) = TOKEN.split_at(9);
    let wide: Vec<u8> = file(TOKEN).encode_utf16().flat_map(u16::to_le_bytes).collect();
    for bytes in [
        file(&format!("{head}\u{200b}{tail}")).into_bytes(),
        wide,
        file(&base64(TOKEN.as_bytes())).into_bytes(),
    ] {
        let block = format!(r#"{{"type":"resource","resource":{{"blob":"{}"}}}}"#, base64(&bytes));
        withheld(&result(&block), &UNTRUSTED, &redacting());
    }
    // Not base64 of anything, but in its alphabet.
    let token = TOKEN.replace("ghp_", "AKIA").to_uppercase();
    let block = format!(
        r#"{{"type":"resource","resource":{{"blob":"{}/{}"}}}}"#,
        token.get(..20).unwrap(),
        "A".repeat(80)
    );
    withheld(&result(&block), &UNTRUSTED, &redacting());
}

#[test]
fn files_of_resources_prompts_and_questions_are_looked_into_too() {
    let data = base64(file(TOKEN).as_bytes());
    let contents = format!(r#"{{"contents":[{{"uri":"f:a","mimeType":"text/csv","blob":"{data}"}}]}}"#);
    let image = format!(r#"{{"role":"user","content":{{"type":"image","data":"{data}"}}}}"#);
    let messages = format!(r#"{{"messages":[{image}]}}"#);
    for (raw, message) in [
        (&contents, Message::ResourceRead),
        (&messages, Message::PromptGet),
        (&messages, Message::Other),
    ] {
        withheld(raw, &Case { message, ..UNTRUSTED }, &redacting());
    }
}

#[test]
fn our_own_tokens_are_found_in_files_whatever_is_switched_on() {
    let token = format!("ptr_agt_{}", "0123456789abcdef".repeat(4));
    let text = file(&token);
    let units = || text.encode_utf16();
    let little: Vec<u8> = [0xff, 0xfe]
        .into_iter()
        .chain(units().flat_map(u16::to_le_bytes))
        .collect();
    let big: Vec<u8> = [0xfe, 0xff]
        .into_iter()
        .chain(units().flat_map(u16::to_be_bytes))
        .collect();
    for bytes in [
        text.clone().into_bytes(),
        little,
        big,
        base64(text.as_bytes()).into_bytes(),
    ] {
        let block = format!(r#"{{"type":"resource","resource":{{"blob":"{}"}}}}"#, base64(&bytes));
        withheld(&result(&block), &UNTRUSTED, &rules());
    }
}

#[test]
fn files_without_a_secret_leave_as_they_came() {
    let data = base64(file("none").as_bytes());
    let noise: Vec<u8> = (0..20_000_u32)
        .map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    let noise = base64(&noise);
    for block in [
        format!(r#"{{"type":"resource","resource":{{"uri":"f:a","mimeType":"text/plain","blob":"{data}"}}}}"#),
        format!(r#"{{"type":"image","mimeType":"image/png","data":"{noise}"}}"#),
        format!(r#"{{"type":"resource","resource":{{"uri":"f:a","blob":"{noise}"}}}}"#),
    ] {
        let raw = result(&block);
        assert_eq!(told(&raw, &UNTRUSTED, &redacting()).text(), raw);
    }
    // Lesser findings are told, and blocking lets them through.
    let block = format!(
        r#"{{"type":"resource","resource":{{"blob":"{}"}}}}"#,
        base64(file(&format!("\ncard {CARD}")).as_bytes())
    );
    let told = told(&result(&block), &UNTRUSTED, &blocking());
    assert_eq!(
        (told.text(), told.words()),
        (result(&block).as_str(), vec!["warning/detection".to_owned()])
    );
}
