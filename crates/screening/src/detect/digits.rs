//! Finds runs of digits that are long enough for a card number, without reading every byte.

use std::ops::Range;

/// Gives each run of at least [`FEWEST`] digits, single spaces and hyphens between them allowed.
pub(super) fn each(text: &[u8], mut give: impl FnMut(Range<usize>)) {
    let mut at = 0;
    // In a run of that length every two neighbours hold a digit, so probing two bytes in each stretch misses none.
    while let Some(&[one, other]) = text.get(at + FEWEST - 2..at + FEWEST) {
        if !one.is_ascii_digit() && !other.is_ascii_digit() {
            at += FEWEST - 1;
            continue;
        }
        let head = text.get(at..at + FEWEST).unwrap_or_default();
        let start = at + head.len() - run_length(head.iter().rev());
        let length = run_length(text.get(start..).unwrap_or_default().iter());
        let run = start..start + length;
        let digits = text
            .get(run.clone())
            .unwrap_or_default()
            .iter()
            .filter(|byte| byte.is_ascii_digit());
        if digits.count() >= FEWEST {
            // One byte more, so that a pattern sees what follows.
            give(run.start..(run.end + 1).min(text.len()));
        }
        at = run.end.max(at + 1);
    }
}

/// How far digits with single separators between them go.
fn run_length<'a>(bytes: impl Iterator<Item = &'a u8>) -> usize {
    let mut after_digit = true;
    bytes
        .take_while(|byte| {
            let digit = byte.is_ascii_digit();
            let goes_on = digit || (after_digit && matches!(byte, b' ' | b'-'));
            after_digit = digit;
            goes_on
        })
        .count()
}

/// Digits of the shortest card number.
const FEWEST: usize = 13;
