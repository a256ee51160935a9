//! `server remove`: takes a server out of the configuration, then its package off the disk. Works on a configuration
//! whose only fault is that server, because it may be the way to repair it.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use serde_json::json;
use vocabulary::ServerId;

use crate::command::output::{self, Form};
use crate::config::{Config, Draft, Reach, Written, hold, packages, replace, workspaces};
use crate::package::{files, room};
use crate::servers_lock::{Entry, LOCK_FILE, ServersLock};

#[derive(clap::Args)]
pub(in crate::command) struct Remove {
    /// The server's id
    id: String,
    #[command(flatten)]
    form: Form,
}

impl Remove {
    pub(super) async fn run(self, file: &Path) -> anyhow::Result<ExitCode> {
        let unknown = || format!("no server `{}` is configured", output::printable(&self.id));
        let id = ServerId::parse(&self.id).with_context(unknown)?;
        let _held = hold(file)?;
        let mut draft = Draft::open(file)?;
        anyhow::ensure!(draft.remove_server(&id)?, unknown());
        let config = draft.check()?;
        anyhow::ensure!(
            draft.write()? == Written::Done,
            "`{}` was changed meanwhile; nothing was written",
            file.display()
        );
        let running = super::reload(&config).await?;
        let uninstalled = uninstall(file, &config, &id)?;
        if self.form.json {
            let told = json!({"id": id.as_str(), "uninstalled": uninstalled, "reloaded": running});
            output::line(&told.to_string())?;
        } else {
            output::line(&format!("{id} is removed"))?;
            output::note(match running {
                true => "the running gateway has read its configuration again",
                false => "no gateway runs",
            });
            let workspace = workspaces(&config.state.dir).join(id.as_str());
            if workspace.exists() {
                output::note(&format!("its workspace stays: {}", workspace.display()));
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Takes the server's package away, unless another server runs from it.
fn uninstall(file: &Path, config: &Config, id: &ServerId) -> anyhow::Result<bool> {
    let used = config.servers.values().any(|server| match &server.reach {
        Reach::Process(process) => process.packages.iter().any(|(name, _)| name == id.as_str()),
        Reach::Web(_) => false,
    });
    if used {
        return Ok(false);
    }
    let lock_file = file.with_file_name(LOCK_FILE);
    let mut lock = ServersLock::read(&lock_file)?;
    let removed = lock.remove(id.as_str());
    let locked = matches!(removed, Some(Entry::Package { .. }));
    // A signed lock stays as it was signed: without this line the others would not be started.
    match (removed.is_some(), config.anchors.require_signed) {
        (true, false) => write_lock(&lock_file, &lock)?,
        (true, true) => output::note("servers.lock still names it, until it is signed again"),
        (false, _) => {}
    }
    let dir = room(&config.state.dir, id);
    files::forget(&packages(&config.state.dir), id.as_str());
    if dir.exists() {
        std::fs::remove_dir_all(&dir).with_context(|| format!("`{}` cannot be removed", dir.display()))?;
    }
    Ok(locked)
}

/// Writes the lock; an empty one is no file.
pub(super) fn write_lock(file: &Path, lock: &ServersLock) -> anyhow::Result<()> {
    match (lock.is_empty(), file.exists()) {
        (true, true) => Ok(std::fs::remove_file(file)?),
        (true, false) => Ok(()),
        (false, _) => replace(file, &lock.to_text()?),
    }
}
