//! Servers that are processes: started in confinement, spoken to by lines, watched, and ended with everything they
//! started. One process belongs to one principal, unless the operator says that the server keeps nothing of anybody.
//! ADR 0022: processes.

mod backoff;
pub(crate) mod files;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod lines;
pub(crate) mod monitor;
pub(crate) mod open_calls;
pub(crate) mod pipe;
mod running;
pub(crate) mod stderr;
mod supervise;
pub(crate) mod trace;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sandbox::{Egress, HostResolver, Instance, LaunchFailure, Launcher, Plan, PlanDraft, Resolve, Starting, Witness};
use tokio::sync::watch;
use vocabulary::{Confinement, Masks, PrincipalKey, Secret, ServerId};

use self::backoff::Backoffs;
use self::files::{Files, GroundsSource};
use self::lines::Lines;
use self::monitor::{AttemptReporter, ProcessMonitor};
use self::open_calls::OpenCalls;
use self::pipe::Pipe;
use self::running::Running;
use self::stderr::{StderrDirectory, StderrLog};
use self::supervise::Supervisor;
use self::trace::{LatestTrace, ProcessTrace};
use crate::caps::Caps;
use crate::failure::Failure;
use crate::session::guest::{Guest, SessionKey};
use crate::session::multiplex::{Destination, Multiplex};

/// What the operator asks for, for one principal: `None` for the gateway's own instance.
pub type PlanSource = dyn Fn(Option<&PrincipalKey>) -> Result<PlanDraft, String> + Send + Sync;

/// Where the processes of one server are started.
pub struct ProcessSlot {
    launcher: Arc<Launcher>,
    plans: Box<PlanSource>,
    grounds: Box<GroundsSource>,
    monitor: Arc<dyn ProcessMonitor>,
    stderr: StderrDirectory,
    names: Arc<dyn Resolve>,
    backoffs: Arc<Backoffs>,
    /// Of the gateway's own process.
    latest: Arc<LatestTrace>,
    running: Arc<Running>,
}

impl ProcessSlot {
    /// A place for a server's processes; starts nothing.
    #[must_use]
    pub fn new(
        launcher: Arc<Launcher>,
        monitor: Arc<dyn ProcessMonitor>,
        stderr: StderrDirectory,
        (plans, grounds): (Box<PlanSource>, Box<GroundsSource>),
    ) -> Self {
        Self {
            launcher,
            plans,
            grounds,
            monitor,
            stderr,
            names: Arc::new(HostResolver),
            backoffs: Arc::default(),
            latest: Arc::default(),
            running: Arc::default(),
        }
    }

    /// Starts a process for `guest`.
    pub(crate) async fn start(
        self: &Arc<Self>,
        server: &ServerId,
        caps: Caps,
        guest: &Guest,
    ) -> Result<Process, Failure> {
        self.predecessor_gone(&guest.key).await;
        self.backoffs.admit(&guest.key, Instant::now())?;
        let started = self.launch(server, caps, guest).await;
        if let Err(failure) = &started {
            self.backoffs.failed(&guest.key, Instant::now());
            self.monitor.failed(server, &with_source(failure));
        }
        started
    }

    /// What is left of the gateway's own process; waits a moment for one that is ending.
    pub(crate) async fn trace(&self) -> Option<ProcessTrace> {
        for mut gone in self.running.gateways() {
            let _ = tokio::time::timeout(LONGEST_END, gone.wait_for(|gone| *gone)).await;
        }
        self.latest.read()
    }

    /// One process of a guest at a time: the last one is gone, and its end is known, before the next begins.
    async fn predecessor_gone(&self, guest: &SessionKey) {
        if let Some(mut gone) = self.running.take(guest) {
            let _ = tokio::time::timeout(LONGEST_END, gone.wait_for(|gone| *gone)).await;
        }
    }

    /// Where the process of a principal, or everybody's, has its files; `None` where a path is no text: such a server cannot
    /// be started.
    pub(crate) fn files(&self, principal: Option<&PrincipalKey>) -> Option<Files> {
        Files::of(&(self.grounds)(principal), &self.running)
    }

    async fn launch(self: &Arc<Self>, server: &ServerId, caps: Caps, guest: &Guest) -> Result<Process, Failure> {
        let (slot, principal) = (self.clone(), guest.owner.map(|owner| owner.principal));
        // Files are looked at and made, and a disk may be slow.
        let plan = tokio::task::spawn_blocking(move || slot.plan(principal.as_ref())).await;
        let (plan, handed) = plan.map_err(|_| Failure::NotStarted("its plan could not be checked".into()))??;
        guest.behalf.clear_launch(handed.expose().as_bytes())?;
        let mut starting = self.launcher.start(&plan).await.map_err(not_confined)?;
        let confinement = Arc::new(confinement_of(&starting));
        let calls = Arc::new(OpenCalls::default());
        let witness = Arc::new(AttemptReporter {
            server: server.clone(),
            instance: confinement.instance.clone(),
            calls: calls.clone(),
            monitor: self.monitor.clone(),
        });
        let egress = self.open_doors(&mut starting, &plan, witness)?;
        let recorded = self.monitor.started(server, &confinement).await;
        recorded.map_err(Failure::NotStarted)?;
        let instance = starting.go().await.map_err(not_confined)?;
        self.attach(
            server,
            caps,
            Launched {
                guest: guest.key,
                masks: plan.masks().clone(),
                workspace: plan.workspace().to_owned(),
                handed,
                instance,
                egress,
                confinement,
                calls,
            },
        )
    }

    /// What is asked of the sandbox, checked against this host. Blocks.
    fn plan(&self, principal: Option<&PrincipalKey>) -> Result<(Plan, Secret), Failure> {
        let draft = (self.plans)(principal).map_err(Failure::NotStarted)?;
        let handed = handed(&draft);
        let plan = Plan::check(draft).map_err(|faults| Failure::NotStarted(sentences(&faults)))?;
        Ok((plan, handed))
    }

    fn open_doors(
        &self,
        starting: &mut Starting,
        plan: &Plan,
        witness: Arc<dyn Witness>,
    ) -> Result<Option<Egress>, Failure> {
        let Some(doors) = starting.take_doors() else {
            return Ok(None);
        };
        let served = Egress::serve(doors, plan.allowlist().clone(), self.names.clone(), witness);
        served
            .map(Some)
            .map_err(|error| Failure::NotStarted(format!("its doors cannot be watched: {error}")))
    }

    /// Connects the streams of a process that runs. Whoever reads its lines begins the conversation.
    fn attach(&self, server: &ServerId, caps: Caps, launched: Launched) -> Result<Process, Failure> {
        let Launched {
            guest,
            masks,
            workspace,
            handed,
            mut instance,
            egress,
            confinement,
            calls,
        } = launched;
        let streams = instance
            .take_streams()
            .ok_or_else(|| Failure::NotStarted("its streams are gone".into()))?;
        let (pipe, closing) = Pipe::into(streams.stdin, handed);
        let stderr_log = StderrLog::new(&self.stderr, server, &confinement.instance, masks);
        let lines = Lines::of(streams.stdout, caps, stderr_log.clone());
        let multiplex = Multiplex::new(Destination::Process(pipe, calls));
        let is_own = guest.is_gateways();
        if is_own {
            self.latest.begin(&confinement.instance, &stderr_log);
        }
        let (gone, leaving) = watch::channel(false);
        self.running.begin(guest, workspace, leaving);
        let supervisor = Supervisor {
            gone,
            backoffs: self.backoffs.clone(),
            monitor: self.monitor.clone(),
            server: server.clone(),
            guest,
            instance,
            egress,
            name: confinement.instance.clone(),
            multiplex: Arc::downgrade(&multiplex),
            began: Instant::now(),
            closing,
            complaints: tokio::spawn(stderr_log.drain(streams.stderr)),
            latest: is_own.then(|| self.latest.clone()),
        };
        tokio::spawn(supervisor.run());
        Ok(Process {
            multiplex,
            lines,
            confinement,
        })
    }
}

/// A process that runs, and how it is confined.
pub(crate) struct Process {
    pub(crate) multiplex: Arc<Multiplex>,
    /// What it says; nobody reads it yet.
    pub(crate) lines: Lines,
    pub(crate) confinement: Arc<Confinement>,
}

struct Launched {
    guest: SessionKey,
    masks: Masks,
    workspace: PathBuf,
    handed: Secret,
    instance: Instance,
    egress: Option<Egress>,
    confinement: Arc<Confinement>,
    calls: Arc<OpenCalls>,
}

/// What a process is told at its start: its command, and the values of its variables.
fn handed(draft: &PlanDraft) -> Secret {
    let values = draft.env.values().map(Secret::expose);
    let words: Vec<&str> = draft.command.iter().map(String::as_str).chain(values).collect();
    Secret::new(words.join("\n"))
}

fn confinement_of(starting: &Starting) -> Confinement {
    let report = starting.report();
    Confinement {
        tier: report.tier.as_str(),
        fs_policy: report.fs_policy.as_str(),
        net_policy: report.net_policy.as_str(),
        instance: report.instance.clone(),
        policy_hash: report.policy_hash.clone(),
        layers: report.layers.iter().map(|layer| layer.as_str()).collect(),
    }
}

/// Confinement that cannot be built is told apart from a program that cannot be executed.
fn not_confined(failure: LaunchFailure) -> Failure {
    match failure {
        LaunchFailure::Layer(ref at) if at.layer == sandbox::Layer::Execute => Failure::NotStarted(failure.to_string()),
        LaunchFailure::TierTooWeak { .. }
        | LaunchFailure::TierFell { .. }
        | LaunchFailure::Unsettled { .. }
        | LaunchFailure::NoUnixSockets { .. }
        | LaunchFailure::Layer(_)
        | LaunchFailure::Start { .. }
        | LaunchFailure::PlanTooLarge
        | LaunchFailure::Uncounted
        | LaunchFailure::Silent
        | LaunchFailure::TimedOut => Failure::Sandbox(Box::new(failure)),
    }
}

fn with_source(failure: &Failure) -> String {
    match std::error::Error::source(failure) {
        Some(source) => format!("{failure}: {source}"),
        None => failure.to_string(),
    }
}

fn sentences(faults: &[sandbox::PlanFault]) -> String {
    let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
    faults.join("; ")
}

/// Longer than it takes to end a process by force.
const LONGEST_END: Duration = Duration::from_secs(5);
