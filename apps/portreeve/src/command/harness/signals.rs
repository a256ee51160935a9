//! Ctrl-C, termination and a terminal that goes away: runtimes are killed, tokens revoked and records written before the command ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use harness::Stop;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// Watches for signals.
pub(super) struct Signals {
    stop: watch::Receiver<Stop>,
    code: Arc<AtomicU8>,
}

impl Signals {
    /// Begins to watch.
    pub(super) fn watch() -> anyhow::Result<Self> {
        let (tell, stop) = watch::channel(Stop::No);
        let code = Arc::new(AtomicU8::new(0));
        let seen = code.clone();
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        // Who was started to outlive its terminal (`nohup`) does.
        let mut hangup = match is_ignored(HANGUP) {
            true => None,
            false => Some(signal(SignalKind::hangup())?),
        };
        tokio::spawn(async move {
            loop {
                let number = tokio::select! {
                    _ = interrupt.recv() => 130,
                    _ = terminate.recv() => 143,
                    Some(_) = async { hangup.as_mut()?.recv().await } => 129,
                };
                seen.store(number, Ordering::SeqCst);
                tell.send_replace(Stop::Caller);
            }
        });
        Ok(Self { stop, code })
    }

    /// Says so when the run is to end.
    pub(super) fn stop(&self) -> watch::Receiver<Stop> {
        self.stop.clone()
    }

    /// The exit code of a run that was told to end.
    pub(super) fn code(&self) -> Option<u8> {
        Some(self.code.load(Ordering::SeqCst)).filter(|code| *code != 0)
    }
}

/// Whether whoever started us wants this signal ignored.
fn is_ignored(number: u32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask >> (number - 1) & 1 == 1)
}

const HANGUP: u32 = 1;
