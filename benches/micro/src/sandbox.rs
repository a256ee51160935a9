//! What a sandbox costs: from the request to the first instruction of a process, against a plain spawn of the same
//! program, and what its filters add to a system call.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ::sandbox::host::{self, HostCommand};
use ::sandbox::{LAUNCHER_WORD, Launcher, Plan, PlanDraft};
use anyhow::{Context as _, Result, anyhow};
use tokio::io::AsyncReadExt as _;

use crate::stopwatch::Figure;

const RUNS: usize = 80;
/// Over a plain spawn, for the least of all runs.
const MOST_US: f64 = 10_000.0;

/// Measures unless `only` names something else.
pub(crate) fn measure(only: &str) -> Result<Vec<Figure>> {
    if !"sandbox".contains(only) {
        return Ok(Vec::new());
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(figures())
}

async fn figures() -> Result<Vec<Figure>> {
    let place = std::env::temp_dir().join(format!("portreeve-micro-{}", std::process::id()));
    std::fs::create_dir_all(&place)?;
    std::os::unix::fs::chown(&place, Some(::sandbox::DEDICATED_UID), None).ok();
    let launcher = Launcher::probe_with("/proc/self/exe".into(), vec![LAUNCHER_WORD.into()]).await;
    let measured = async {
        let mut figures = launches(&launcher, &place).await?;
        figures.extend(system_calls(&launcher, &place).await?);
        Ok(figures)
    };
    let measured = measured.await;
    std::fs::remove_dir_all(&place)?;
    measured
}

async fn launches(launcher: &Launcher, place: &std::path::Path) -> Result<Vec<Figure>> {
    let (mut walled, mut plain) = (Vec::new(), Vec::new());
    let plan = plan(place, &["true"])?;
    for _ in 0..RUNS {
        let began = Instant::now();
        let mut starting = launcher.start(&plan).await?;
        // A gateway serves the doors; closing them takes the kernel a while.
        let doors = starting.take_doors();
        let instance = starting.go().await?;
        walled.push(began.elapsed().as_secs_f64() * 1e6);
        tokio::task::spawn_blocking(move || drop(doors));
        instance.wait().await;
        let began = Instant::now();
        spawn_plainly(place, &["/usr/bin/true"])?;
        plain.push(began.elapsed().as_secs_f64() * 1e6);
    }
    let walled = Figure::from_rounds("sandbox: request to first instruction", walled);
    let plain = Figure::from_rounds("plain spawn: request to end", plain);
    let over = Figure::from_rounds(
        "sandbox: least over the least plain spawn",
        vec![walled.min_us - plain.min_us],
    );
    Ok(vec![walled, plain, over.at_most(MOST_US)])
}

/// A call that does nothing, many times, inside and outside.
async fn system_calls(launcher: &Launcher, place: &std::path::Path) -> Result<Vec<Figure>> {
    const LOOP: &str = "import os,time\nn=200000\nt=time.perf_counter()\nfor _ in range(n): os.getppid()\nprint((time.perf_counter()-t)/n*1e6)";
    let script = ["/usr/bin/python3", "-I", "-c", LOOP];
    let (mut inside, mut outside) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        let mut instance = launcher.start(&plan(place, &script)?).await?.go().await?;
        let mut streams = instance.take_streams().context("no streams")?;
        let mut said = String::new();
        streams.stdout.read_to_string(&mut said).await?;
        instance.wait().await;
        inside.push(said.trim().parse()?);
        let said = host::run(command(place, &script)).await?;
        outside.push(String::from_utf8(said.stdout)?.trim().parse()?);
    }
    Ok(vec![
        Figure::from_rounds("sandbox: a system call, in Python's loop", inside),
        Figure::from_rounds("outside: a system call, in Python's loop", outside),
    ])
}

pub(crate) fn plan(place: &std::path::Path, words: &[&str]) -> Result<Plan> {
    Plan::check(PlanDraft::new(place, words.iter().copied())).map_err(|faults| anyhow!("{faults:?}"))
}

#[expect(clippy::disallowed_methods, reason = "what a sandbox is compared with")]
pub(crate) fn spawn_plainly(place: &std::path::Path, words: &[&str]) -> Result<()> {
    let (program, arguments) = words.split_first().context("no program")?;
    let mut command = std::process::Command::new(program);
    command
        .args(arguments)
        .current_dir(place)
        .stdin(std::process::Stdio::null());
    let status = command.status()?;
    anyhow::ensure!(status.success(), "`{program}` ended with {status}");
    Ok(())
}

fn command(place: &std::path::Path, words: &[&str]) -> HostCommand {
    HostCommand {
        command: words.iter().map(|word| (*word).to_owned()).collect(),
        directory: place.to_owned(),
        env: BTreeMap::new(),
        timeout: Duration::from_secs(60),
        keep: 1 << 16,
    }
}
