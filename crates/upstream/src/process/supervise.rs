//! Stays with a process until it has ended: by itself, because nobody needs it, or because it stood idle.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use sandbox::{Egress, Ending, Instance};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use vocabulary::ServerId;

use super::backoff::Backoffs;
use super::monitor::ProcessMonitor;
use super::pipe::Unneeded;
use super::trace::LatestTrace;
use crate::session::guest::SessionKey;
use crate::session::multiplex::Multiplex;

/// How long a process has to end by itself once its input is closed.
const GRACE: Duration = Duration::from_millis(500);
/// How long what it said last is waited for, which is read and judged meanwhile.
const LAST_WORDS: Duration = Duration::from_secs(3);
/// How often it is checked whether a process is idle.
const ROUND: Duration = Duration::from_secs(30);
/// How long a process may be idle.
const IDLE_STOP: Duration = Duration::from_secs(15 * 60);

/// See the module.
pub(super) struct Supervisor {
    /// Told when the process is gone and its end is known.
    pub(super) gone: watch::Sender<bool>,
    pub(super) backoffs: Arc<Backoffs>,
    pub(super) monitor: Arc<dyn ProcessMonitor>,
    pub(super) server: ServerId,
    pub(super) guest: SessionKey,
    pub(super) instance: Instance,
    pub(super) egress: Option<Egress>,
    pub(super) name: String,
    pub(super) multiplex: Weak<Multiplex>,
    pub(super) began: Instant,
    pub(super) closing: Unneeded,
    /// Reads its standard error to the end.
    pub(super) complaints: JoinHandle<()>,
    /// Where the end of the gateway's own process is told.
    pub(super) latest: Option<Arc<LatestTrace>>,
}

/// Why nobody waits for a process any more.
enum Stop {
    Ended(Ending),
    Unneeded,
    Idle,
}

impl Supervisor {
    pub(super) async fn run(mut self) {
        let stop = self.wait().await;
        let (why, ending) = match stop {
            Stop::Ended(ending) => {
                self.count_crash();
                ("", ending.to_string())
            }
            // It closed its output, or said what cannot be read: nobody sent it away.
            Stop::Unneeded if self.multiplex.upgrade().is_some() => {
                self.count_crash();
                ("", self.stop().await)
            }
            Stop::Unneeded => ("stopped; ", self.stop().await),
            Stop::Idle => ("stopped after standing idle; ", self.stop().await),
        };
        let how = format!("{why}{ending}");
        if let Some(multiplex) = self.multiplex.upgrade() {
            multiplex.close("ended");
        }
        if let Some(egress) = self.egress.take() {
            egress.shut();
        }
        if let Some(latest) = &self.latest {
            // Its last words are often the only ones; a descriptor that lives on must not hold this up.
            let _ = tokio::time::timeout(LAST_WORDS, &mut self.complaints).await;
            latest.end(&self.name, &ending);
        }
        self.gone.send_replace(true);
        tracing::info!(server = %self.server, instance = self.name, how, "a server's process is gone");
        self.monitor.ended(&self.server, &self.name, &how);
    }

    /// It ended when nobody wanted it to.
    fn count_crash(&self) {
        self.backoffs.ended(&self.guest, self.began.elapsed(), Instant::now());
    }

    async fn wait(&mut self) -> Stop {
        let mut round = tokio::time::interval(ROUND);
        loop {
            tokio::select! {
                ending = self.instance.wait() => return Stop::Ended(ending),
                _ = &mut self.closing => return Stop::Unneeded,
                _ = round.tick() => {
                    let Some(multiplex) = self.multiplex.upgrade() else { return Stop::Unneeded };
                    if multiplex.idle_for().is_some_and(|idle| idle >= IDLE_STOP) {
                        multiplex.close("stood idle");
                        return Stop::Idle;
                    }
                }
            }
        }
    }

    /// Gives the process a moment, then ends everything in its sandbox.
    async fn stop(&self) -> String {
        let ending = match tokio::time::timeout(GRACE, self.instance.wait()).await {
            Ok(ending) => ending,
            Err(_) => {
                self.instance.kill();
                self.instance.wait().await
            }
        };
        ending.to_string()
    }
}
