//! Findings lie where the secret lies in the raw bytes, whatever hides it.

use super::*;

fn token() -> String {
    fill("ghp_{crc}", &mut Draw::new(11))
}

fn whole(raw: &str) -> Vec<Vec<&str>> {
    let found = DETECTOR.find(&[text_piece(raw)], &NOBODY);
    found.iter().map(|finding| covered(&[raw], finding)).collect()
}

#[test]
fn a_plain_token_is_covered_exactly() {
    let token = token();
    let raw = format!("see {token}, then");
    assert_eq!(whole(&raw), [[token.as_str()]]);
}

#[test]
fn escapes_and_what_is_hidden_inside_go_with_the_secret() {
    let token = token();
    let (head, tail) = token.split_at(9);
    for joint in [
        r"\u200b",
        "\u{200b}",
        r"\u001b[31m",
        r"\u001b]0;title\u0007",
        r"\\u001b[0m",
        r"\u009b1;2:3m",
        r"\udb40\udc41",
        "\u{e0041}",
        "\u{fe0f}\u{fe0f}",
        r"\u0000",
        r"\u007f",
        "\u{ad}",
        r"\u202e",
        r"\u001bP1;2|x\u001b\\",
        r"\b",
    ] {
        let secret = format!("{head}{joint}{tail}");
        assert_eq!(whole(&format!("a\\n{secret} z")), [[secret.as_str()]], "{joint}");
    }
}

#[test]
fn a_secret_in_a_control_sequence_is_found_although_stripping_would_take_it() {
    let token = token();
    for raw in [
        format!(r"x\u001b]0;{token}\u0007y"),
        format!(r"x\u001b[{token} y"),
        format!(r"\u001b]8;;{token}"),
    ] {
        assert_eq!(whole(&raw), [[token.as_str()]], "{raw}");
    }
}

#[test]
fn both_levels_of_escapes_are_read() {
    let token = token();
    let outer: String = token
        .chars()
        .map(|sign| format!("\\u{:04x}", u32::from(sign)))
        .collect();
    let inner: String = token
        .chars()
        .map(|sign| format!("\\\\u{:04x}", u32::from(sign)))
        .collect();
    assert_eq!(whole(&outer), [[outer.as_str()]]);
    assert_eq!(whole(&inner), [[inner.as_str()]]);
    let text = format!(r#"{{"a":"line\n{token}"}}"#);
    let escaped = raw(&text);
    assert_eq!(whole(&escaped), [[token.as_str()]]);
}

#[test]
fn a_secret_over_several_blocks_is_masked_in_each() {
    let token = token();
    let (head, rest) = token.split_at(5);
    let (middle, tail) = rest.split_at(15);
    let pieces = [format!("begin {head}"), middle.to_owned(), format!("{tail} end")];
    let texts: Vec<&str> = pieces.iter().map(String::as_str).collect();
    let found = in_blocks(&texts);
    assert_eq!(found.len(), 1);
    assert_eq!(covered(&texts, &found[0]), [head, middle, tail]);
    let apart: Vec<_> = texts.iter().map(|raw| text_piece(raw)).collect();
    assert_eq!(DETECTOR.find(&apart, &NOBODY), []);
    // What lies in one block is told once, also when the block before it ends in a letter.
    let key = fill("sk-{an:48}", &mut Draw::new(2));
    let texts = ["task", key.as_str()];
    let found = in_blocks(&texts);
    assert_eq!(
        found.iter().map(|finding| covered(&texts, finding)).collect::<Vec<_>>(),
        [[key.as_str()]]
    );
}

#[test]
fn an_encoded_secret_masks_its_run() {
    let token = token();
    let base64 = sample::base64(&format!("token {token}."));
    let hex: String = token.bytes().map(|byte| format!("{byte:02x}")).collect();
    let percent: String = token.bytes().map(|byte| format!("%{byte:02X}")).collect();
    for run in [
        base64.clone(),
        base64.replace('=', ""),
        hex.clone(),
        hex.to_uppercase(),
        percent,
    ] {
        assert_eq!(whole(&format!("see: {run} there")), [[run.as_str()]], "{run}");
    }
    let path = format!("https://a.b/c/{}", base64.replace('=', ""));
    assert_eq!(whole(&path).len(), 1, "a path before the run shifts it");
    let long = sample::base64(&format!("{} {token} {}", "a ".repeat(90), "b ".repeat(90)));
    let lines: Vec<&str> = long
        .as_bytes()
        .chunks(76)
        .map(|line| std::str::from_utf8(line).unwrap())
        .collect();
    let wrapped = lines.join("\\n");
    assert_eq!(whole(&wrapped), [[wrapped.as_str()]]);
}

#[test]
fn a_private_key_is_masked_whole() {
    let key = fill(
        "-----BEGIN RSA PRIVATE KEY-----\n{pem:12}\n-----END RSA PRIVATE KEY-----",
        &mut Draw::new(4),
    );
    let raw = raw(&format!("key:\n{key}\nafter"));
    assert_eq!(whole(&raw), [[super::raw(&key).as_str()]]);
    let cut = fill("-----BEGIN RSA PRIVATE KEY-----\n{pem:3}", &mut Draw::new(4));
    let raw = super::raw(&format!("{cut}\nand then some words"));
    assert_eq!(whole(&raw), [[super::raw(&cut).as_str()]]);
    let account = serde_json::json!({"type": "service_account", "private_key": key, "client_email": "a@b"}).to_string();
    let raw = super::raw(&account);
    let found = whole(&raw);
    assert_eq!(found.len(), 1);
    assert!(
        found[0][0].starts_with("-----BEGIN") && found[0][0].ends_with("KEY-----"),
        "{found:?}"
    );
}

#[test]
fn only_the_password_of_an_address_goes() {
    assert_eq!(whole("postgres://app:hunter2@db:5432/x"), [["hunter2"]]);
    assert_eq!(whole("redis://:p@ss@cache:6379/0"), [["p@ss"]]);
    assert_eq!(whole("mongodb+srv://u:pä55@h/d"), [["pä55"]]);
}
