//! The load generator: so many connections, one call in flight on each, a bounded number of calls
//! in a bounded time, every answer compared byte for byte. It reads the cost of the process under
//! load itself, so that opening sessions and warming up do not count.

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::client::{Client, Place};
use crate::sample::Ask;
use crate::{cpu, sample};

/// What to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) place: Place,
    /// The process whose CPU time is read.
    pub(crate) process: u32,
    /// How long what goes on behind a call (records, indexes) may take to be finished and counted.
    pub(crate) afterwork_ms: u64,
    pub(crate) kilobytes: u32,
    pub(crate) ask: Ask,
    pub(crate) connections: usize,
    pub(crate) calls: u64,
    pub(crate) seconds: u64,
}

/// How it went. Every call was answered rightly; anything else is an error.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Round {
    pub(crate) calls: u64,
    pub(crate) calls_per_second: f64,
    pub(crate) cpu_us_per_call: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
}

/// This part of the calls goes before, uncounted.
const WARM_UP_SHARE: u64 = 20;

/// Carries out the job on standard input and prints the round on standard output.
pub(crate) fn run() -> Result<ExitCode> {
    let job: Job = serde_json::from_reader(std::io::stdin().lock())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let round = runtime.block_on(drive(job))?;
    writeln!(std::io::stdout(), "{}", serde_json::to_string(&round)?)?;
    Ok(ExitCode::SUCCESS)
}

async fn drive(job: Job) -> Result<Round> {
    let result = job.ask.result(job.kilobytes)?;
    let mut workers = Vec::new();
    for _ in 0..job.connections {
        let mut client = Client::connect(&job.place).await?;
        client.open_session().await?;
        workers.push(Worker {
            client,
            result: result.clone(),
            answer: Vec::new(),
            took: Vec::new(),
        });
    }
    let ids = Arc::new(AtomicU64::new(1));
    let shift = |calls| Shift {
        ids: ids.clone(),
        last: ids.load(Ordering::Relaxed) + calls,
        kilobytes: job.kilobytes,
        ask: job.ask,
    };
    let afterwork = Duration::from_millis(job.afterwork_ms);
    let deadline = Instant::now() + Duration::from_secs(job.seconds);
    workers = work(workers, shift(job.calls / WARM_UP_SHARE + 1), deadline).await?;
    workers.iter_mut().for_each(|worker| worker.took.clear());
    tokio::time::sleep(afterwork).await;

    let (before, began) = (cpu::spent_by(job.process)?, Instant::now());
    workers = work(workers, shift(job.calls), deadline).await?;
    let lasted = began.elapsed();
    tokio::time::sleep(afterwork).await;
    let spent = cpu::spent_by(job.process)?.saturating_sub(before);

    let mut took: Vec<Duration> = workers.iter().flat_map(|worker| worker.took.iter().copied()).collect();
    ensure!(!took.is_empty(), "no call was made in the time given");
    for worker in &mut workers {
        worker.client.close_session().await?;
    }
    took.sort_unstable();
    let calls = took.len() as f64;
    Ok(Round {
        calls: took.len() as u64,
        calls_per_second: calls / lasted.as_secs_f64(),
        cpu_us_per_call: spent.as_secs_f64() * 1e6 / calls,
        p50_us: percentile(&took, 50),
        p99_us: percentile(&took, 99),
    })
}

struct Worker {
    client: Client,
    result: Bytes,
    answer: Vec<u8>,
    took: Vec<Duration>,
}

/// Ids to use, each once, up to the last.
#[derive(Clone)]
struct Shift {
    ids: Arc<AtomicU64>,
    last: u64,
    kilobytes: u32,
    ask: Ask,
}

async fn work(workers: Vec<Worker>, shift: Shift, deadline: Instant) -> Result<Vec<Worker>> {
    let at_work: Vec<_> = workers
        .into_iter()
        .map(|worker| tokio::spawn(toil(worker, shift.clone(), deadline)))
        .collect();
    let mut back = Vec::with_capacity(at_work.len());
    for worker in at_work {
        back.push(worker.await??);
    }
    shift.ids.store(shift.last, Ordering::Relaxed);
    Ok(back)
}

async fn toil(mut worker: Worker, shift: Shift, deadline: Instant) -> Result<Worker> {
    loop {
        let began = Instant::now();
        let id = shift.ids.fetch_add(1, Ordering::Relaxed);
        if id >= shift.last || began >= deadline {
            return Ok(worker);
        }
        worker
            .client
            .call(
                id,
                sample::call(id, shift.kilobytes, shift.ask),
                &worker.result,
                &mut worker.answer,
            )
            .await?;
        worker.took.push(began.elapsed());
    }
}

/// Of sorted times, in microseconds.
fn percentile(sorted: &[Duration], hundredths: usize) -> f64 {
    let place = (sorted.len() * hundredths / 100).min(sorted.len().saturating_sub(1));
    sorted.get(place).map_or(0.0, |took| took.as_secs_f64() * 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_taken_from_the_right_end() {
        let times: Vec<_> = (1..=100).map(Duration::from_micros).collect();
        assert_eq!(
            (percentile(&times, 50).round(), percentile(&times, 99).round()),
            (51.0, 100.0)
        );
        assert_eq!(percentile(&[], 50), 0.0);
    }
}
