//! What single stages of a call cost, in CPU time of the thread that does the work: the least and
//! the median over rounds. The project's targets are checked here, stage by stage; `portreeve-load`
//! measures the whole.

mod chokepoint;
mod harness;
mod identity;
mod limits;
mod lists;
mod payloads;
mod records;
mod sandbox;
mod stopwatch;
mod town;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use portreeve_load::results;
use serde_json::json;

use stopwatch::Figure;

/// The gateway's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures the stages of a call one by one.
#[derive(Parser)]
struct Line {
    /// Fail, and keep nothing, when a target of the project is missed
    #[arg(long)]
    check: bool,
    /// Where the figures are kept as JSON
    #[arg(long, default_value = "benches/results/latest.json")]
    results: PathBuf,
    /// Measure only stages whose name contains this; nothing is kept then
    only: Option<String>,
}

fn main() -> Result<ExitCode> {
    // As in the gateway: this binary is its own launcher and reaper.
    match std::env::args_os().nth(1) {
        Some(word) if word == ::sandbox::LAUNCHER_WORD => return Ok(::sandbox::launcher_main()),
        Some(word) if word == ::sandbox::host::REAPER_WORD => return Ok(::sandbox::host::reaper_main()),
        Some(_) | None => {}
    }
    let line = Line::parse();
    let only = line.only.as_deref().unwrap_or_default();
    let groups = [
        lists::measure,
        identity::measure,
        limits::measure,
        payloads::measure,
        chokepoint::measure,
        records::measure,
        sandbox::measure,
        harness::measure,
    ];
    let mut figures = Vec::new();
    for group in groups {
        figures.extend(group(only)?);
    }
    print(&figures)?;
    if line.check && figures.iter().any(Figure::is_missed) {
        return Ok(ExitCode::FAILURE);
    }
    if line.only.is_none() {
        results::keep(&line.results, "micro", json!(figures))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn print(figures: &[Figure]) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "{:<52} {:>10} {:>10} {:>10}  {:>10}",
        "stage", "min µs", "median µs", "target", "MB/s"
    )?;
    for figure in figures {
        let target = figure.most_us.map_or(String::new(), |most| format!("{most:.0}"));
        let speed = figure
            .megabytes_per_second
            .map_or(String::new(), |speed| format!("{speed:.0}"));
        let missed = if figure.is_missed() { "  MISSED" } else { "" };
        let (name, min, median) = (&figure.stage, figure.min_us, figure.median_us);
        writeln!(
            out,
            "{name:<52} {min:>10.2} {median:>10.2} {target:>10}  {speed:>10}{missed}"
        )?;
    }
    Ok(())
}
