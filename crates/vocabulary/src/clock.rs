//! Wall-clock time, from one place, so that tests can turn it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// A moment: microseconds since 1970-01-01 UTC. Displays as RFC 3339 with six decimals.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The moment `micros` microseconds after the epoch.
    #[must_use]
    pub fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since the epoch.
    #[must_use]
    pub fn as_micros(self) -> i64 {
        self.0
    }

    /// Whole seconds since the epoch.
    #[must_use]
    pub fn as_seconds(self) -> i64 {
        self.0.div_euclid(1_000_000)
    }

    /// This moment moved by `duration` into the future.
    #[must_use]
    pub fn plus(self, duration: std::time::Duration) -> Self {
        Self(
            self.0
                .saturating_add(i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)),
        )
    }

    /// Reads an RFC 3339 time.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        text.parse::<jiff::Timestamp>()
            .ok()
            .map(|time| Self(time.as_microsecond()))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_microsecond(self.0) {
            Ok(time) => write!(f, "{time:.6}"),
            Err(_) => write!(f, "{}", self.0),
        }
    }
}

/// Where the time comes from: the system, or a hand a test can move.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    System,
    Set(Arc<AtomicI64>),
}

impl Clock {
    /// The machine's clock.
    #[must_use]
    pub fn system() -> Self {
        Self(Source::System)
    }

    /// A clock that stands at `start` until [`Clock::turn_to`] moves it.
    #[must_use]
    pub fn standing_at(start: Timestamp) -> Self {
        Self(Source::Set(Arc::new(AtomicI64::new(start.0))))
    }

    /// Moves a standing clock; the system's clock ignores it.
    pub fn turn_to(&self, time: Timestamp) {
        if let Source::Set(hand) = &self.0 {
            hand.store(time.0, Ordering::SeqCst);
        }
    }

    /// The time now.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Source::System => Timestamp(jiff::Timestamp::now().as_microsecond()),
            Source::Set(hand) => Timestamp(hand.load(Ordering::SeqCst)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rfc_3339_in_utc_with_six_decimals() {
        let time = Timestamp::from_micros(1_794_744_000_123_456);
        assert_eq!(time.to_string(), "2026-11-15T12:00:00.123456Z");
        assert_eq!(Timestamp::parse("2026-11-15T12:00:00.123456Z"), Some(time));
        assert_eq!(Timestamp::from_micros(0).to_string(), "1970-01-01T00:00:00.000000Z");
    }

    #[test]
    fn a_standing_clock_moves_only_when_told() {
        let clock = Clock::standing_at(Timestamp::from_micros(5));
        assert_eq!(clock.now(), Timestamp::from_micros(5));
        clock.turn_to(Timestamp::from_micros(9));
        assert_eq!(clock.clone().now(), Timestamp::from_micros(9));
    }
}
