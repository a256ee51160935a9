//! Long runs of base64, hex and percent escapes are looked at to their end.

use super::super::sample::base64;
use super::*;

/// A text that nothing is wrong with, of about as many bytes.
fn filler(length: usize) -> String {
    "All happy families are alike; each unhappy family is unhappy in its own way.\n".repeat(length / 78 + 1)
}

fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

fn percent(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

fn masks(raw: &str) -> Vec<Finding> {
    let mut found = DETECTOR.find(&[text_piece(raw)], &NOBODY);
    found.retain(|finding| finding.redact == Redact::Mask);
    found
}

#[test]
fn a_secret_is_found_wherever_it_stands_in_a_long_run() {
    let token = fill("ghp_{crc}", &mut Draw::new(3));
    for before in [0, 1, 6_000, 6_100, 12_261, 12_262, 12_263, 70_000, 200_000] {
        let mut head = filler(before);
        head.truncate(before);
        let text = format!("{head} {token} {}", filler(9_000));
        for run in [base64(&text), hex(&text), percent(&text)] {
            let raw = format!("see {run} there");
            let found = masks(&raw);
            let whole = vec![(0, 4..4 + run.len())];
            assert!(
                found.iter().any(|finding| finding.parts == whole),
                "{before} {}: {found:?}",
                run.get(..8).unwrap()
            );
        }
    }
}

#[test]
fn no_amount_of_readable_text_before_it_hides_a_secret() {
    let token = fill("ghp_{crc}", &mut Draw::new(4));
    let harmless = base64(&filler(6_000));
    let raw = format!(
        "{}{}",
        format!("{harmless} ").repeat(40),
        base64(&format!("the token {token}"))
    );
    let found = masks(&raw);
    assert_eq!(found.len(), 1, "{found:?}");
}

#[test]
fn a_key_that_is_longer_than_a_window_is_masked_whole() {
    let key = fill(
        "-----BEGIN RSA PRIVATE KEY-----\n{pem:60}\n-----END RSA PRIVATE KEY-----\n",
        &mut Draw::new(5),
    );
    let run = base64(&format!("{}{key}{key}{key}", filler(5_500)));
    let found = masks(&run);
    assert_eq!(
        found.first().map(|finding| finding.parts.clone()),
        Some(vec![(0, 0..run.len())])
    );
}

#[test]
fn long_runs_of_noise_are_left_alone() {
    for seed in 0..8 {
        let draw = &mut Draw::new(seed);
        let noise = fill(&"{b64:4096}".repeat(60), draw);
        let digits = fill(&"{hex:4096}".repeat(60), draw);
        assert_eq!(
            (rules(&masks(&noise)), rules(&masks(&digits))),
            (vec![], vec![]),
            "{seed}"
        );
    }
}
