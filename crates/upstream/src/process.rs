//! Servers that are processes: started inside walls, spoken to by lines, watched, and ended with everything they
//! started. One process belongs to one principal, unless the operator says that the server keeps nothing of anybody.

mod backoff;
mod lines;
mod pipe;
mod stderr;
mod supervise;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sandbox::{Egress, HostResolver, Instance, LaunchFailure, Launcher, Plan, PlanDraft, Resolve, Starting, Witness};
use tokio::sync::watch;
use vocabulary::{Clock, Confinement, Digest, ReceiptId, ServerId, Timestamp};

use self::backoff::Breakers;
use self::lines::Lines;
pub(crate) use self::pipe::Pipe;
pub use self::stderr::ComplaintBook;
use self::stderr::Complaints;
use self::supervise::Attendant;
use crate::call::observer::Waiting;
use crate::failure::Failure;
use crate::server::Server;
use crate::session::multiplex::{Duplex, Outward};
use crate::session::{Guest, SessionKey};

/// What the operator asks for, for one principal: `None` for the gateway's own instance.
pub type Drafts = dyn Fn(Option<&Digest>) -> Result<PlanDraft, String> + Send + Sync;

/// Where the processes of one server are started.
pub struct Berth {
    launcher: Arc<Launcher>,
    drafts: Box<Drafts>,
    watch: Arc<dyn Watch>,
    book: ComplaintBook,
    names: Arc<dyn Resolve>,
    breakers: Breakers,
    /// The last process of each guest, until it is gone.
    leaving: Mutex<HashMap<SessionKey, watch::Receiver<bool>>>,
}

/// Hears what becomes of processes, for the log.
pub trait Watch: Send + Sync {
    /// Confinement stand, and the process waits for this to complete; it is not started on `Err`.
    fn started<'a>(&'a self, server: &'a ServerId, walls: &'a Confinement) -> Waiting<'a, Result<(), String>>;
    /// A process was not started.
    fn failed(&self, server: &ServerId, why: &str);
    /// A process has ended.
    fn ended(&self, server: &ServerId, instance: &str, how: &str);
    /// A process tried to reach something.
    fn tried(&self, sighting: Sighting);
}

/// An attempt to reach something.
pub struct Sighting {
    /// Whose process it was.
    pub server: ServerId,
    /// In which sandbox.
    pub instance: String,
    /// What it tried.
    pub attempt: sandbox::Attempt,
    /// The calls that were open in this process then: it was one of them, or none.
    pub open: Vec<OpenCase>,
}

/// A call that a process is at work on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpenCase {
    /// Its receipt.
    pub receipt_id: ReceiptId,
    /// The tool, if it is one.
    pub tool: Option<String>,
    /// The client's session.
    pub session: Option<Digest>,
}

impl Berth {
    /// A berth for a server's processes; starts nothing.
    #[must_use]
    pub fn new(launcher: Arc<Launcher>, watch: Arc<dyn Watch>, book: ComplaintBook, drafts: Box<Drafts>) -> Self {
        Self {
            launcher,
            drafts,
            watch,
            book,
            names: Arc::new(HostResolver),
            breakers: Breakers::default(),
            leaving: Mutex::default(),
        }
    }

    /// Starts a process for `guest`.
    pub(crate) async fn start(self: &Arc<Self>, server: &Arc<Server>, guest: &Guest) -> Result<Process, Failure> {
        self.predecessor_gone(&guest.key).await;
        self.breakers.admit(&guest.key, Instant::now())?;
        let started = self.launch(server, guest).await;
        if let Err(failure) = &started {
            self.breakers.failed(&guest.key, Instant::now());
            self.watch.failed(server.id(), &told(failure));
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
        let (berth, principal) = (self.clone(), guest.owner.map(|owner| owner.principal));
        // Files are looked at and made, and a disk may be slow.
        let plan = tokio::task::spawn_blocking(move || berth.plan(principal.as_ref())).await;
        let plan = plan.map_err(|_| Failure::NotStarted("its plan could not be checked".into()))??;
        let mut starting = self.launcher.start(&plan).await.map_err(walls_failed)?;
        let walls = Arc::new(walls(&starting));
        let cases = Arc::new(Cases::default());
        let witness = Arc::new(Sentry {
            server: server.id().clone(),
            instance: walls.instance.clone(),
            cases: cases.clone(),
            watch: self.watch.clone(),
        });
        let egress = self.open_doors(&mut starting, &plan, witness)?;
        let recorded = self.watch.started(server.id(), &walls).await;
        recorded.map_err(Failure::NotStarted)?;
        let instance = starting.go().await.map_err(walls_failed)?;
        self.converse(
            server,
            Launched {
                guest: guest.key,
                instance,
                egress,
                walls,
                cases,
            },
        )
    }

    /// What is asked of the sandbox, checked against this host. Blocks.
    fn plan(&self, principal: Option<&Digest>) -> Result<Plan, Failure> {
        let draft = (self.drafts)(principal).map_err(Failure::NotStarted)?;
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
            walls,
            cases,
        } = launched;
        let streams = instance
            .take_streams()
            .ok_or_else(|| Failure::NotStarted("its streams are gone".into()))?;
        let (pipe, closing) = Pipe::into(streams.stdin);
        let complaints = Complaints::new(&self.book, server.id(), &walls.instance);
        let lines = Lines::of(streams.stdout, server.caps, complaints.clone());
        let duplex = Duplex::start(server, Outward::Process(pipe, cases), lines, None);
        let (gone, leaving) = watch::channel(false);
        let mut parting = lock(&self.leaving);
        parting.retain(|_, gone| gone.has_changed().is_ok());
        parting.insert(guest, leaving);
        drop(parting);
        let attendant = Attendant {
            gone,
            berth: self.clone(),
            server: server.id().clone(),
            guest,
            instance,
            egress,
            name: walls.instance.clone(),
            duplex: Arc::downgrade(&duplex),
            began: Instant::now(),
            closing,
        };
        tokio::spawn(complaints.drain(streams.stderr));
        tokio::spawn(attendant.attend());
        Ok(Process { duplex, walls })
    }
}

/// A process that runs, and what stands around it.
pub(crate) struct Process {
    pub(crate) duplex: Arc<Duplex>,
    pub(crate) walls: Arc<Confinement>,
}

struct Launched {
    guest: SessionKey,
    instance: Instance,
    egress: Option<Egress>,
    walls: Arc<Confinement>,
    cases: Arc<Cases>,
}

/// The calls that are open in one process, and those that were a moment ago: we may hear of an attempt after the call
/// that it was made for has ended.
#[derive(Default)]
pub(crate) struct Cases(Mutex<Vec<Noted>>);

struct Noted {
    id: u64,
    case: OpenCase,
    opened: Timestamp,
    closed: Option<Timestamp>,
}

impl Cases {
    pub(crate) fn open(&self, id: u64, case: OpenCase) {
        self.open_at(id, case, Clock::system().now());
    }

    pub(crate) fn close(&self, id: u64) {
        self.close_at(id, Clock::system().now());
    }

    fn open_at(&self, id: u64, case: OpenCase, opened: Timestamp) {
        self.lock().push(Noted {
            id,
            case,
            opened,
            closed: None,
        });
    }

    fn close_at(&self, id: u64, now: Timestamp) {
        let mut cases = self.lock();
        cases.retain(|noted| noted.closed.is_none_or(|closed| closed.plus(REMEMBERED) > now));
        if let Some(noted) = cases.iter_mut().find(|noted| noted.id == id) {
            noted.closed = Some(now);
        }
    }

    /// Those that were open at any time between `from` and `until`.
    fn between(&self, from: Timestamp, until: Timestamp) -> Vec<OpenCase> {
        let cases = self.lock();
        let open = cases
            .iter()
            .filter(|noted| noted.opened <= until && noted.closed.is_none_or(|closed| closed >= from));
        open.map(|noted| noted.case.clone()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Noted>> {
        lock(&self.0)
    }
}

/// Tells of what a process tries, with the calls it may have been for.
struct Sentry {
    server: ServerId,
    instance: String,
    cases: Arc<Cases>,
    watch: Arc<dyn Watch>,
}

impl Witness for Sentry {
    fn saw(&self, attempt: sandbox::Attempt) {
        // Repeats are told together, and the last of them may have been made just now.
        let until = match attempt.count {
            1 => attempt.at,
            _ => Clock::system().now(),
        };
        self.watch.tried(Sighting {
            server: self.server.clone(),
            instance: self.instance.clone(),
            open: self.cases.between(attempt.at, until),
            attempt,
        });
    }
}

fn walls(starting: &Starting) -> Confinement {
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

/// Confinement that cannot be built are told apart from a program that cannot be executed.
fn walls_failed(failure: LaunchFailure) -> Failure {
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

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Longer than it takes to end a process by force.
const LONGEST_PARTING: Duration = Duration::from_secs(5);
/// How long a process may stand idle.
pub(crate) const IDLE_STOP: Duration = Duration::from_secs(15 * 60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_belongs_to_the_calls_that_were_open_when_it_was_made() {
        let cases = Cases::default();
        let at = Timestamp::from_micros;
        let case = |tool: &str| OpenCase {
            receipt_id: ReceiptId::parse("rcp_00000000000070008000000000000000").unwrap(),
            tool: Some(tool.to_owned()),
            session: None,
        };
        let named = |from, until| -> Vec<String> {
            let open = cases.between(at(from), at(until));
            open.into_iter().filter_map(|case| case.tool).collect()
        };
        cases.open_at(1, case("one"), at(10));
        cases.close_at(1, at(20));
        cases.open_at(2, case("two"), at(30));
        assert_eq!(named(15, 15), ["one"], "heard of after its end");
        assert_eq!(named(25, 25), [""; 0]);
        assert_eq!(named(35, 35), ["two"]);
        assert_eq!(named(15, 35), ["one", "two"], "repeats may be of both");
        cases.close_at(2, at(3_000_000));
        assert_eq!(named(15, 15), [""; 0], "forgotten");
        assert_eq!(named(35, 35), ["two"]);
    }
}
