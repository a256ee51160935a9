//! What an installer said, kept where the logs of servers are: an installation that failed leaves nothing else behind.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use screening::utterance::presentable;
use vocabulary::ServerId;

/// The log of one installation.
pub(super) struct InstallLog(PathBuf);

impl InstallLog {
    /// Begins a log for the package of this server; what the last installation left is taken away.
    pub(super) fn begin(state: &Path, id: &ServerId) -> std::io::Result<Self> {
        let logs = state.join("logs");
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&logs)?;
        let log = Self(logs.join(format!("install-{id}.log")));
        log.discard();
        Ok(log)
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Adds what a program said, without secrets and terminal sequences.
    pub(super) fn add(&self, heading: &str, said: &str) {
        let said = presentable(said, None).unwrap_or_else(|| "something was not kept".to_owned());
        let mut options = fs::OpenOptions::new();
        let opened = options.append(true).create(true).mode(0o600).open(&self.0);
        // The command fails anyway, and says why as far as it knows.
        let _ = opened.and_then(|mut file| writeln!(file, "# {heading}\n{}", said.trim_end()));
    }

    /// Nobody needs it any more.
    pub(super) fn discard(&self) {
        let _ = fs::remove_file(&self.0);
    }
}
