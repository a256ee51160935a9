//! Drives the targets in turn, A B C, B C A, C A B, so that whatever else the machine does, and what
//! each leaves behind for the next, falls on all of them alike; compares each with `bare` within the
//! same round.

use std::io::Write;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::child;
use crate::client::Place;
use crate::generate::{Job, Round};
use crate::sample::Ask;

/// Something to drive.
pub(crate) struct Target {
    pub(crate) name: &'static str,
    pub(crate) place: Place,
    pub(crate) process: u32,
    pub(crate) afterwork_ms: u64,
    pub(crate) ask: Ask,
}

/// How to drive it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) rounds: usize,
    pub(crate) calls: u64,
    pub(crate) connections: usize,
    pub(crate) kilobytes: u32,
    pub(crate) seconds: u64,
}

/// A target under a load: medians over the rounds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Figures {
    pub(crate) target: String,
    /// CPU time of the proxy.
    pub(crate) cpu_us_per_call: f64,
    /// The median of the ratios to the first target, each within one round.
    pub(crate) ratio_to_bare: f64,
    pub(crate) calls_per_second: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    /// Every round's CPU time, so that the spread can be seen.
    pub(crate) cpu_us_of_each_round: Vec<f64>,
}

impl Figures {
    /// Whether this is what we ship, and not a floor.
    pub(crate) fn is_gateway(&self) -> bool {
        self.target.starts_with("portreeve")
    }
}

/// Drives all targets; the first is what the others are compared with.
pub(crate) fn drive(targets: &[Target], load: Load) -> Result<Vec<Figures>> {
    let mut rounds: Vec<Vec<Round>> = vec![Vec::new(); targets.len()];
    for number in 1..=load.rounds {
        let mut order: Vec<_> = targets.iter().zip(&mut rounds).collect();
        order.rotate_left((number - 1) % targets.len().max(1));
        for (target, kept) in order {
            let Load {
                calls,
                connections,
                kilobytes,
                seconds,
                ..
            } = load;
            let job = Job {
                place: target.place.clone(),
                process: target.process,
                afterwork_ms: target.afterwork_ms,
                kilobytes,
                ask: target.ask,
                connections,
                calls,
                seconds,
            };
            let round: Round = serde_json::from_str(&child::ask_part("generate", &serde_json::to_string(&job)?)?)?;
            let (name, of, cost) = (target.name, load.rounds, round.cpu_us_per_call);
            writeln!(
                std::io::stderr(),
                "{kilobytes} KB, round {number} of {of}: {name} {cost:.1} µs"
            )?;
            kept.push(round);
        }
    }
    let bare = rounds.first().cloned().unwrap_or_default();
    Ok(targets
        .iter()
        .zip(rounds)
        .map(|(target, rounds)| figures(target.name, &rounds, &bare))
        .collect())
}

fn figures(target: &str, rounds: &[Round], bare: &[Round]) -> Figures {
    let median_of = |part: fn(&Round) -> f64| median(rounds.iter().map(part).collect());
    let ratios = rounds
        .iter()
        .zip(bare)
        .map(|(round, bare)| round.cpu_us_per_call / bare.cpu_us_per_call);
    Figures {
        target: target.to_owned(),
        cpu_us_per_call: median_of(|round| round.cpu_us_per_call),
        ratio_to_bare: median(ratios.collect()),
        calls_per_second: median_of(|round| round.calls_per_second),
        p50_us: median_of(|round| round.p50_us),
        p99_us: median_of(|round| round.p99_us),
        cpu_us_of_each_round: rounds.iter().map(|round| round.cpu_us_per_call).collect(),
    }
}

/// The middle one; of an even number, the lower of the two.
pub(crate) fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_unstable_by(f64::total_cmp);
    numbers
        .get(numbers.len().saturating_sub(1) / 2)
        .copied()
        .unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(cost: f64) -> Round {
        Round {
            calls: 1,
            calls_per_second: 1.0,
            cpu_us_per_call: cost,
            p50_us: 1.0,
            p99_us: 1.0,
        }
    }

    #[test]
    fn a_target_is_compared_with_bare_round_by_round() {
        let bare = [20.0, 40.0, 20.0].map(round);
        let other = figures("other", &[40.0, 80.0, 60.0].map(round), &bare);
        assert_eq!((other.cpu_us_per_call, other.ratio_to_bare), (60.0, 2.0));
    }

    #[test]
    fn the_median_is_the_middle_one() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert!(median(Vec::new()).is_nan());
    }
}
