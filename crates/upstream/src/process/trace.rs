//! What is left of the gateway's own process of a server, the one that discovery speaks to: how it ended and what it said
//! last, for whoever asks why a server does not start.

use std::path::PathBuf;
use std::sync::Mutex;

use vocabulary::lock;

use super::stderr::StderrLog;

/// How a process ended, and its last words. Nothing in it moves a cursor, and secrets are masked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProcessTrace {
    /// How it ended; `None` while it runs.
    pub ending: Option<String>,
    /// The last lines that it wrote to standard error.
    pub last_lines: Vec<String>,
    /// Where all of them are kept.
    pub log: Option<PathBuf>,
}

/// The trace of the latest process.
#[derive(Default)]
pub(super) struct LatestTrace(Mutex<Option<Latest>>);

struct Latest {
    instance: String,
    log: StderrLog,
    ending: Option<String>,
}

impl LatestTrace {
    /// Another process runs now.
    pub(super) fn begin(&self, instance: &str, log: &StderrLog) {
        *lock(&self.0) = Some(Latest {
            instance: instance.to_owned(),
            log: log.clone(),
            ending: None,
        });
    }

    /// This process has ended; no other one's trace is touched.
    pub(super) fn end(&self, instance: &str, how: &str) {
        if let Some(latest) = lock(&self.0).as_mut().filter(|latest| latest.instance == instance) {
            latest.ending = Some(how.to_owned());
        }
    }

    pub(super) fn read(&self) -> Option<ProcessTrace> {
        let latest = lock(&self.0);
        let latest = latest.as_ref()?;
        Some(ProcessTrace {
            ending: latest.ending.clone(),
            last_lines: latest.log.last_lines(),
            log: latest.log.file(),
        })
    }
}
