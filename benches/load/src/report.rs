//! One run from start to end: starts the targets, drives them, prints the tables, keeps the
//! figures, and compares them with the targets of the project.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, ensure};
use portreeve_load::results;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::child::{self, Started};
use crate::client::Place;
use crate::cold_start::{self, ColdStart};
use crate::gateway::{Output, Prepared, Rule};
use crate::rounds::{self, Figures, Load, Target};
use crate::sample::Ask;
use crate::{Plan, cpu, sample};

/// The whole call with a 1 KB result, as a multiple of `bare`.
const MOST_TIMES_BARE: f64 = 2.5;
/// The whole call with a 100 KB result, as a multiple of `split`.
const MOST_TIMES_SPLIT: f64 = 1.3;
/// The whole call with a 100 KB result, judged, looked through and fenced, as a multiple of `tree`.
const MOST_TIMES_TREE: f64 = 1.0;
/// A tool without a schema, as a multiple of the same with nothing switched on.
const MOST_TIMES_OFF: f64 = 1.1;
/// The gateway as it comes, with everything switched off, and with everything switched on.
const DEFAULTS: &str = "portreeve";
const OFF: &str = "portreeve, output unjudged";
const EVERYTHING: &str = "portreeve, everything on";
/// From the start of the process to the first answered call.
const SLOWEST_START_MS: f64 = 300.0;
/// The gateway indexes its ledger once a second; that work counts too.
const INDEXED_WITHIN_MS: u64 = 1_300;
/// The load the first target speaks of.
const SMALL_CALLS: &str = "1 KB result";
/// The load the second target speaks of.
const LARGE_CALLS: &str = "100 KB result";
/// The load whose cost is dominated by waking up: information only.
const ONE_AT_A_TIME: &str = "1 KB result, one call at a time";
/// A call may grow dearer by a tenth before it counts as a regression.
const MOST_GROWTH: f64 = 1.1;

/// What a run found.
#[derive(Serialize, Deserialize)]
struct Run {
    connections: usize,
    calls: u64,
    rounds: usize,
    loads: Vec<Table>,
    cold_starts: Vec<Start>,
    memory: Vec<Memory>,
}

#[derive(Serialize, Deserialize)]
struct Table {
    load: String,
    targets: Vec<Figures>,
}

#[derive(Serialize, Deserialize)]
struct Start {
    state_directory: String,
    #[serde(flatten)]
    time: ColdStart,
}

#[derive(Serialize, Deserialize)]
struct Memory {
    target: String,
    peak_kilobytes: u64,
}

/// Runs everything. Figures that missed a target are not kept when targets are checked.
pub(crate) fn run(plan: &Plan) -> Result<ExitCode> {
    child::end_early_when_told()?;
    let scratch = Scratch::new()?;
    let run = measure(plan, &scratch.0)?;
    print(&run)?;
    let before = results::kept_here(&plan.results, "load").and_then(|kept| serde_json::from_value(kept).ok());
    let missed: Vec<String> = missed(&run).chain(grown(&run, before.as_ref())).collect();
    for line in &missed {
        writeln!(std::io::stdout(), "MISSED: {line}")?;
    }
    if plan.check && !missed.is_empty() {
        return Ok(ExitCode::FAILURE);
    }
    results::keep(&plan.results, "load", json!(run))?;
    Ok(ExitCode::SUCCESS)
}

fn measure(plan: &Plan, scratch: &Path) -> Result<Run> {
    let program = program(plan)?;
    let (_upstream, upstream) = child::start_part(&["upstream"])?;
    let cold_starts = cold_starts(&program, scratch, &upstream)?;
    let (_processes, targets) = start_targets(&program, scratch, &upstream)?;
    let mut loads = Vec::new();
    for (name, load) in loads_of(plan) {
        let targets = rounds::drive(&targets, load)?;
        loads.push(Table {
            load: name.to_owned(),
            targets,
        });
    }
    let mut memory = Vec::new();
    for target in &targets {
        let peak_kilobytes = cpu::peak_memory_of(target.process)?;
        memory.push(Memory {
            target: target.name.to_owned(),
            peak_kilobytes,
        });
    }
    let Plan {
        connections,
        calls,
        rounds,
        ..
    } = *plan;
    Ok(Run {
        connections,
        calls,
        rounds,
        loads,
        cold_starts,
        memory,
    })
}

fn cold_starts(program: &Path, scratch: &Path, upstream: &str) -> Result<Vec<Start>> {
    let first = cold_start::first_starts(program, &scratch.join("first"), upstream)?;
    let again = cold_start::restarts(program, &scratch.join("again"), upstream)?;
    let start = |state_directory: &str, time| Start {
        state_directory: state_directory.to_owned(),
        time,
    };
    Ok(vec![start("empty", first), start("used before", again)])
}

fn loads_of(plan: &Plan) -> [(&'static str, Load); 3] {
    let Plan {
        connections,
        calls,
        rounds,
        seconds,
        ..
    } = *plan;
    let small = Load {
        rounds,
        calls,
        connections,
        kilobytes: sample::SMALL,
        seconds,
    };
    let large = Load {
        kilobytes: sample::LARGE,
        calls: calls / 4,
        ..small
    };
    let alone = Load {
        connections: 1,
        calls: calls / 4,
        ..small
    };
    [(SMALL_CALLS, small), (LARGE_CALLS, large), (ONE_AT_A_TIME, alone)]
}

fn program(plan: &Plan) -> Result<PathBuf> {
    let beside = child::this_program()?.with_file_name("portreeve");
    let program = plan.portreeve.clone().unwrap_or(beside);
    ensure!(
        program.is_file(),
        "there is no gateway at {}; name one with --portreeve",
        program.display()
    );
    Ok(program)
}

fn start_targets(program: &Path, scratch: &Path, upstream: &str) -> Result<(Vec<Started>, Vec<Target>)> {
    let (mut processes, mut targets) = (Vec::new(), Vec::new());
    for name in ["bare", "split", "tree"] {
        let (process, url) = child::start_part(&["floor", name, "--upstream", upstream])?;
        targets.push(Target {
            name,
            place: Place { url, token: None },
            process: process.id(),
            afterwork_ms: 100,
            ask: Ask::Plain,
        });
        processes.push(process);
    }
    let settings = [
        (DEFAULTS, Rule::ContextFree, Output::Defaults),
        ("portreeve, argument rule", Rule::Arguments, Output::Defaults),
        (OFF, Rule::ContextFree, Output::Off),
        (EVERYTHING, Rule::ContextFree, Output::Everything),
    ];
    for (name, rule, output) in settings {
        let directory = scratch.join(format!("{rule:?}{output:?}"));
        let running = Prepared::new(program, &directory, upstream, (rule, output))?.start()?;
        targets.push(Target {
            name,
            place: running.place,
            process: running.process.id(),
            afterwork_ms: INDEXED_WITHIN_MS,
            ask: match output {
                Output::Defaults | Output::Off => Ask::Plain,
                Output::Everything => Ask::Fenced,
            },
        });
        processes.push(running.process);
    }
    Ok((processes, targets))
}

fn print(run: &Run) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    for Table { load, targets } in &run.loads {
        writeln!(out, "\n{load:<34} CPU µs/call  x bare  calls/s   p50 µs   p99 µs")?;
        for row in targets {
            let (cpu, ratio, rate) = (row.cpu_us_per_call, row.ratio_to_bare, row.calls_per_second);
            let (p50, p99) = (row.p50_us, row.p99_us);
            writeln!(
                out,
                "  {:<32} {cpu:>11.1} {ratio:>7.2} {rate:>8.0} {p50:>8.0} {p99:>8.0}",
                row.target
            )?;
        }
    }
    writeln!(out, "\ncold start to first answered call      min ms  median ms")?;
    for Start { state_directory, time } in &run.cold_starts {
        writeln!(
            out,
            "  state directory {state_directory:<18} {:>8.1} {:>10.1}",
            time.min_ms, time.median_ms
        )?;
    }
    writeln!(out, "\npeak memory                                MB")?;
    for Memory { target, peak_kilobytes } in &run.memory {
        writeln!(out, "  {target:<34} {:>8.1}", *peak_kilobytes as f64 / 1024.0)?;
    }
    Ok(())
}

/// The project's own targets that this run missed.
fn missed(run: &Run) -> impl Iterator<Item = String> {
    let small = run
        .loads
        .iter()
        .filter(|table| table.load == SMALL_CALLS)
        .flat_map(|table| &table.targets);
    let dear = small.filter(|row| row.is_gateway() && row.target != EVERYTHING);
    let dear = dear.filter(|row| row.ratio_to_bare > MOST_TIMES_BARE);
    let dear = dear.map(|row| {
        format!(
            "{}: a call costs {:.2} x bare, the most is {MOST_TIMES_BARE}",
            row.target, row.ratio_to_bare
        )
    });
    let slow = run
        .cold_starts
        .iter()
        .filter(|start| start.time.median_ms > SLOWEST_START_MS);
    let slow = slow.map(|Start { state_directory, time }| {
        let took = time.median_ms;
        format!("state directory {state_directory}: {took:.0} ms to the first answer, the most is {SLOWEST_START_MS}")
    });
    dear.chain(slow).chain(heavy(run)).chain(judged(run))
}

/// What judging results costs too much: everything on beside a mere tree, and defaults without a schema beside off.
fn judged(run: &Run) -> impl Iterator<Item = String> {
    let limits = [
        (LARGE_CALLS, EVERYTHING, "tree", MOST_TIMES_TREE),
        (LARGE_CALLS, DEFAULTS, OFF, MOST_TIMES_OFF),
        (SMALL_CALLS, DEFAULTS, OFF, MOST_TIMES_OFF),
    ];
    limits.into_iter().filter_map(|(load, target, other, most)| {
        let table = run.loads.iter().find(|table| table.load == load)?;
        let row = |name: &str| table.targets.iter().find(|row| row.target == name);
        let ratio = ratio(row(target)?, row(other)?);
        let line = format!("{target}, {load}: a call costs {ratio:.2} x {other}, the most is {most}");
        (ratio > most).then_some(line)
    })
}

/// The median of the ratios of two targets, each within one round.
fn ratio(row: &Figures, other: &Figures) -> f64 {
    let rounds = row.cpu_us_of_each_round.iter().zip(&other.cpu_us_of_each_round);
    rounds::median(rounds.map(|(cost, other)| cost / other).collect())
}

/// Large results that cost too much more than splitting their envelope.
fn heavy(run: &Run) -> impl Iterator<Item = String> {
    let large = run.loads.iter().filter(|table| table.load == LARGE_CALLS);
    large.flat_map(|table| {
        let split = table.targets.iter().find(|row| row.target == "split");
        let split = split.map_or(f64::INFINITY, |row| row.cpu_us_per_call);
        let rows = table
            .targets
            .iter()
            .filter(|row| row.is_gateway() && row.target != EVERYTHING);
        let ratios = rows.map(move |row| (&row.target, row.cpu_us_per_call / split));
        ratios
            .filter(|(_, ratio)| *ratio > MOST_TIMES_SPLIT)
            .map(|(target, ratio)| {
                format!("{target}: a call with 100 KB costs {ratio:.2} x split, the most is {MOST_TIMES_SPLIT}")
            })
    })
}

/// What has become dearer since the figures were kept, as a ratio to `bare` of its own run.
fn grown<'a>(run: &'a Run, before: Option<&'a Run>) -> impl Iterator<Item = String> + 'a {
    let rows = |run: &'a Run| {
        let rows = run
            .loads
            .iter()
            .flat_map(|table| table.targets.iter().map(move |row| (&table.load, row)));
        rows.filter(|(load, row)| row.is_gateway() && *load != ONE_AT_A_TIME)
    };
    let before: Vec<_> = before.into_iter().flat_map(rows).collect();
    rows(run).filter_map(move |(load, now)| {
        let (_, before) = before
            .iter()
            .find(|(known, row)| *known == load && row.target == now.target)?;
        let (was, is) = (before.ratio_to_bare, now.ratio_to_bare);
        let line = format!(
            "{}, {load}: {is:.2} x bare, {was:.2} when figures were last kept",
            now.target
        );
        (is > was * MOST_GROWTH).then_some(line)
    })
}

/// A directory that is gone when the run is over.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("portreeve-load-{}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_with(ratio_to_bare: f64, median_ms: f64) -> Run {
        let row = Figures {
            target: "portreeve".to_owned(),
            cpu_us_per_call: 50.0,
            ratio_to_bare,
            calls_per_second: 1.0,
            p50_us: 1.0,
            p99_us: 1.0,
            cpu_us_of_each_round: Vec::new(),
        };
        let time = ColdStart { min_ms: 1.0, median_ms };
        Run {
            connections: 1,
            calls: 1,
            rounds: 1,
            loads: vec![Table {
                load: SMALL_CALLS.to_owned(),
                targets: vec![row],
            }],
            cold_starts: vec![Start {
                state_directory: "empty".to_owned(),
                time,
            }],
            memory: Vec::new(),
        }
    }

    #[test]
    fn each_missed_target_is_named() {
        assert_eq!(missed(&run_with(2.5, 300.0)).count(), 0);
        assert_eq!(missed(&run_with(2.51, 300.1)).count(), 2);
    }

    // R050 R054: a tool without a schema, and everything switched off, are compared round by round; bytes are compared
    // by the generator, call by call
    #[test]
    fn judging_is_compared_with_a_tree_and_with_nothing() {
        let row = |target: &str, rounds: [f64; 3]| Figures {
            target: target.to_owned(),
            cpu_us_of_each_round: rounds.to_vec(),
            ..run_with(1.0, 1.0).loads[0].targets[0].clone()
        };
        let run = |everything, defaults| Run {
            loads: vec![Table {
                load: LARGE_CALLS.to_owned(),
                targets: vec![
                    row("tree", [100.0, 300.0, 200.0]),
                    row(OFF, [50.0, 60.0, 55.0]),
                    row(EVERYTHING, everything),
                    row(DEFAULTS, defaults),
                ],
            }],
            ..run_with(1.0, 1.0)
        };
        assert_eq!(judged(&run([99.0, 290.0, 400.0], [54.0, 62.0, 90.0])).count(), 0);
        assert_eq!(judged(&run([101.0, 310.0, 100.0], [50.0, 62.0, 55.0])).count(), 1);
        assert_eq!(judged(&run([99.0, 290.0, 100.0], [56.0, 67.0, 61.0])).count(), 1);
    }

    #[test]
    fn a_call_may_grow_dearer_by_a_tenth_and_no_more() {
        let before = run_with(2.0, 1.0);
        assert_eq!(grown(&run_with(2.19, 1.0), Some(&before)).count(), 0);
        assert_eq!(grown(&run_with(2.21, 1.0), Some(&before)).count(), 1);
        assert_eq!(grown(&run_with(9.0, 1.0), None).count(), 0);
    }

    #[test]
    fn a_run_reads_back_from_where_it_is_kept() {
        let run = run_with(2.0, 1.0);
        let read: Run = serde_json::from_value(json!(run)).unwrap();
        assert_eq!(json!(read), json!(run));
    }
}
