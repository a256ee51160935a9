//! The processes of one server that run or are ending: whose they are, and where they work.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use tokio::sync::watch;
use vocabulary::lock;

use crate::session::guest::SessionKey;

/// The last process of each guest, until it is gone.
#[derive(Default)]
pub(super) struct Running(Mutex<HashMap<SessionKey, Process>>);

struct Process {
    workspace: PathBuf,
    gone: watch::Receiver<bool>,
}

impl Running {
    /// A process was started; forgets those that are gone.
    pub(super) fn begin(&self, guest: SessionKey, workspace: PathBuf, gone: watch::Receiver<bool>) {
        let mut processes = lock(&self.0);
        processes.retain(|_, process| process.gone.has_changed().is_ok());
        processes.insert(guest, Process { workspace, gone });
    }

    /// Forgets the last process of a guest, and tells when it will be gone.
    pub(super) fn take(&self, guest: &SessionKey) -> Option<watch::Receiver<bool>> {
        lock(&self.0).remove(guest).map(|process| process.gone)
    }

    /// When the gateway's own will be gone.
    pub(super) fn gateways(&self) -> Vec<watch::Receiver<bool>> {
        let processes = lock(&self.0);
        let own = processes.iter().filter(|(guest, _)| guest.is_gateways());
        own.map(|(_, process)| process.gone.clone()).collect()
    }

    /// Whether one works there now.
    pub(super) fn is_in(&self, workspace: &Path) -> bool {
        let processes = lock(&self.0);
        let mut there = processes.values().filter(|process| process.workspace == workspace);
        there.any(|process| !*process.gone.borrow())
    }
}
