//! CPU time of this thread or of the whole process, over rounds long enough to be told from noise.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

/// What a stage costs.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Figure {
    pub(crate) stage: String,
    pub(crate) min_us: f64,
    pub(crate) median_us: f64,
    /// The project's target for the median.
    pub(crate) most_us: Option<f64>,
    /// At the median, where the stage reads bytes.
    pub(crate) megabytes_per_second: Option<f64>,
}

/// Rounds of each stage.
const ROUNDS: usize = 15;
/// A round repeats a stage until about this much time is spent.
const ROUND_TIME: Duration = Duration::from_millis(20);

impl Figure {
    /// The cost of one `stage`, by the thread's CPU time.
    pub(crate) fn of<T>(stage: &str, mut run: impl FnMut() -> T) -> Self {
        let mut timed = |repeats: u32| {
            let before = spent(ClockId::ThreadCPUTime);
            for _ in 0..repeats {
                std::hint::black_box(run());
            }
            spent(ClockId::ThreadCPUTime).saturating_sub(before)
        };
        let repeats = fitting(&mut timed);
        let rounds = (0..ROUNDS)
            .map(|_| timed(repeats).as_secs_f64() * 1e6 / f64::from(repeats))
            .collect();
        Self::from_rounds(stage, rounds)
    }

    /// From the cost of one stage in each round, in microseconds.
    pub(crate) fn from_rounds(stage: &str, mut rounds: Vec<f64>) -> Self {
        rounds.sort_unstable_by(f64::total_cmp);
        let at = |place: usize| rounds.get(place).copied().unwrap_or(f64::NAN);
        let (min_us, median_us) = (at(0), at(rounds.len().saturating_sub(1) / 2));
        Self {
            stage: stage.to_owned(),
            min_us,
            median_us,
            most_us: None,
            megabytes_per_second: None,
        }
    }

    /// Whether the median is over its target.
    pub(crate) fn is_missed(&self) -> bool {
        self.most_us.is_some_and(|most| self.median_us > most)
    }

    /// With the project's target for the median.
    pub(crate) fn at_most(self, microseconds: f64) -> Self {
        Self {
            most_us: Some(microseconds),
            ..self
        }
    }

    /// With a target, if it is finite.
    pub(crate) fn under(self, microseconds: f64) -> Self {
        if microseconds.is_finite() {
            self.at_most(microseconds)
        } else {
            self
        }
    }

    /// With the speed at which so many bytes were read.
    pub(crate) fn reading(self, bytes: usize) -> Self {
        Self {
            megabytes_per_second: Some(bytes as f64 / self.median_us),
            ..self
        }
    }
}

/// CPU time of the whole process so far.
pub(crate) fn spent_by_process() -> Duration {
    spent(ClockId::ProcessCPUTime)
}

fn spent(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// How many repeats fill a round; warms up on the way.
fn fitting(timed: &mut impl FnMut(u32) -> Duration) -> u32 {
    let mut repeats = 1;
    while repeats < 1 << 24 && timed(repeats) < ROUND_TIME {
        repeats *= 2;
    }
    repeats
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_the_least_and_the_median_and_knows_its_target() {
        let figure = Figure::from_rounds("a stage", vec![3.0, 1.0, 2.0]).at_most(2.0);
        assert_eq!((figure.min_us, figure.median_us), (1.0, 2.0));
        assert!(!figure.is_missed() && figure.at_most(1.9).is_missed());
    }

    #[test]
    fn waiting_does_not_count() {
        let before = spent(ClockId::ThreadCPUTime);
        std::thread::sleep(Duration::from_millis(20));
        assert!(spent(ClockId::ThreadCPUTime) - before < Duration::from_millis(10));
    }
}
