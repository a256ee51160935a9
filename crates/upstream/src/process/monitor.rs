//! Who is told what becomes of processes, and what they try to reach.

use std::sync::Arc;

use sandbox::Witness;
use vocabulary::{Clock, Confinement, ServerId};

use crate::process::open_calls::{OpenCall, OpenCalls};
use crate::waiting::Waiting;

/// Is told what becomes of processes, for the log.
pub trait ProcessMonitor: Send + Sync {
    /// It is confined, and waits for this to complete; it is not started on `Err`.
    fn started<'a>(&'a self, server: &'a ServerId, confinement: &'a Confinement) -> Waiting<'a, Result<(), String>>;
    /// A process was not started.
    fn failed(&self, server: &ServerId, why: &str);
    /// A process has ended.
    fn ended(&self, server: &ServerId, instance: &str, how: &str);
    /// A process tried to reach something.
    fn attempted(&self, attempt: AccessAttempt);
}

/// An attempt to reach something.
pub struct AccessAttempt {
    /// Whose process it was.
    pub server: ServerId,
    /// In which sandbox.
    pub instance: String,
    /// What it tried.
    pub attempt: sandbox::Attempt,
    /// The calls that were open in this process then: it was one of them, or none.
    pub open: Vec<OpenCall>,
}

/// Tells of what a process tries, with the calls it may have been for.
pub(super) struct AttemptReporter {
    pub(super) server: ServerId,
    pub(super) instance: String,
    pub(super) calls: Arc<OpenCalls>,
    pub(super) monitor: Arc<dyn ProcessMonitor>,
}

impl Witness for AttemptReporter {
    fn saw(&self, attempt: sandbox::Attempt) {
        // Repeats are told together, and the last of them may have been made just now.
        let until = match attempt.count {
            1 => attempt.at,
            _ => Clock::system().now(),
        };
        self.monitor.attempted(AccessAttempt {
            server: self.server.clone(),
            instance: self.instance.clone(),
            open: self.calls.between(attempt.at, until),
            attempt,
        });
    }
}
