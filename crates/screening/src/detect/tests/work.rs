//! What rules may read of one message is bounded, by counting and not by a clock; beyond it nothing is let through.

use super::super::work::{EACH, FREE, MOST, Work};
use super::*;

/// Text that wakes every rule everywhere.
fn flood(length: usize) -> String {
    let all = pack::keywords(EMBEDDED).join(" ");
    all.repeat(length.div_ceil(all.len()))
}

#[test]
fn no_message_may_cost_more_than_the_most() {
    assert_eq!(Work::of(0).left(), FREE);
    assert_eq!(Work::of(1_000).left(), FREE + EACH * 1_000);
    assert_eq!(Work::of(64 << 20).left(), MOST);
    assert_eq!(Work::of(usize::MAX).left(), MOST);
}

#[test]
fn ordinary_text_does_not_come_to_the_bound() {
    for kind in 0..16 {
        let text: String = (0..40).map(|round| ordinary::text(kind + 16 * round)).collect();
        let text = raw(&text);
        let mut work = Work::of(text.len());
        let _ = DETECTOR.find_with(&[text_piece(&text)], &NOBODY, &mut work);
        println!("{kind}: {:.1} for each byte", work.spent() as f64 / text.len() as f64);
        assert!(
            work.spent() <= EACH * text.len(),
            "{kind}: {} of {}",
            work.spent(),
            text.len()
        );
    }
}

#[test]
fn no_text_costs_more_than_it_may() {
    let length = 64 << 10;
    let mut texts = vec![flood(length)];
    texts.extend(speed::SLOW_SEEDS.map(|(_, seed)| seed.repeat(length.div_ceil(seed.len()))));
    let mut stopped = 0;
    for text in texts {
        let text = raw(&text);
        let bound = 4 * text.len();
        let mut work = Work::within(bound);
        let _ = DETECTOR.find_with(&[text_piece(&text)], &NOBODY, &mut work);
        assert!(work.spent() <= bound, "{} of {bound}", work.spent());
        stopped += usize::from(work.left() == 0);
    }
    assert!(stopped >= 6, "{stopped}");
}

#[test]
fn behind_the_bound_what_could_be_a_secret_counts_as_one() {
    let token = fill("ghp_{crc}", &mut Draw::new(8));
    let key = fill("aws_secret_access_key = {b64:40}", &mut Draw::new(8));
    let text = raw(&format!("{} {token} and {key} and more", flood(64 << 10)));
    let found = DETECTOR.find_with(&[text_piece(&text)], &NOBODY, &mut Work::within(64 << 10));
    let masked: Vec<_> = found.iter().filter(|finding| finding.redact == Redact::Mask).collect();
    for secret in [token.as_str(), key.get(key.len() - 40..).unwrap()] {
        let start = text.find(secret).unwrap();
        let covers = |finding: &&Finding| {
            let (_, range) = &finding.parts[0];
            range.start <= start && range.end >= start + secret.len()
        };
        assert!(masked.iter().copied().any(|finding| covers(&finding)), "{secret}");
    }
}

#[test]
fn the_strings_of_a_message_share_its_work() {
    let text = raw(&flood(16 << 10));
    let mut alone = Work::of(text.len());
    let _ = DETECTOR.find_with(&[text_piece(&text)], &NOBODY, &mut alone);
    let mut shared = Work::within(2 * alone.spent());
    for _ in 0..4 {
        let _ = DETECTOR.find_with(&[text_piece(&text)], &NOBODY, &mut shared);
    }
    assert!(
        shared.spent() <= 2 * alone.spent(),
        "{} {}",
        shared.spent(),
        alone.spent()
    );
    assert_eq!(shared.left(), 0);
}
