//! A run of one agent: hooks, attempts, judgement, publishing, records, in this order. What leaves it is [`Released`],
//! or a failure without a byte of output.
//! ADR 0045: a run is recorded before it begins.

mod released;
mod session;
mod turn;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use ledger::{Event, HarnessResult, HarnessSubject, HarnessWalls, Note, RunReason, RunStatus};
use sandbox::Launcher;
use tokio::sync::{Semaphore, watch};
use vocabulary::ReceiptId;

pub use released::{Lookup, Released};

use crate::config::{Agent, AgentName, Harness, Pipeline};
use crate::feedback::Marker;
use crate::integrity::Watched;
use crate::ports::{HostEnvironment, Progress, Recorder, Stop, TokenIssuer, Unavailable};
use crate::report::{AgentReport, code};
use crate::run_directory::{self, RunDirectory};
use crate::token_lease;

/// What the app connects a run to.
#[derive(Clone)]
pub struct Setting {
    /// The state directory: run directories and the log.
    pub state: PathBuf,
    /// Starts sandboxes.
    pub launcher: Arc<Launcher>,
    /// Writes records.
    pub recorder: Arc<dyn Recorder>,
    /// Makes tokens.
    pub tokens: Arc<dyn TokenIssuer>,
    /// Tells people.
    pub progress: Arc<dyn Progress>,
    /// The harness's own environment.
    pub environment: HostEnvironment,
    /// The binary that runtimes check themselves with.
    pub program: Option<PathBuf>,
}

/// One run, of an agent or of a pipeline.
pub struct Context {
    pub(crate) setting: Setting,
    pub(crate) harness: Arc<Harness>,
    pub(crate) run: String,
    pub(crate) directory: RunDirectory,
    pub(crate) watched: Watched,
    pub(crate) marker: Marker,
    pub(crate) pipeline: Option<String>,
    pub(crate) budget: Budget,
    pub(crate) seats: Semaphore,
}

/// What a pipeline may spend.
#[derive(Debug)]
pub(crate) struct Budget {
    attempts: Option<AtomicU32>,
    deadline: Option<Instant>,
}

impl Budget {
    fn of(pipeline: Option<&Pipeline>) -> Self {
        Self {
            attempts: pipeline.and_then(|pipeline| pipeline.attempts).map(AtomicU32::new),
            deadline: pipeline
                .and_then(|pipeline| pipeline.time)
                .map(|time| Instant::now() + time),
        }
    }

    /// Takes one attempt out of it; `false` if there is none left.
    fn take(&self) -> bool {
        let left = self.attempts.as_ref().is_none_or(|attempts| {
            attempts
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1))
                .is_ok()
        });
        left && self.deadline.is_none_or(|deadline| Instant::now() < deadline)
    }
}

/// Why a run could not be carried out at all. Nothing was released.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The declaration does not fit this machine; nothing ran.
    #[error("the harness does not fit this machine:\n{}", .0.join("\n"))]
    Config(Vec<String>),
    /// This host cannot build a sandbox that is asked for; nothing ran.
    #[error("{0}")]
    Sandbox(String),
    /// Something outside did not do its work.
    #[error(transparent)]
    Outside(#[from] Unavailable),
    /// The disk failed.
    #[error("the run's directory cannot be used: {what}")]
    Disk {
        /// What was being done.
        what: &'static str,
        /// The cause.
        source: std::io::Error,
    },
}

impl RunError {
    pub(crate) fn disk(what: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Disk { what, source }
    }
}

/// Files by the names under which an agent finds them.
pub type InputFiles = Arc<Vec<(String, Vec<u8>)>>;

/// What an agent is given.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// Files of the caller's, by name.
    pub files: InputFiles,
    /// Outputs of earlier agents.
    pub released: Vec<Released>,
    /// Earlier agents that failed and may have.
    pub failed: Vec<AgentReport>,
}

/// What came of an agent.
#[derive(Clone, Debug)]
pub struct Run {
    /// For people and programs.
    pub report: AgentReport,
    /// The output, if it was valid, published and recorded, and its hooks went well.
    pub released: Option<Released>,
}

impl Context {
    /// Begins a run: its name, its directory, and the record that says so. A log that cannot be written is found here,
    /// before anything costs money.
    ///
    /// # Errors
    /// When the run could not be recorded or has no place.
    pub async fn begin(
        setting: Setting,
        harness: Arc<Harness>,
        pipeline: Option<&Pipeline>,
        what: &str,
    ) -> Result<Self, RunError> {
        let id = ReceiptId::mint().to_string();
        let run = id.replacen("rcp_", "run_", 1);
        let directory = RunDirectory::make(&setting.state, &run).map_err(RunError::disk("making it"))?;
        let state = setting.state.clone();
        // What another run left behind is no reason to fail this one.
        let _ = tokio::task::spawn_blocking(move || run_directory::sweep(&state)).await;
        let back = token_lease::take_back(&setting.state, setting.tokens.as_ref());
        let _ = tokio::time::timeout(PATIENCE, back).await;
        let marker = Marker::draw()
            .ok_or_else(|| Unavailable::new("no mark for feedback can be drawn", "the system has no randomness"))?;
        let watched = Watched::new(harness.watched.clone(), &setting.state);
        let note = Note::done("harness.start", "harness", Some(&run), what);
        setting.recorder.record(Event::Admin(note)).await?;
        let text = serde_json::json!({ "run": run, "what": what, "status": "running" }).to_string();
        directory.note(&text).map_err(RunError::disk("writing run.json"))?;
        Ok(Self {
            budget: Budget::of(pipeline),
            pipeline: pipeline.map(|pipeline| pipeline.name.clone()),
            setting,
            harness,
            run,
            directory,
            watched,
            marker,
            seats: Semaphore::new(SEATS),
        })
    }

    /// Ends the run: what it came to stands in its directory.
    ///
    /// # Errors
    /// When that cannot be written.
    pub fn end(&self, status: &str) -> Result<(), RunError> {
        let text = serde_json::json!({ "run": self.run, "status": status }).to_string();
        self.directory.note(&text).map_err(RunError::disk("writing run.json"))
    }

    /// The run's name.
    #[must_use]
    pub fn run(&self) -> &str {
        &self.run
    }

    /// The run's directory.
    #[must_use]
    pub fn directory(&self) -> &std::path::Path {
        self.directory.path()
    }

    pub(crate) fn agent(&self, name: &AgentName) -> Result<&Agent, RunError> {
        let unknown = || RunError::Config(vec![format!("no agent `{name}` is declared")]);
        self.harness.agents.get(name).ok_or_else(unknown)
    }

    fn subject(&self, agent: &AgentName, receipt_id: ReceiptId) -> HarnessSubject {
        HarnessSubject {
            receipt_id,
            run: self.run.clone(),
            pipeline: self.pipeline.clone(),
            agent: agent.to_string(),
        }
    }

    /// Looks whether an agent could be started here at all.
    ///
    /// # Errors
    /// What keeps it from starting.
    pub fn preflight(&self, name: &AgentName) -> Result<(), RunError> {
        let agent = self.agent(name)?;
        if let Some(told) = self.missing_confinement(agent) {
            return Err(RunError::Sandbox(format!("agents.{name}: {told}")));
        }
        let (_, stop) = watch::channel(Stop::No);
        let session = session::Session::open(self, agent, Given::default(), stop)?;
        session.stage().owner().map_err(RunError::Config).map(drop)
    }

    /// What this host lacks for an agent's sandbox.
    fn missing_confinement(&self, agent: &Agent) -> Option<String> {
        let strength = self.setting.launcher.strength();
        let (fs, net) = (agent.walls.fs, agent.walls.net);
        (!strength.tier.offers(fs, net)).then(|| {
            format!(
                "this host gives sandboxes of tier {}, which do not offer fs = \"{}\" with net = \"{}\": {}; see `portreeve doctor`",
                strength.tier.as_str(),
                fs.as_str(),
                net.as_str(),
                strength.missing_text()
            )
        })
    }

    /// Records that an agent did not have to run.
    pub(crate) async fn skip(&self, name: &AgentName, reason: RunReason) -> Result<Run, RunError> {
        self.not_run(name, (RunStatus::Skipped, reason), None).await
    }

    /// Records that an agent was never started.
    async fn not_run(
        &self,
        name: &AgentName,
        (status, reason): (RunStatus, RunReason),
        told: Option<String>,
    ) -> Result<Run, RunError> {
        let agent = self.agent(name)?;
        let report = AgentReport {
            agent: name.clone(),
            status,
            reason,
            attempts: Vec::new(),
            violations: Vec::new(),
            exit: code(status, reason, None),
            receipt_id: ReceiptId::mint(),
            output: None,
            took: Duration::ZERO,
            told,
        };
        self.record_result(agent, &report, &Tail::default()).await?;
        Ok(Run { report, released: None })
    }

    /// Writes the record of a result. What it says must not have been seen by anybody before.
    async fn record_result(&self, agent: &Agent, report: &AgentReport, tail: &Tail) -> Result<(), RunError> {
        let usage = crate::usage::sum(report.attempts.iter().filter_map(|note| note.usage));
        let result = HarnessResult {
            subject: self.subject(&agent.name, report.receipt_id),
            status: report.status,
            reason: report.reason,
            class: report.class(),
            attempts: u32::try_from(report.attempts.len()).unwrap_or(u32::MAX),
            config_hash: self.harness.config_hash,
            schema_hash: agent.output.schema.hash,
            prompt_hash: agent.prompt.hash,
            output: tail.output,
            inputs: tail.inputs.clone(),
            duration_us: u64::try_from(report.took.as_micros()).unwrap_or(u64::MAX),
            usage,
            walls: tail.confinement.clone(),
        };
        Ok(self
            .setting
            .recorder
            .record(Event::HarnessResult(Box::new(result)))
            .await?)
    }
}

/// What a result's record says beside the report.
#[derive(Default)]
struct Tail {
    output: Option<ledger::HarnessOutput>,
    inputs: Vec<ReceiptId>,
    confinement: Option<HarnessWalls>,
}

/// Runs an agent to its end.
///
/// # Errors
/// When the run could not be carried out; nothing was released then.
pub async fn run_agent(
    context: &Context,
    name: &AgentName,
    given: Given,
    stop: watch::Receiver<Stop>,
) -> Result<Run, RunError> {
    let agent = context.agent(name)?;
    if let Some(told) = context.missing_confinement(agent) {
        let failed = (RunStatus::Failed, RunReason::Sandbox);
        return context.not_run(name, failed, Some(told)).await;
    }
    let _seat = context.seats.acquire().await;
    let mut session = session::Session::open(context, agent, given, stop)?;
    let ended = session.go().await;
    // Whatever happened, the token is good for nothing from here on.
    session.take_token_back().await;
    session.close(ended?).await
}

/// The exit code that goes with a report.
fn exit_of(report: &AgentReport) -> u8 {
    code(report.status, report.reason, report.class())
}

/// How long tokens of others may keep a run from beginning.
const PATIENCE: Duration = Duration::from_secs(10);

/// So many runtimes at a time; the others wait for a seat.
const SEATS: usize = 16;
