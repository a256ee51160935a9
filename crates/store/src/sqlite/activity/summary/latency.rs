//! How long requests took. Where many are counted, times are put into classes whose width grows with the time: what
//! stands for a class is within one part in 128 of every time in it. ADR 0088.

use std::collections::BTreeMap;

/// Times below this have a class each; above it every power of two is cut into as many.
const FINE: u64 = 64;
const FINE_BITS: u32 = 6;

/// Times in microseconds, and how often each was.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(super) struct Latency(BTreeMap<u64, u64>);

impl Latency {
    /// Counts a time.
    pub(super) fn add(&mut self, micros: u64, times: u64) {
        *self.0.entry(micros).or_default() += times;
    }

    /// Counts what another one counted.
    pub(super) fn merge(&mut self, other: &Self) {
        for (micros, times) in &other.0 {
            self.add(*micros, *times);
        }
    }

    /// The time that this share of a hundred did not exceed; `None` where nothing was counted.
    pub(super) fn percentile(&self, percent: u64) -> Option<u64> {
        let all: u64 = self.0.values().sum();
        let rank = all.saturating_mul(percent).div_ceil(100).max(1);
        let mut seen = 0;
        self.0.iter().find_map(|(micros, times)| {
            seen += times;
            (seen >= rank).then_some(*micros)
        })
    }

    /// As the index keeps it: times and counts, eight bytes each.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.0.len() * 16);
        for (micros, times) in &self.0 {
            bytes.extend_from_slice(&micros.to_be_bytes());
            bytes.extend_from_slice(&times.to_be_bytes());
        }
        bytes
    }

    /// Reads what [`Self::to_bytes`] wrote; `None` for other bytes.
    pub(super) fn from_bytes(mut bytes: &[u8]) -> Option<Self> {
        let mut times = BTreeMap::new();
        while let Some((micros, rest)) = bytes.split_first_chunk() {
            let (count, rest) = rest.split_first_chunk()?;
            times.insert(u64::from_be_bytes(*micros), u64::from_be_bytes(*count));
            bytes = rest;
        }
        bytes.is_empty().then_some(Self(times))
    }
}

/// The time that stands for all of its class.
pub(super) fn rounded(micros: u64) -> u64 {
    middle(class(micros))
}

fn class(micros: u64) -> u16 {
    let octave = micros.checked_ilog2().unwrap_or_default().saturating_sub(FINE_BITS);
    let within = micros >> octave;
    // At most 58 octaves of 64 classes, and one below them.
    u16::try_from(u64::from(octave) * FINE + within).unwrap_or(u16::MAX)
}

fn middle(class: u16) -> u64 {
    let class = u64::from(class);
    let octave = (class / FINE).saturating_sub(1);
    let within = class - octave * FINE;
    let Some(shift) = u32::try_from(octave).ok().filter(|shift| *shift < 58) else {
        return u64::MAX;
    };
    (within << shift) + ((1_u64 << shift) >> 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_back_is_within_one_part_in_128() {
        let mut micros = 0_u64;
        while micros < u64::MAX / 4 {
            let read = rounded(micros);
            assert!(
                read.abs_diff(micros) <= micros / 128 + u64::from(micros >= FINE),
                "{micros}: {read}"
            );
            assert!(class(micros + 1) >= class(micros), "{micros}");
            micros += micros / 37 + 1;
        }
        for small in 0..2 * FINE {
            assert_eq!(rounded(small), small);
        }
        assert!(class(u64::MAX) > class(u64::MAX / 2));
    }

    #[test]
    fn percentiles_are_those_of_the_nearest_rank() {
        let mut latency = Latency::default();
        assert_eq!(latency.percentile(50), None);
        for micros in 1..=100 {
            latency.add(micros, 1);
        }
        assert_eq!((latency.percentile(50), latency.percentile(99)), (Some(50), Some(99)));
        let mut few = Latency::default();
        few.add(7, 1);
        few.merge(&latency);
        assert_eq!((few.percentile(1), few.percentile(100)), (Some(2), Some(100)));
    }

    #[test]
    fn it_is_kept_as_bytes_and_nothing_else_is_read() {
        let mut latency = Latency::default();
        for micros in [0, 63, 64, 5_000, 1 << 40] {
            latency.add(micros, micros + 1);
        }
        let bytes = latency.to_bytes();
        assert_eq!(Latency::from_bytes(&bytes), Some(latency));
        assert_eq!(Latency::from_bytes(&bytes[1..]), None);
    }
}
