//! Whether a text is random enough, told without a logarithm for each of its characters.

use std::sync::LazyLock;

/// Whether `bytes` have more than `bits` of Shannon entropy a character.
pub(super) fn is_over(bytes: &[u8], bits: f64) -> bool {
    // Close to the bound rounding decides, and it has to decide as it always did.
    match estimate(bytes).filter(|estimate| (estimate - bits).abs() > CLOSE) {
        Some(estimate) => estimate > bits,
        None => entropy(bytes) > bits,
    }
}

/// The entropy but for an error of rounding; `None` if a character comes too often.
fn estimate(bytes: &[u8]) -> Option<f64> {
    let steps: &[f64; MOST] = &STEPS;
    let mut counts = [0_u8; 256];
    let mut sum = 0.0;
    for byte in bytes {
        let count = counts.get_mut(usize::from(*byte))?;
        sum += steps.get(usize::from(*count))?;
        *count = count.checked_add(1)?;
    }
    let length = f64::from(u32::try_from(bytes.len()).ok().filter(|length| *length > 0)?);
    Some(length.log2() - sum / length)
}

/// Shannon entropy in bits per character.
fn entropy(bytes: &[u8]) -> f64 {
    let mut counts = [0_u32; 256];
    for byte in bytes {
        if let Some(count) = counts.get_mut(usize::from(*byte)) {
            *count += 1;
        }
    }
    let length = f64::from(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
    let shares = counts
        .iter()
        .filter(|count| **count > 0)
        .map(|count| f64::from(*count) / length);
    -shares.map(|share| share * share.log2()).sum::<f64>()
}

/// By how much `n log n` grows when a character comes once more.
static STEPS: LazyLock<[f64; MOST]> = LazyLock::new(|| {
    let weight = |count: f64| if count > 0.0 { count * count.log2() } else { 0.0 };
    let mut count = 0.0;
    [0.0; MOST].map(|_: f64| {
        let step = weight(count + 1.0) - weight(count);
        count += 1.0;
        step
    })
});

/// How often a character may come in an estimate.
const MOST: usize = 256;

/// Far more than all rounding together.
const CLOSE: f64 = 1e-6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_tells_the_same_as_the_whole_sum() {
        let mut state = 1_u32;
        for length in 0..600_usize {
            for alphabet in [1, 2, 8, 9, 16, 23, 24, 64, 256] {
                let mut next = || {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    u8::try_from((state >> 16) % alphabet).unwrap()
                };
                let drawn: Vec<u8> = (0..length).map(|_| next()).collect();
                let even: Vec<u8> = (0..length).map(|at| u8::try_from(at % 251).unwrap() % 8).collect();
                for text in [drawn, even] {
                    for bits in [3.0, 3.7, 4.5] {
                        assert_eq!(is_over(&text, bits), entropy(&text) > bits, "{bits} {text:?}");
                    }
                }
            }
        }
    }
}
