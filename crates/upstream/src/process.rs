//! Servers that are processes: started in confinement, spoken to by lines, watched, and ended with everything they
//! started. One process belongs to one principal, unless the operator says that the server keeps nothing of anybody.

mod backoff;
mod lines;
mod pipe;
mod stderr;
mod supervise;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use sandbox::{Egress, HostResolver, Instance, LaunchFailure, Launcher, Plan, PlanDraft, Resolve, Starting, Witness};
use tokio::sync::watch;
use vocabulary::{Clock, Confinement, Digest, ReceiptId, ServerId, Timestamp, lock};

use self::backoff::Backoffs;
use self::lines::Lines;
pub(crate) use self::pipe::Pipe;
pub use self::stderr::StderrDirectory;
use self::stderr::StderrLog;
use self::supervise::Supervisor;
use crate::call::observer::Waiting;
use crate::failure::Failure;
use crate::server::Server;
use crate::session::multiplex::{Destination, Multiplex};
use crate::session::{Guest, SessionKey};

/// What the operator asks for, for one principal: `None` for the gateway's own instance.
pub type PlanSource = dyn Fn(Option<&Digest>) -> Result<PlanDraft, String> + Send + Sync;

/// Where the processes of one server are started.
pub struct ProcessSlot {
    launcher: Arc<Launcher>,
    plans: Box<PlanSource>,
    monitor: Arc<dyn ProcessMonitor>,
    stderr: StderrDirectory,
    names: Arc<dyn Resolve>,
    backoffs: Backoffs,
    /// The last process of each guest, until it is gone.
    leaving: Mutex<HashMap<SessionKey, watch::Receiver<bool>>>,
}

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

/// A call that a process is at work on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpenCall {
    /// Its receipt.
    pub receipt_id: ReceiptId,
    /// The tool, if it is one.
    pub tool: Option<String>,
    /// The client's session.
    pub session: Option<Digest>,
}

impl ProcessSlot {
    /// A place for a server's processes; starts nothing.
    #[must_use]
    pub fn new(
        launcher: Arc<Launcher>,
        monitor: Arc<dyn ProcessMonitor>,
        stderr: StderrDirectory,
        plans: Box<PlanSource>,
    ) -> Self {
        Self {
            launcher,
            plans,
            monitor,
            stderr,
            names: Arc::new(HostResolver),
            backoffs: Backoffs::default(),
            leaving: Mutex::default(),
        }
    }

    /// Starts a process for `guest`.
    pub(crate) async fn start(self: &Arc<Self>, server: &Arc<Server>, guest: &Guest) -> Result<Process, Failure> {
        self.predecessor_gone(&guest.key).await;
        self.backoffs.admit(&guest.key, Instant::now())?;
        let started = self.launch(server, guest).await;
        if let Err(failure) = &started {
            self.backoffs.failed(&guest.key, Instant::now());
            self.monitor.failed(server.id(), &told(failure));
        }
        started
    }

    /// One process of a guest at a time: the last one is gone, and its end is known, before the next begins.
    async fn predecessor_gone(&self, guest: &SessionKey) {
        let leaving = lock(&self.leaving).remove(guest);
        if let Some(mut gone) = leaving {
            let _ = tokio::time::timeout(LONGEST_PARTING, gone.wait_for(|gone| *gone)).await;
        }
    }

    async fn launch(self: &Arc<Self>, server: &Arc<Server>, guest: &Guest) -> Result<Process, Failure> {
        let (slot, principal) = (self.clone(), guest.owner.map(|owner| owner.principal));
        // Files are looked at and made, and a disk may be slow.
        let plan = tokio::task::spawn_blocking(move || slot.plan(principal.as_ref())).await;
        let plan = plan.map_err(|_| Failure::NotStarted("its plan could not be checked".into()))??;
        let mut starting = self.launcher.start(&plan).await.map_err(not_confined)?;
        let confinement = Arc::new(confinement_of(&starting));
        let calls = Arc::new(OpenCalls::default());
        let witness = Arc::new(AttemptReporter {
            server: server.id().clone(),
            instance: confinement.instance.clone(),
            calls: calls.clone(),
            monitor: self.monitor.clone(),
        });
        let egress = self.open_doors(&mut starting, &plan, witness)?;
        let recorded = self.monitor.started(server.id(), &confinement).await;
        recorded.map_err(Failure::NotStarted)?;
        let instance = starting.go().await.map_err(not_confined)?;
        self.converse(
            server,
            Launched {
                guest: guest.key,
                instance,
                egress,
                confinement,
                calls,
            },
        )
    }

    /// What is asked of the sandbox, checked against this host. Blocks.
    fn plan(&self, principal: Option<&Digest>) -> Result<Plan, Failure> {
        let draft = (self.plans)(principal).map_err(Failure::NotStarted)?;
        Plan::check(draft).map_err(|faults| Failure::NotStarted(sentences(&faults)))
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

    /// Speaks with a process that runs.
    fn converse(self: &Arc<Self>, server: &Arc<Server>, launched: Launched) -> Result<Process, Failure> {
        let Launched {
            guest,
            mut instance,
            egress,
            confinement,
            calls,
        } = launched;
        let streams = instance
            .take_streams()
            .ok_or_else(|| Failure::NotStarted("its streams are gone".into()))?;
        let (pipe, closing) = Pipe::into(streams.stdin);
        let stderr_log = StderrLog::new(&self.stderr, server.id(), &confinement.instance);
        let lines = Lines::of(streams.stdout, server.caps, stderr_log.clone());
        let multiplex = Multiplex::start(server, Destination::Process(pipe, calls), lines, None);
        let (gone, leaving) = watch::channel(false);
        let mut parting = lock(&self.leaving);
        parting.retain(|_, gone| gone.has_changed().is_ok());
        parting.insert(guest, leaving);
        drop(parting);
        let supervisor = Supervisor {
            gone,
            slot: self.clone(),
            server: server.id().clone(),
            guest,
            instance,
            egress,
            name: confinement.instance.clone(),
            multiplex: Arc::downgrade(&multiplex),
            began: Instant::now(),
            closing,
        };
        tokio::spawn(stderr_log.drain(streams.stderr));
        tokio::spawn(supervisor.run());
        Ok(Process { multiplex, confinement })
    }
}

/// A process that runs, and how it is confined.
pub(crate) struct Process {
    pub(crate) multiplex: Arc<Multiplex>,
    pub(crate) confinement: Arc<Confinement>,
}

struct Launched {
    guest: SessionKey,
    instance: Instance,
    egress: Option<Egress>,
    confinement: Arc<Confinement>,
    calls: Arc<OpenCalls>,
}

/// The calls that are open in one process, and those that were a moment ago: we may hear of an attempt after the call
/// that it was made for has ended.
#[derive(Default)]
pub(crate) struct OpenCalls(Mutex<Vec<Noted>>);

struct Noted {
    id: u64,
    call: OpenCall,
    opened: Timestamp,
    closed: Option<Timestamp>,
}

impl OpenCalls {
    pub(crate) fn open(&self, id: u64, call: OpenCall) {
        self.open_at(id, call, Clock::system().now());
    }

    pub(crate) fn close(&self, id: u64) {
        self.close_at(id, Clock::system().now());
    }

    fn open_at(&self, id: u64, call: OpenCall, opened: Timestamp) {
        self.lock().push(Noted {
            id,
            call,
            opened,
            closed: None,
        });
    }

    fn close_at(&self, id: u64, now: Timestamp) {
        let mut calls = self.lock();
        calls.retain(|noted| noted.closed.is_none_or(|closed| closed.plus(REMEMBERED) > now));
        if let Some(noted) = calls.iter_mut().find(|noted| noted.id == id) {
            noted.closed = Some(now);
        }
    }

    /// Those that were open at any time between `from` and `until`.
    fn between(&self, from: Timestamp, until: Timestamp) -> Vec<OpenCall> {
        let calls = self.lock();
        let open = calls
            .iter()
            .filter(|noted| noted.opened <= until && noted.closed.is_none_or(|closed| closed >= from));
        open.map(|noted| noted.call.clone()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Noted>> {
        lock(&self.0)
    }
}

/// Tells of what a process tries, with the calls it may have been for.
struct AttemptReporter {
    server: ServerId,
    instance: String,
    calls: Arc<OpenCalls>,
    monitor: Arc<dyn ProcessMonitor>,
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
        | LaunchFailure::Layer(_)
        | LaunchFailure::Start { .. }
        | LaunchFailure::PlanTooLarge
        | LaunchFailure::Uncounted
        | LaunchFailure::Silent
        | LaunchFailure::TimedOut => Failure::Sandbox(Box::new(failure)),
    }
}

fn told(failure: &Failure) -> String {
    match std::error::Error::source(failure) {
        Some(source) => format!("{failure}: {source}"),
        None => failure.to_string(),
    }
}

fn sentences(faults: &[sandbox::PlanFault]) -> String {
    let told: Vec<String> = faults.iter().map(ToString::to_string).collect();
    told.join("; ")
}

/// Longer than an attempt can take to be heard of.
const REMEMBERED: Duration = Duration::from_secs(2);

/// Longer than it takes to end a process by force.
const LONGEST_PARTING: Duration = Duration::from_secs(5);
/// How long a process may stand idle.
pub(crate) const IDLE_STOP: Duration = Duration::from_secs(15 * 60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_belongs_to_the_calls_that_were_open_when_it_was_made() {
        let calls = OpenCalls::default();
        let at = Timestamp::from_micros;
        let call = |tool: &str| OpenCall {
            receipt_id: ReceiptId::parse("rcp_00000000000070008000000000000000").unwrap(),
            tool: Some(tool.to_owned()),
            session: None,
        };
        let named = |from, until| -> Vec<String> {
            let open = calls.between(at(from), at(until));
            open.into_iter().filter_map(|call| call.tool).collect()
        };
        calls.open_at(1, call("one"), at(10));
        calls.close_at(1, at(20));
        calls.open_at(2, call("two"), at(30));
        assert_eq!(named(15, 15), ["one"], "heard of after its end");
        assert_eq!(named(25, 25), [""; 0]);
        assert_eq!(named(35, 35), ["two"]);
        assert_eq!(named(15, 35), ["one", "two"], "repeats may be of both");
        calls.close_at(2, at(3_000_000));
        assert_eq!(named(15, 15), [""; 0], "forgotten");
        assert_eq!(named(35, 35), ["two"]);
    }
}
