//! The course of one agent's run: preparation, attempts with feedback, and the end, whichever it is.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use ledger::{AttemptClass, Event, HarnessOutput, HarnessWalls, Note, RunReason, RunStatus};
use serde_json::json;
use tokio::sync::watch;
use vocabulary::{Digest, ReceiptId, Secret};

use super::released::Published;
use super::turn::Turned;
use super::{Context, Given, Released, Run, RunError, Tail, exit_of};
use crate::config::{Agent, Source};
use crate::contract::{Refusal, Validated};
use crate::feedback::{Feedback, FeedbackLimits};
use crate::hooks::{self, HookEnvironment, Prepared};
use crate::ports::{IssuedToken, Step, Stop, TokenRequest};
use crate::report::{AgentReport, AttemptNote, exit};
use crate::run_directory::{AgentDirectory, put_input, seal_inputs};
use crate::runtime::{Stage, resolve};
use crate::token_lease::TokenLease;

/// One agent's run while it goes on.
pub(super) struct Session<'a> {
    pub(super) context: &'a Context,
    pub(super) agent: &'a Agent,
    pub(super) stop: watch::Receiver<Stop>,
    pub(super) agent_directory: AgentDirectory,
    workspace: PathBuf,
    inputs: PathBuf,
    schema: PathBuf,
    ca: Option<PathBuf>,
    secrets: BTreeMap<String, Secret>,
    pub(super) token: Option<IssuedToken>,
    lease: Option<TokenLease>,
    began: Instant,
    pub(super) deadline: Instant,
    /// The runtime's uid and gid, if they are not ours.
    pub(super) owner: Option<(u32, u32)>,
    pub(super) notes: Vec<AttemptNote>,
    pub(super) confinement: Option<HarnessWalls>,
    receipts: Vec<ReceiptId>,
    last: Option<Refusal>,
    told: Option<String>,
}

/// How the attempts ended.
pub(super) enum Ended {
    Valid(Validated),
    Failed(RunReason),
    Skipped,
}

impl<'a> Session<'a> {
    /// Makes the directories and puts everything into them that the runtime is given.
    pub(super) fn open(
        context: &'a Context,
        agent: &'a Agent,
        given: Given,
        stop: watch::Receiver<Stop>,
    ) -> Result<Self, RunError> {
        let began = Instant::now();
        let secrets = resolve(agent, &context.setting.environment).map_err(RunError::Config)?;
        let disk = RunError::disk;
        let agent_directory = AgentDirectory::make(&context.setting.state, &context.run, agent.name.as_str())
            .map_err(disk("making room"))?;
        let inputs = agent_directory.inputs().map_err(disk("making room for inputs"))?;
        fill(&inputs, &given, &context.run).map_err(disk("writing inputs"))?;
        let workspace = match &agent.walls.workspace {
            Some(path) => path.clone(),
            None => agent_directory.workspace().map_err(disk("making a workspace"))?,
        };
        let name = agent.output.schema.path.file_name().unwrap_or_default();
        let schema = agent_directory
            .give(&name.to_string_lossy(), &agent.output.schema.bytes)
            .map_err(disk("writing the schema's copy"))?;
        if let Some(program) = &context.setting.program {
            agent_directory
                .show_program(program)
                .map_err(disk("naming the self-check"))?;
        }
        let deadline = began + agent.limits.total;
        let deadline = context.budget.deadline.map_or(deadline, |budget| budget.min(deadline));
        Ok(Self {
            receipts: given.released.iter().map(Released::receipt).collect(),
            context,
            agent,
            stop,
            agent_directory,
            workspace,
            inputs,
            schema,
            ca: None,
            secrets,
            token: None,
            lease: None,
            began,
            deadline,
            owner: None,
            notes: Vec::new(),
            confinement: None,
            last: None,
            told: None,
        })
    }

    /// Goes from the preparation to a verdict.
    pub(super) async fn go(&mut self) -> Result<Ended, RunError> {
        let agent = self.agent;
        let agent_name = agent.name.to_string();
        self.context.setting.progress.tell(Step::Started { agent: agent_name });
        if *self.stop.borrow() != Stop::No {
            return Ok(Ended::Failed(RunReason::Stopped));
        }
        let owner = self.stage().owner().map_err(RunError::Config)?;
        self.owner = owner;
        self.agent_directory
            .open_to(owner)
            .map_err(RunError::disk("opening it to the runtime"))?;
        if !agent.servers.is_empty() && !self.ask_for_token().await? {
            return Ok(Ended::Failed(RunReason::Gateway));
        }
        match hooks::before(&self.hook_environment(), agent, &self.inputs).await {
            Ok(Prepared::Ready) => {}
            Ok(Prepared::Skip) => return Ok(Ended::Skipped),
            Err(failure) => {
                let reason = match failure.was_stopped() {
                    true => RunReason::Stopped,
                    false => RunReason::PreHook,
                };
                self.told = Some(failure.to_string());
                return Ok(Ended::Failed(reason));
            }
        }
        seal_inputs(&self.inputs, self.owner).map_err(RunError::disk("sealing inputs"))?;
        self.attempts().await
    }

    async fn ask_for_token(&mut self) -> Result<bool, RunError> {
        let request = TokenRequest {
            sub: self.agent.name.to_string(),
            run: self.context.run.clone(),
            servers: self.agent.servers.clone(),
            lasts: self.agent.limits.total,
        };
        let token = match self.context.setting.tokens.issue(request).await {
            Ok(token) => token,
            Err(error) => {
                let causes = std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source());
                let causes: Vec<String> = causes.map(ToString::to_string).collect();
                self.told = Some(causes.join(": "));
                return Ok(false);
            }
        };
        // First of all, so that whatever fails from here on the token is taken back.
        let token = self.token.insert(token);
        let name = format!("{}-{}", self.context.run, self.agent.name);
        let lease = TokenLease::write(&self.context.setting.state, &name, (&token.id, self.agent.limits.total));
        self.lease = Some(lease.map_err(RunError::disk("writing down that a token is in use"))?);
        if let Some(path) = &token.ca {
            let bytes = std::fs::read(path).map_err(RunError::disk("reading the gateway's CA"))?;
            let copy = self.agent_directory.give("gateway-ca.pem", &bytes);
            self.ca = Some(copy.map_err(RunError::disk("writing the CA's copy"))?);
        }
        Ok(true)
    }

    async fn attempts(&mut self) -> Result<Ended, RunError> {
        let retry = &self.agent.retry;
        let most = retry.max_retries + 1;
        let mut feedback: Option<Feedback> = None;
        let mut before: Option<Digest> = None;
        for number in 1..=most {
            if Instant::now() >= self.deadline {
                return Ok(Ended::Failed(self.out_of_time()));
            }
            if !self.context.budget.take() {
                return Ok(Ended::Failed(RunReason::Budget));
            }
            let (class, refusal, output) = match self.turn((number, most), feedback.as_ref()).await? {
                Turned::Valid(validated) => return Ok(Ended::Valid(validated)),
                Turned::Stopped => return Ok(Ended::Failed(RunReason::Stopped)),
                Turned::NotStarted(told) => {
                    self.told = Some(told);
                    return Ok(Ended::Failed(RunReason::Sandbox));
                }
                Turned::Changed(path) => {
                    self.told = Some(format!(
                        "`{}` changed while the runtime ran; look at who can write it",
                        path.display()
                    ));
                    return Ok(Ended::Failed(RunReason::Integrity));
                }
                Turned::Refused { class, refusal, output } => (class, refusal, output),
            };
            let same = output.is_some() && output == before;
            before = output;
            self.last = refusal;
            if class == AttemptClass::Timeout && Instant::now() >= self.deadline {
                return Ok(Ended::Failed(self.out_of_time()));
            }
            if number == most || !retry.on.contains(&class) {
                return Ok(Ended::Failed(RunReason::Exhausted));
            }
            if same {
                // ADR 0041: who repeats the failed bytes has not read the feedback.
                return Ok(Ended::Failed(RunReason::SameOutput));
            }
            feedback = Some(self.feedback(class, number + 1));
        }
        Ok(Ended::Failed(RunReason::Exhausted))
    }

    fn out_of_time(&self) -> RunReason {
        match self
            .context
            .budget
            .deadline
            .is_some_and(|deadline| Instant::now() >= deadline)
        {
            true => RunReason::Budget,
            false => RunReason::TotalTime,
        }
    }

    fn feedback(&self, class: AttemptClass, next: u32) -> Feedback {
        let limits = FeedbackLimits {
            max_bytes: self.agent.retry.max_bytes,
            max_items: self.agent.retry.max_items,
        };
        let target = match &self.agent.output.from {
            Source::Stdout => "standard output".to_owned(),
            Source::File(name) => {
                let path = self.agent_directory.output_path(next).join(name).display().to_string();
                // A path that would have to be changed to be told is better named.
                match path.is_ascii() && path.len() <= 150 {
                    true => path,
                    false => "the file that HARNESS_OUTPUT_FILE names".to_owned(),
                }
            }
        };
        let nothing = Refusal {
            class,
            guard: None,
            violations: Vec::new(),
        };
        Feedback::of(
            self.last.as_ref().unwrap_or(&nothing),
            &target,
            &self.context.marker,
            limits,
        )
    }

    pub(super) fn stage(&self) -> Stage<'_> {
        Stage {
            harness: &self.context.harness,
            agent: self.agent,
            run: &self.context.run,
            state: &self.context.setting.state,
            agent_directory: &self.agent_directory,
            workspace: self.workspace.clone(),
            inputs: self.inputs.clone(),
            schema: self.schema.clone(),
            program: self.context.setting.program.clone(),
            secrets: self.secrets.clone(),
            token: self.token.as_ref(),
            ca: self.ca.clone(),
        }
    }

    fn hook_environment(&self) -> HookEnvironment<'_> {
        HookEnvironment {
            root: &self.context.harness.root,
            run: &self.context.run,
            directory: &self.context.directory,
            environment: &self.context.setting.environment,
            deadline: self.deadline,
            stop: &self.stop,
        }
    }

    /// Revokes the token. One that cannot be revoked is left to the next run, and ends by itself with this one's time.
    pub(super) async fn take_token_back(&mut self) {
        let Some(token) = self.token.take() else { return };
        match (self.context.setting.tokens.revoke(token.id).await, self.lease.take()) {
            (Ok(()), lease) => lease.into_iter().for_each(TokenLease::end),
            (Err(error), _) => {
                let told = format!("the run's token could not be revoked: {error}");
                self.told.get_or_insert(told);
            }
        }
    }

    /// Publishes, records, releases and applies; or records the failure.
    pub(super) async fn close(mut self, ended: Ended) -> Result<Run, RunError> {
        let validated = match ended {
            Ended::Valid(validated) => validated,
            Ended::Failed(reason) => return self.finish(RunStatus::Failed, reason).await,
            Ended::Skipped => return self.finish(RunStatus::Skipped, RunReason::SkippedByHook).await,
        };
        let published = Published::put(&self.context.directory, &self.agent.name, validated)
            .map_err(RunError::disk("publishing the output"))?;
        let mut report = self.report(RunStatus::Ok, RunReason::Valid);
        report.output = Some((published.path().to_owned(), published.validated().hash()));
        let output = HarnessOutput {
            bytes: published.validated().size(),
            hash: published.validated().hash(),
        };
        if let Err(error) = self.record(&report, Some(output)).await {
            published.withdraw();
            return Err(error);
        }
        self.context
            .watched
            .add(published.path().to_owned(), published.validated().hash());
        let released = published.release(report.receipt_id);
        let applied = hooks::after(&self.hook_environment(), self.agent, &released).await;
        let released = match applied {
            Ok(()) => Some(released),
            Err(failure) => {
                let note = Note::refused(
                    "harness.post_hook",
                    "harness",
                    Some(&self.context.run),
                    &failure.to_string(),
                );
                self.context.setting.recorder.record(Event::Admin(note)).await?;
                report.exit = match failure.was_stopped() {
                    true => exit::BROKEN,
                    false => exit::POST_HOOK,
                };
                report.told = Some(failure.to_string());
                None
            }
        };
        self.tell(&report);
        Ok(Run { report, released })
    }

    async fn finish(&mut self, status: RunStatus, reason: RunReason) -> Result<Run, RunError> {
        let report = self.report(status, reason);
        self.record(&report, None).await?;
        self.tell(&report);
        Ok(Run { report, released: None })
    }

    fn report(&mut self, status: RunStatus, reason: RunReason) -> AgentReport {
        let mut report = AgentReport {
            agent: self.agent.name.clone(),
            status,
            reason,
            attempts: std::mem::take(&mut self.notes),
            violations: match status {
                RunStatus::Failed => self.last.take().map(|last| last.violations).unwrap_or_default(),
                RunStatus::Ok | RunStatus::Skipped => Vec::new(),
            },
            exit: 0,
            receipt_id: ReceiptId::mint(),
            output: None,
            took: self.began.elapsed(),
            told: self.told.take(),
        };
        report.exit = exit_of(&report);
        report
    }

    async fn record(&self, report: &AgentReport, output: Option<HarnessOutput>) -> Result<(), RunError> {
        let tail = Tail {
            output,
            inputs: self.receipts.clone(),
            confinement: self.confinement.clone(),
        };
        self.context.record_result(self.agent, report, &tail).await
    }

    fn tell(&self, report: &AgentReport) {
        self.context.setting.progress.tell(Step::Ended {
            agent: report.agent.to_string(),
            status: report.status,
            reason: report.reason,
            took: report.took.max(Duration::ZERO),
        });
    }
}

/// Files of the caller's, copies of validated outputs, and what they are.
fn fill(folder: &std::path::Path, given: &Given, run: &str) -> std::io::Result<()> {
    for (name, bytes) in given.files.iter() {
        put_input(folder, name, bytes)?;
    }
    if given.released.is_empty() && given.failed.is_empty() {
        return Ok(());
    }
    for released in &given.released {
        put_input(folder, &format!("{}.json", released.agent()), released.bytes())?;
    }
    let inputs: Vec<_> = given
        .released
        .iter()
        .map(|released| {
            json!({
                "agent": released.agent().as_str(),
                "file": format!("{}.json", released.agent()),
                "schema_hash": released.schema().to_string(),
                "output_hash": released.hash().to_string(),
                "receipt_id": released.receipt().to_string(),
            })
        })
        .collect();
    let failed: Vec<_> = given
        .failed
        .iter()
        .map(|report| {
            json!({
                "agent": report.agent.as_str(),
                "status": "failed",
                "class": report.class().map(AttemptClass::as_str),
                "receipt_id": report.receipt_id.to_string(),
            })
        })
        .collect();
    let manifest = json!({ "v": 1, "run": run, "inputs": inputs, "failed": failed });
    put_input(folder, "manifest.json", manifest.to_string().as_bytes())
}
