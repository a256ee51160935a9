//! Servers that are started here: their berths, their workspaces, and what the log says of them.

use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use ledger::{EgressAttempt, EgressCall, EgressResult, Event, Ledger, Note};
use policy::SandboxTier;
use sandbox::{FsPolicy, Launcher, NetPolicy, Tier, Verdict};
use screening::recorded::without_secrets;
use upstream::{AccessAttempt, ProcessMonitor, ProcessSlot, StderrDirectory, Waiting};
use vocabulary::{Confinement, PrincipalKey, ServerId};

use super::tier::{self, Memory};
use super::uids::{self, Holder, Uids};
use crate::config::{Local, Process, Reach, Workspace, workspaces};

/// The launcher, probed on this machine; none where no server needs one.
pub(crate) async fn launcher(config: &Local, memory: Memory) -> Option<Arc<Launcher>> {
    let servers = &config.servers;
    let needed = servers.values().any(|server| matches!(server.reach, Reach::Process(_)));
    match needed {
        true => Some(Arc::new(tier::probed(&config.state.dir, config.tier, memory).await)),
        false => None,
    }
}

/// As [`launcher`], for commands that are not asynchronous. Must be called from the runtime of a command.
pub(crate) fn launcher_now(config: &Local) -> Option<Arc<Launcher>> {
    let runtime = tokio::runtime::Handle::current();
    tokio::task::block_in_place(|| runtime.block_on(launcher(config, Memory::Look)))
}

/// The sandbox policies see.
pub(super) fn tier_of(reach: &Reach, launcher: Option<&Launcher>) -> SandboxTier {
    let Reach::Process(process) = reach else {
        return SandboxTier::Outside;
    };
    // What stands is what counts: with one side open it is no sandbox of any tier.
    if process.fs == FsPolicy::Unconfined || process.net == NetPolicy::Unconfined {
        return SandboxTier::Outside;
    }
    match launcher.map(|launcher| launcher.strength().tier) {
        Some(Tier::A) => SandboxTier::A,
        Some(Tier::B) => SandboxTier::B,
        Some(Tier::C) | None => SandboxTier::Outside,
    }
}

/// What the berths of one gateway have in common.
#[derive(Clone)]
pub(super) struct Harbour {
    pub(super) launcher: Arc<Launcher>,
    pub(super) ledger: Ledger,
    pub(super) state: PathBuf,
    /// Users of servers, if the gateway is root.
    pub(super) uids: Uids,
    /// The operator's own rules, where there are any.
    pub(super) detector: Option<Arc<screening::detect::Detector>>,
}

impl Harbour {
    /// Where the processes of a server are started.
    pub(super) fn berth(&self, id: &ServerId, process: &Process) -> anyhow::Result<ProcessSlot> {
        let book = self.state.join("logs");
        private_dir(&book)?;
        let (id, process, state) = (id.clone(), process.clone(), self.state.clone());
        let uids = self.uids.clone();
        let shown = process.shown(&state);
        let of_process = (id.clone(), process.clone(), state.clone());
        let grounds = move |principal: Option<&PrincipalKey>| {
            let (id, process, state) = &of_process;
            process.grounds(process.workspace_for(id, state, principal), &shown)
        };
        let drafts = move |principal: Option<&PrincipalKey>| {
            process.verify_packages(&state).map_err(|unfit| unfit.to_string())?;
            let mut draft = process.draft(&id, &state, principal);
            process.verify_files(&draft)?;
            // Processes that share a workspace share its files, and thus a user.
            let principal = principal.filter(|_| matches!(process.workspace, Workspace::PerPrincipal(_)));
            let user = || uids.user(Holder { server: &id, principal });
            match &process.workspace {
                // Whoever owns it, if that is not root.
                Workspace::At(path) if belongs_to_root(path) => draft.uid = user()?,
                Workspace::At(_) => {}
                Workspace::Own => {
                    draft.uid = user()?;
                    make_workspace(&draft.workspace, Some(&workspaces(&state)), draft.uid)?;
                }
                Workspace::PerPrincipal(_) => {
                    draft.uid = user()?;
                    make_workspace(&draft.workspace, None, draft.uid)?;
                }
            }
            Ok(draft)
        };
        let watch = Arc::new(Logbook(self.ledger.clone()));
        Ok(ProcessSlot::new(
            self.launcher.clone(),
            watch,
            StderrDirectory::kept_in(book, self.detector.clone()),
            (Box::new(drafts), Box::new(grounds)),
        ))
    }
}

fn belongs_to_root(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    path.metadata().is_ok_and(|found| found.uid() == 0)
}

/// Makes a workspace that is missing, and gives it to its user if it is another's. `room` is ours and made too.
fn make_workspace(path: &Path, room: Option<&Path>, user: Option<u32>) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("the workspace `{}` cannot be made: {error}", path.display());
    if let Some(room) = room {
        // Servers of other users pass through it to their own workspace, and cannot list it.
        std::fs::create_dir_all(room).map_err(failed)?;
        std::fs::set_permissions(room, std::fs::Permissions::from_mode(0o711)).map_err(failed)?;
    }
    let made = match std::fs::DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => false,
        made => made.map(|()| true).map_err(failed)?,
    };
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    match (user, made) {
        (Some(user), _) => uids::give(path, user).map_err(failed),
        (None, true) => uids::give(path, sandbox::DEDICATED_UID).map_err(failed),
        (None, false) => Ok(()),
    }
}

fn private_dir(path: &Path) -> anyhow::Result<()> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .with_context(|| format!("`{}` cannot be made", path.display()))
}

/// Records what becomes of processes.
struct Logbook(Ledger);

impl Logbook {
    /// Appends without anybody waiting for it.
    fn append_later(&self, event: Event) {
        let ledger = self.0.clone();
        tokio::spawn(async move {
            if let Err(error) = ledger.append_event(event).await {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "an event could not be recorded"
                );
            }
        });
    }
}

impl ProcessMonitor for Logbook {
    fn started<'a>(&'a self, server: &'a ServerId, walls: &'a Confinement) -> Waiting<'a, Result<(), String>> {
        let message = format!(
            "sandbox {} of tier {} stands: fs {}, net {}",
            walls.instance, walls.tier, walls.fs_policy, walls.net_policy
        );
        let note = Note::done("sandbox.start", "system", Some(&server.to_string()), &message);
        Box::pin(async move {
            let recorded = self.0.append_event(Event::Inventory(note)).await;
            recorded
                .map(drop)
                .map_err(|_| "its start cannot be recorded".to_owned())
        })
    }

    fn failed(&self, server: &ServerId, why: &str) {
        tracing::warn!(%server, why, "a server's process was not started");
        let note = Note::refused("sandbox.fail", "system", Some(&server.to_string()), why);
        self.append_later(Event::Inventory(note));
    }

    fn ended(&self, server: &ServerId, instance: &str, how: &str) {
        let message = format!("sandbox {instance} is gone: {how}");
        let note = Note::done("sandbox.end", "system", Some(&server.to_string()), &message);
        self.append_later(Event::Inventory(note));
    }

    fn attempted(&self, attempt: AccessAttempt) {
        let AccessAttempt {
            server,
            instance,
            attempt,
            open,
        } = attempt;
        let open = open.into_iter().map(|case| EgressCall {
            receipt_id: case.receipt_id,
            tool_name: case.tool,
            session: case.session,
        });
        self.append_later(Event::Egress(Box::new(EgressAttempt {
            server_id: server.to_string(),
            instance,
            event: attempt.event.as_str().into(),
            result: match attempt.verdict {
                Verdict::Allowed => EgressResult::Allowed,
                Verdict::Blocked => EgressResult::Blocked,
            },
            host: without_secrets(&attempt.host).into_owned(),
            port: attempt.port,
            reason: attempt.reason.as_str().into(),
            count: attempt.count,
            run: None,
            open: open.collect(),
        })));
    }
}
