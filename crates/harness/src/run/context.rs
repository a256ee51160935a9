//! One run, of an agent or of a pipeline: what it is connected to, its name, its directory, and what it may spend.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use ledger::{Event, HarnessOutput, HarnessResult, HarnessSubject, HarnessWalls, Note};
use sandbox::Launcher;
use tokio::sync::Semaphore;
use vocabulary::ReceiptId;

use crate::config::{Agent, AgentName, Harness, Pipeline};
use crate::feedback::Marker;
use crate::integrity::Watched;
use crate::ports::{HostEnvironment, Progress, Recorder, TokenIssuer, Unavailable};
use crate::released::RecordOfAnother;
use crate::report::AgentReport;
use crate::run_directory::{self, RunDirectory};
use crate::{token_lease, usage};

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
    pub(super) fn take(&self) -> bool {
        let left = self.attempts.as_ref().is_none_or(|attempts| {
            attempts
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1))
                .is_ok()
        });
        left && !self.is_out_of_time()
    }

    /// Whether its time is over.
    pub(super) fn is_out_of_time(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// What is left of `deadline` within it.
    pub(super) fn bound(&self, deadline: Instant) -> Instant {
        self.deadline.map_or(deadline, |budget| budget.min(deadline))
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
    /// A record was about another output than the one to be released.
    #[error(transparent)]
    Record(#[from] RecordOfAnother),
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

    pub(super) fn subject(&self, agent: &AgentName, receipt_id: ReceiptId) -> HarnessSubject {
        HarnessSubject {
            receipt_id,
            run: self.run.clone(),
            pipeline: self.pipeline.clone(),
            agent: agent.to_string(),
        }
    }

    /// What this host lacks for an agent's sandbox.
    pub(super) fn missing_confinement(&self, agent: &Agent) -> Option<String> {
        let walls = &agent.walls;
        let judged = self.setting.launcher.judge(walls.fs, walls.net, walls.tier);
        judged.err().map(|failure| failure.to_string())
    }

    /// The record of what an agent came to.
    pub(super) fn result(&self, agent: &Agent, report: &AgentReport, details: ResultDetails) -> HarnessResult {
        HarnessResult {
            subject: self.subject(&agent.name, report.receipt_id),
            status: report.status,
            reason: report.reason,
            class: report.class(),
            attempts: u32::try_from(report.attempts.len()).unwrap_or(u32::MAX),
            config_hash: self.harness.config_hash,
            schema_hash: agent.output.schema.hash,
            prompt_hash: agent.prompt.hash,
            output: details.output,
            inputs: details.inputs,
            duration_us: u64::try_from(report.took.as_micros()).unwrap_or(u64::MAX),
            usage: usage::sum(report.attempts.iter().filter_map(|note| note.usage)),
            walls: details.confinement,
        }
    }
}

/// What a result's record says beside the report.
#[derive(Default)]
pub(super) struct ResultDetails {
    pub(super) output: Option<HarnessOutput>,
    pub(super) inputs: Vec<ReceiptId>,
    pub(super) confinement: Option<HarnessWalls>,
}

/// How long tokens of others may keep a run from beginning.
const PATIENCE: Duration = Duration::from_secs(10);

/// So many runtimes at a time; the others wait for a seat.
const SEATS: usize = 16;
