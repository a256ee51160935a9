//! How long a server that says that its lists changed waits until it is asked again: a moment at first, longer and longer for one
//! that keeps saying so, so that no server keeps the gateway busy with it.

use std::time::{Duration, Instant};

/// See the module.
#[derive(Default)]
pub(super) struct Breather {
    told: u32,
    last: Option<Instant>,
}

impl Breather {
    /// How long to wait now that the server says so again.
    pub(super) fn next(&mut self, now: Instant) -> Duration {
        let wait = |told: u32| {
            let doublings = told.saturating_sub(FREELY).min(16);
            (SHORTEST * (1 << doublings)).min(LONGEST)
        };
        let quiet_for = self.last.map(|last| now.saturating_duration_since(last));
        if quiet_for.is_none_or(|quiet| quiet >= QUIET.max(2 * wait(self.told))) {
            self.told = 0;
        }
        self.told = self.told.saturating_add(1);
        let wait = wait(self.told);
        // The wait itself is no quiet.
        self.last = Some(now + wait);
        wait
    }
}

const SHORTEST: Duration = Duration::from_millis(150);
const LONGEST: Duration = Duration::from_secs(30);
/// So often it waits no longer than the shortest time.
const FREELY: u32 = 8;
/// Who says nothing for this long is met anew.
const QUIET: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    /// How often a server is asked that says all the time that something changed.
    fn asked_within(time: Duration) -> usize {
        let (start, mut breather) = (Instant::now(), Breather::default());
        let mut now = start;
        let mut asked = 0;
        while now < start + time {
            now += breather.next(now);
            asked += 1;
        }
        asked
    }

    #[test]
    fn a_storm_is_asked_about_less_and_less_often() {
        assert_eq!(asked_within(Duration::from_secs(1)), 7);
        assert!(
            asked_within(Duration::from_secs(60)) <= 18,
            "{}",
            asked_within(Duration::from_secs(60))
        );
        let hour = asked_within(Duration::from_secs(3600));
        assert!((100..=140).contains(&hour), "twice a minute in the long run, {hour}");
    }

    #[test]
    fn a_server_that_was_quiet_is_asked_at_once() {
        let (mut now, mut breather) = (Instant::now(), Breather::default());
        for _ in 0..30 {
            now += breather.next(now);
        }
        assert_eq!(breather.next(now), LONGEST);
        now += 4 * LONGEST;
        assert_eq!(breather.next(now), SHORTEST);
        now += QUIET + SHORTEST;
        assert_eq!(breather.next(now), SHORTEST);
    }
}
