//! What the detector finds, where it says it lies, and what it leaves alone.

mod corpus;
mod disguises;
mod evasions;
mod families;
mod floods;
mod ordinary;
mod packs;
mod places;
mod properties;
mod quick;
mod speed;
mod windows;
mod work;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::pack::examples;
use super::sample::{Draw, fill};
use super::*;

pub(super) static DETECTOR: LazyLock<Detector> = LazyLock::new(|| Detector::embedded().expect("the embedded pack"));

pub(super) const NOBODY: Excuse<'static> = Excuse {
    server: "files",
    tool: "read",
};

/// A text as it stands in a JSON document.
pub(super) fn raw(text: &str) -> String {
    let quoted = serde_json::to_string(text).unwrap();
    let inner = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    inner.unwrap().to_owned()
}

/// What is found in blocks of text one behind the other.
fn in_blocks(texts: &[&str]) -> Vec<Finding> {
    let pieces: Vec<Piece<'_>> = texts
        .iter()
        .map(|raw| Piece {
            joins: Joins::Previous,
            ..text_piece(raw)
        })
        .collect();
    DETECTOR.find(&pieces, &NOBODY)
}

pub(super) fn text_piece(raw: &str) -> Piece<'_> {
    Piece {
        raw: raw.as_bytes(),
        name: None,
        joins: Joins::Nothing,
        kind: PieceKind::Text,
    }
}

pub(super) fn find(text: &str) -> Vec<Finding> {
    DETECTOR.find(&[text_piece(&raw(text))], &NOBODY)
}

fn rules(found: &[Finding]) -> Vec<&str> {
    found.iter().map(|finding| &*finding.rule).collect()
}

/// The raw bytes that a finding covers.
fn covered<'a>(pieces: &[&'a str], finding: &Finding) -> Vec<&'a str> {
    finding
        .parts
        .iter()
        .map(|(piece, range)| pieces[*piece].get(range.clone()).unwrap())
        .collect()
}

#[test]
fn every_rule_finds_its_examples_and_lets_its_counterexamples_pass() {
    let mut broken = Vec::new();
    for (id, _, examples) in examples(EMBEDDED) {
        for seed in 0..4 {
            for text in &examples.finds {
                let text = fill(&text.joined(), &mut Draw::new(seed));
                // The same bytes may be told by a graver rule of the same pack.
                let found = find(&text);
                if !rules(&found).contains(&id.as_str()) {
                    broken.push(format!("{id} does not find {text:?}: {:?}", rules(&found)));
                }
            }
            for text in &examples.passes {
                let text = fill(&text.joined(), &mut Draw::new(seed));
                if rules(&find(&text)).contains(&id.as_str()) {
                    broken.push(format!("{id} finds {text:?}"));
                }
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn the_pack_has_the_rules_that_are_promised() {
    let mut counts = BTreeMap::new();
    for category in Category::ALL {
        for redact in [Redact::Mask, Redact::DetectOnly] {
            let count = DETECTOR.count(category, redact);
            counts.insert((category.as_str(), redact == Redact::Mask), count);
        }
    }
    println!("{counts:?}");
    let total = |mask: bool| {
        counts
            .iter()
            .filter(|((_, masks), _)| *masks == mask)
            .map(|(_, count)| count)
            .sum::<usize>()
    };
    assert!(
        total(true) >= 80 && total(false) >= 40,
        "{} {}",
        total(true),
        total(false)
    );
    assert!(counts[&("high_entropy", true)] == 0 && counts[&("sensitive_file", true)] == 0);
}

// R073
#[test]
fn severities_and_categories_are_those_of_the_table() {
    for (text, category, severity, redact) in [
        ("AKIA{b32:16}", "cloud_credentials", "critical", Redact::Mask),
        ("AIza{url:35}", "cloud_credentials", "high", Redact::Mask),
        ("ghp_{crc}", "api_token", "critical", Redact::Mask),
        ("xoxb-{dig:12}-{dig:13}-{an:24}", "api_token", "high", Redact::Mask),
        (
            "postgres://a:{an:12}@h/d",
            "database_credential",
            "critical",
            Redact::Mask,
        ),
        ("{jwt}", "auth_token", "high", Redact::Mask),
        ("Bearer 1{an:30}", "auth_token", "medium", Redact::Mask),
        ("card {card:visa}", "credit_card", "high", Redact::Mask),
        ("api_key = \"{b64:64}\"", "high_entropy", "medium", Redact::DetectOnly),
        ("/etc/shadow", "sensitive_file", "info", Redact::DetectOnly),
    ] {
        let found = find(&fill(text, &mut Draw::new(7)));
        let [finding] = &found[..] else {
            panic!("{text}: {found:?}")
        };
        assert_eq!(
            (finding.category.as_str(), finding.severity.as_str()),
            (category, severity),
            "{text}"
        );
        assert_eq!(finding.redact, redact, "{text}");
    }
}

// R075
#[test]
fn documented_keys_test_cards_and_mentions_block_nothing() {
    for text in [
        concat!("AKIA", "IOSFODNN7EXAMPLE"),
        "pay with 4111 1111 1111 1111 or 5555-5555-5555-4444",
        "copy server.pem to /etc/ssl/server.pem",
        "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "Authorization: Bearer <token>",
        "postgres://user:${PASSWORD}@host/db",
        "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----",
        "[REDACTED:api_token] and postgres://u:[REDACTED:database_credential]@h/d",
    ] {
        let grave = find(text).into_iter().find(|finding| finding.redact == Redact::Mask);
        assert_eq!(grave, None, "{text}");
    }
}

#[test]
fn a_signed_link_is_told_and_stays() {
    let link = fill(
        "https://b.s3.amazonaws.com/k?X-Amz-Credential=AKIA{b32:16}%2F20261116&X-Amz-Signature={hex:64}",
        &mut Draw::new(3),
    );
    let found = find(&link);
    assert_eq!(rules(&found), ["aws-presigned-url"]);
    assert_eq!(
        (found[0].severity, found[0].redact),
        (Severity::Medium, Redact::DetectOnly)
    );
}

#[test]
fn a_number_is_a_card_only_under_a_name_that_says_so() {
    let card = fill("{card:visa}", &mut Draw::new(5));
    for (name, wanted) in [
        (Some("cardNumber"), 1),
        (Some("PAN"), 1),
        (Some("id"), 0),
        (Some("company"), 0),
        (None, 0),
    ] {
        let piece = Piece {
            raw: card.as_bytes(),
            name,
            joins: Joins::Nothing,
            kind: PieceKind::Number,
        };
        assert_eq!(DETECTOR.find(&[piece], &NOBODY).len(), wanted, "{name:?}");
    }
}

#[test]
fn bare_digits_in_a_text_are_a_card_only_where_something_speaks_of_cards() {
    let card = fill("{card:visa}", &mut Draw::new(5));
    let cards = |text: &str| {
        let found = find(text);
        found
            .iter()
            .filter(|finding| finding.category == Category::CreditCard)
            .count()
    };
    for text in [
        "order 0 was shipped",
        r#"{"id": 0, "parent": "0"}"#,
        "discard 0\ncardinality: 0",
        "trace_id=0",
        "0",
    ] {
        assert_eq!(cards(&text.replace('0', &card)), 0, "{text}");
    }
    for text in [
        "card 0",
        "my credit-card number is 0, thanks",
        r#"{"card": {"number": "0"}}"#,
        "- name: CARD_NUMBER\n  value: \"0\"",
        "CC_NUMBER=0",
        "pan: 0",
        "VISA 0",
        "kreditkarte: 0",
        "cardNumber = '0'",
    ] {
        assert_eq!(cards(&text.replace('0', &card)), 1, "{text}");
    }
    let grouped: Vec<_> = card.as_bytes().chunks(4).map(String::from_utf8_lossy).collect();
    assert_eq!(cards(&format!("id {}", grouped.join(" "))), 1);
    assert_eq!(cards(&format!("id {}", grouped.join("-"))), 1);
    assert_eq!(cards(&format!("id {} 2027", grouped.join(" "))), 1);
    assert_eq!(cards(&format!("7BC3 {} 9B45", grouped.join(" "))), 0, "a table");
    let string = |name| {
        let piece = Piece {
            name: Some(name),
            ..text_piece(&card)
        };
        DETECTOR.find(&[piece], &NOBODY).len()
    };
    assert_eq!([string("cardNumber"), string("number"), string("id")], [1, 1, 0]);
}

#[test]
fn a_name_gives_a_value_its_meaning() {
    let secret = fill("{b64:40}", &mut Draw::new(9));
    for (name, wanted) in [("aws_secret_access_key", 1), ("SecretAccessKey", 1), ("digest", 0)] {
        let piece = Piece {
            name: Some(name),
            ..text_piece(&secret)
        };
        let found = DETECTOR.find(&[piece], &NOBODY);
        let grave: Vec<_> = found.iter().filter(|finding| finding.redact == Redact::Mask).collect();
        assert_eq!(grave.len(), wanted, "{name}");
        assert!(
            grave.iter().all(|finding| finding.parts == [(0, 0..secret.len())]),
            "{name}"
        );
    }
}
