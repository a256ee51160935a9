//! What a run is connected to: the state directory of the configuration beside the harness, its log, its gateway.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use harness::{HostEnvironment, Setting};
use vocabulary::Secret;

use super::progress::Show;
use super::records::Records;
use super::tokens::Tokens;
use crate::config::{Config, Local, variables};
use crate::wire_up::{Memory, make_dir, probed};

/// Opens the setting of a run.
pub(super) async fn open(directory: &Path, given: Option<&Path>, show: Arc<Show>) -> anyhow::Result<Setting> {
    let config = Arc::new(Local::from(&config(directory, given)?));
    make_dir(&config.state.dir)?;
    Ok(Setting {
        state: config.state.dir.canonicalize()?,
        launcher: Arc::new(probed(&config.state.dir, config.tier, Memory::Keep).await),
        recorder: Arc::new(Records::of(config.clone())),
        tokens: Arc::new(Tokens::of(config)),
        progress: show,
        environment: environment(),
        program: own_program(),
    })
}

/// The configuration that says where state is: named, beside the harness, or none and the default directory.
pub(super) fn config(directory: &Path, given: Option<&Path>) -> anyhow::Result<Config> {
    let beside = directory.join("portreeve.toml");
    if let Some(file) = given.or(beside.exists().then_some(beside.as_path())) {
        return Ok(Config::load(file)?);
    }
    Ok(Config::usual(directory)?)
}

/// The harness's own environment; what is no text cannot be handed on.
pub(super) fn environment() -> HostEnvironment {
    let pairs = variables().into_iter().map(|(name, value)| (name, Secret::new(value)));
    HostEnvironment(pairs.collect())
}

/// This very binary, so that a runtime can check itself.
fn own_program() -> Option<PathBuf> {
    std::env::current_exe()
        .ok()
        .and_then(|path| path.canonicalize().ok())
        .filter(|path| path.is_file())
}
