//! How long from the start of the process to the first answered call: on an empty state
//! directory, where the server has to be discovered first, and on one that was used before.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

use crate::client::{Client, Place};
use crate::gateway::{Output, Prepared, Rule};
use crate::rounds::median;
use crate::sample;

/// Milliseconds.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct ColdStart {
    pub(crate) min_ms: f64,
    pub(crate) median_ms: f64,
}

const STARTS: usize = 10;
/// A gateway that does not answer a call within this time never will.
const PATIENCE: Duration = Duration::from_secs(20);

/// Each start with a state directory of its own.
pub(crate) fn first_starts(program: &Path, directory: &Path, upstream: &str) -> Result<ColdStart> {
    let mut times = Vec::new();
    for number in 0..STARTS {
        let prepared = Prepared::new(
            program,
            &directory.join(number.to_string()),
            upstream,
            (Rule::ContextFree, Output::Defaults),
        )?;
        times.push(time(&prepared)?);
    }
    Ok(summary(times))
}

/// Start after start on one state directory.
pub(crate) fn restarts(program: &Path, directory: &Path, upstream: &str) -> Result<ColdStart> {
    let prepared = Prepared::new(program, directory, upstream, (Rule::ContextFree, Output::Defaults))?;
    time(&prepared)?;
    let times: Result<Vec<f64>> = (0..STARTS).map(|_| time(&prepared)).collect();
    times.map(summary)
}

fn time(prepared: &Prepared) -> Result<f64> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let began = Instant::now();
    let running = prepared.start()?;
    runtime.block_on(first_answer(&running.place, began))?;
    let took = began.elapsed();
    running.process.stop()?;
    Ok(took.as_secs_f64() * 1e3)
}

/// Calls until the tool answers: before its server is discovered, there is no such tool.
async fn first_answer(place: &Place, began: Instant) -> Result<()> {
    let result = sample::result(sample::SMALL)?;
    let mut client = Client::connect(place).await?;
    client.open_session().await?;
    for id in 1.. {
        match client
            .call(
                id,
                sample::call(id, sample::SMALL, sample::Ask::Plain),
                &result,
                &mut Vec::new(),
            )
            .await
        {
            Ok(()) => break,
            Err(error) => ensure!(
                began.elapsed() < PATIENCE,
                "no call was answered after the start: {error}"
            ),
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Ok(())
}

fn summary(times: Vec<f64>) -> ColdStart {
    ColdStart {
        min_ms: times.iter().copied().fold(f64::INFINITY, f64::min),
        median_ms: median(times),
    }
}
