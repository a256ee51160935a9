//! Commands on the host, before and after a runtime: with the harness's own environment, none of which reaches the
//! runtime. Hooks after it are given a published file and its digest, and nothing else of the agent's.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use sandbox::host::{self, HostCommand, HostFailure};
use tokio::sync::watch;
use vocabulary::Secret;

use crate::config::Agent;
use crate::ports::{HostEnvironment, Stop};
use crate::released::Released;
use crate::run_directory::RunDirectory;

/// What hooks are run with.
pub(crate) struct HookEnvironment<'a> {
    pub(crate) agent: &'a Agent,
    pub(crate) root: &'a Path,
    pub(crate) run: &'a str,
    pub(crate) directory: &'a RunDirectory,
    pub(crate) environment: &'a HostEnvironment,
    pub(crate) deadline: Instant,
    pub(crate) stop: &'a watch::Receiver<Stop>,
}

/// What became of the hooks before a runtime.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Prepared {
    /// The runtime may start.
    Ready,
    /// There is nothing to do.
    Skip,
}

vocabulary::words! {
    /// When a hook runs.
    pub enum HookKind {
        /// Before the runtime.
        Pre = "pre",
        /// After publishing.
        Post = "post",
    }
}

impl HookKind {
    /// The least reason to end such a hook: what applies a published output is not cut off for another agent's sake.
    fn least(self) -> Stop {
        match self {
            Self::Pre => Stop::Beside,
            Self::Post => Stop::Caller,
        }
    }
}

/// Why a hook counts as failed; for people.
#[derive(Debug, thiserror::Error)]
pub enum HookFailure {
    /// It could not be run to its end.
    #[error("the {kind} hook {number} could not be run")]
    Host {
        /// Before or after.
        kind: HookKind,
        /// Which, from 1.
        number: usize,
        /// The cause.
        source: HostFailure,
    },
    /// It said that it failed.
    #[error("the {kind} hook {number} ended with {}; what it said is in the run's directory below `hooks`", code.map_or("a signal".to_owned(), |code| format!("code {code}")))]
    Code {
        /// Before or after.
        kind: HookKind,
        /// Which, from 1.
        number: usize,
        /// The code; `None` for a signal.
        code: Option<i32>,
    },
}

impl HookFailure {
    /// Whether nobody wanted the hook any more.
    pub(crate) fn was_stopped(&self) -> bool {
        match self {
            Self::Host { source, .. } => matches!(source, HostFailure::Stopped { .. }),
            Self::Code { .. } => false,
        }
    }
}

/// The code by which a hook says that there is nothing to do.
const SKIP: i32 = 78;

/// Runs what comes before the runtime, in order.
pub(crate) async fn before(environment: &HookEnvironment<'_>, inputs: &Path) -> Result<Prepared, HookFailure> {
    let own = [("HARNESS_INPUT_DIR", inputs.display().to_string())];
    for (index, command) in environment.agent.hooks.pre.iter().enumerate() {
        match environment.run(HookKind::Pre, index + 1, command, &own).await? {
            Some(0) => {}
            Some(SKIP) => return Ok(Prepared::Skip),
            code => {
                return Err(HookFailure::Code {
                    kind: HookKind::Pre,
                    number: index + 1,
                    code,
                });
            }
        }
    }
    Ok(Prepared::Ready)
}

/// Runs what comes after publishing, in order and once. Only a released output gets here.
pub(crate) async fn after(environment: &HookEnvironment<'_>, released: &Released) -> Result<(), HookFailure> {
    let own = [
        ("HARNESS_VALIDATED_FILE", released.path().display().to_string()),
        ("HARNESS_VALIDATED_SHA256", hex_of(&released.hash().to_string())),
    ];
    for (index, command) in environment.agent.hooks.post.iter().enumerate() {
        let code = environment.run(HookKind::Post, index + 1, command, &own).await?;
        if code != Some(0) {
            return Err(HookFailure::Code {
                kind: HookKind::Post,
                number: index + 1,
                code,
            });
        }
    }
    Ok(())
}

fn hex_of(digest: &str) -> String {
    digest.trim_start_matches("sha256:").to_owned()
}

impl HookEnvironment<'_> {
    async fn run(
        &self,
        kind: HookKind,
        number: usize,
        command: &[String],
        own: &[(&str, String)],
    ) -> Result<Option<i32>, HookFailure> {
        let mut env: BTreeMap<String, Secret> = self.environment.0.clone();
        env.retain(|name, _| !name.starts_with("HARNESS_"));
        let fixed = [
            ("HARNESS_RUN_ID", self.run.to_owned()),
            ("HARNESS_AGENT", self.agent.name.to_string()),
        ];
        for (name, value) in fixed.iter().chain(own) {
            env.insert((*name).to_owned(), Secret::new(value.clone()));
        }
        let left = self.deadline.saturating_duration_since(Instant::now());
        let order = HostCommand {
            command: command.to_vec(),
            directory: self.root.to_owned(),
            env,
            timeout: left.max(Duration::from_millis(1)),
            keep: KEPT,
        };
        let mut stop = self.stop.clone();
        let output = host::run_until(order, Stop::from(kind.least(), &mut stop)).await;
        let output = output.map_err(|source| HookFailure::Host { kind, number, source })?;
        for (stream, bytes) in [("stdout", &output.stdout), ("stderr", &output.stderr)] {
            // For people; a disk that is full is found by what matters.
            let _ = self
                .directory
                .keep_words(&format!("{}-{kind}-{number}.{stream}", self.agent.name), bytes);
        }
        Ok(output.code)
    }
}

const KEPT: usize = 64 << 10;
