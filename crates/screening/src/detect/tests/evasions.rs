//! Texts made so that a secret in them reads like something else.

use super::*;

fn token() -> String {
    fill("ghp_{crc}", &mut Draw::new(7))
}

/// What is found in one text: the rules.
fn found_in(raw: &str) -> Vec<String> {
    let found = DETECTOR.find(&[text_piece(raw)], &NOBODY);
    found.iter().map(|finding| finding.rule.to_string()).collect()
}

#[test]
fn what_a_secret_touches_only_for_the_machine_hides_nothing() {
    let token = token();
    let (head, tail) = token.split_at(20);
    let ((first, others), second) = (token.split_at(4), token.get(4..9).unwrap());
    let rest = others.get(5..).unwrap();
    for raw in [
        format!("{head}\u{200b}{tail}\u{200b}word"),
        format!("word\u{200b}{head}\u{200b}{tail}"),
        format!("word\u{200b}{head}\u{200b}{tail}\u{200b}word"),
        format!("T={head}\\u001b[K{tail}\\u001b[K\\u001b[0mHOME=/root"),
    ] {
        let found = DETECTOR.find(&[text_piece(&raw)], &NOBODY);
        assert_eq!(rules(&found), ["github-personal-token"], "{raw}");
        let [(_, range)] = found[0].parts.as_slice() else {
            panic!("{raw}")
        };
        let covered = raw.get(range.clone()).unwrap();
        assert!(covered.starts_with(head) && covered.ends_with(tail), "{covered}");
    }
    for texts in [
        vec![head, tail, "and more"],
        vec!["before", head, tail, "and more"],
        vec!["x", first, second, rest, "y"],
    ] {
        let found = in_blocks(&texts);
        assert_eq!(rules(&found), ["github-personal-token"], "{texts:?}");
    }
    assert!(
        found_in(&format!("{token}word")).is_empty(),
        "as anywhere else, a longer word is another word"
    );
}

#[test]
fn borders_without_end_cost_no_more_than_a_mask() {
    let flood = "ghp_\u{200b}".repeat(200_000);
    let found = DETECTOR.find(&[text_piece(&flood)], &NOBODY);
    assert!(!found.is_empty(), "what cannot be looked through is not let through");
}

#[test]
fn a_word_behind_a_live_token_does_not_excuse_it() {
    let mut draw = Draw::new(3);
    for template in [
        "sk-ant-api03-{url:80}",
        "ghs_{an:36}",
        "glpat-{an:26}",
        "sk-proj-{an:60}",
    ] {
        let live = fill(template, &mut draw);
        for behind in ["", "-example", "_redacted", "-your-token", "....", "xxxxxxxxxxxx"] {
            let text = format!("using {live}{behind} now");
            assert!(!found_in(&text).is_empty(), "{text}");
        }
    }
    for placeholder in [
        "sk-ant-api03-your-key-goes-here-xxxxxxxxxxxx",
        "glpat-xxxxxxxxxxxxxxxxxxxx",
        "ghs_example_example_example_example_example",
    ] {
        assert!(found_in(placeholder).is_empty(), "{placeholder}");
    }
}

#[test]
fn a_flood_of_placeholders_hides_nothing_behind_it() {
    let live = fill("sk-ant-api03-{url:80}", &mut Draw::new(9));
    let placeholder = format!("sk-ant-{}", "x".repeat(60));
    for flood in [0, 3_000] {
        let text = format!("{}{placeholder}-{live}", format!("{placeholder} ").repeat(flood));
        let found = DETECTOR.find(&[text_piece(&text)], &NOBODY);
        let place = text.len() - live.len() / 2;
        let covers = |finding: &Finding| finding.parts.iter().any(|(_, range)| range.contains(&place));
        assert!(found.iter().any(covers), "after {flood}");
    }
}

#[test]
fn a_private_key_is_found_whole_however_its_lines_are_dressed() {
    let mut draw = Draw::new(5);
    let lines: Vec<String> = (0..24).map(|_| fill("{b64:64}", &mut draw)).collect();
    let key = lines.concat();
    let short: Vec<&str> = key
        .as_bytes()
        .chunks(15)
        .map(|line| std::str::from_utf8(line).unwrap())
        .collect();
    let (begin, end) = ("-----BEGIN RSA PRIVATE KEY-----", "-----END RSA PRIVATE KEY-----");
    let numbered: Vec<String> = lines
        .iter()
        .enumerate()
        .map(|(number, line)| format!("{number:6}\t{line}"))
        .collect();
    for (what, text) in [
        ("plain", format!("{begin}\n{}\n{end}", lines.join("\n"))),
        ("without an end", format!("{begin}\n{}", lines.join("\n"))),
        (
            "a false end first",
            format!("{begin}\n-----END x-----\n{}", lines.join("\n")),
        ),
        (
            "a false end within",
            format!(
                "{begin}\n{}\n-----END x-----\n{}\n{end}",
                lines[0],
                lines[1..].join("\n")
            ),
        ),
        ("blanks", format!("{begin}\n{}\n{}", " ".repeat(700), lines.join("\n"))),
        ("short lines", format!("{begin}\n{}", short.join("\n"))),
        (
            "short lines and an end",
            format!("{begin}\n{}\n{end}", short.join("\n")),
        ),
        ("numbered", format!("{begin}\n{}", numbered.join("\n"))),
        ("quoted", format!("> {begin}\n> {}", lines.join("\n> "))),
        ("in a page", format!("{begin}<br>\n{}", lines.join("<br>\n"))),
    ] {
        let text = raw(&text);
        let found = DETECTOR.find(&[text_piece(&text)], &NOBODY);
        let keys: Vec<_> = found
            .iter()
            .filter(|finding| finding.category == Category::PrivateKey)
            .collect();
        assert_eq!(keys.len(), 1, "{what}");
        let covered = text.get(keys[0].parts[0].1.clone()).unwrap();
        for line in if what.starts_with("short") {
            short.iter().map(|line| line.to_string()).collect()
        } else {
            lines.clone()
        } {
            assert!(covered.contains(&line), "{what}: {line}");
        }
    }
    let two = format!(
        "{begin}\n{}\n{end}\nwords between\n{begin}\n{}\n{end}",
        lines[0..12].join("\n"),
        lines[12..].join("\n")
    );
    assert_eq!(found_in(&raw(&two)).len(), 2);
    assert!(
        found_in("how to write -----BEGIN RSA PRIVATE KEY----- and then -----END RSA PRIVATE KEY----- by hand")
            .is_empty()
    );
}

#[test]
fn a_name_is_read_as_it_is_seen() {
    let value = fill("{b64:40}", &mut Draw::new(4));
    for name in [
        "aws_secret_access_key",
        "aws_secret\u{200b}_access_key",
        "aws\u{ad}_secret_access_key",
    ] {
        let piece = Piece {
            name: Some(name),
            ..text_piece(&value)
        };
        assert!(!DETECTOR.find(&[piece], &NOBODY).is_empty(), "{name}");
    }
}
