//! The end of an agent's run: publish, record, release, apply; or record the failure.

use std::time::Duration;

use ledger::{Event, HarnessOutput, Note, RunReason, RunStatus};
use schema::Violation;
use vocabulary::ReceiptId;

use super::agent_run::AgentRun;
use super::attempt::Made;
use super::attempts::{Outcome, Verdict};
use super::context::{Context, ResultDetails, RunError};
use crate::config::Agent;
use crate::contract::Validated;
use crate::hooks;
use crate::ports::Step;
use crate::record::{Recorded, record_result};
use crate::released::{Published, Released};
use crate::report::{AgentReport, code, exit};
use crate::runtime::Provided;

/// What came of an agent.
#[derive(Clone, Debug)]
pub struct Run {
    /// For people and programs.
    pub report: AgentReport,
    /// The output, if it was valid, published and recorded, and its hooks went well.
    pub released: Option<Released>,
}

/// A run with its verdict: the runtime is dead, and its token revoked or named as not revoked.
pub(super) struct Ended<'a> {
    pub(super) run: AgentRun<'a>,
    /// Taken away with this.
    pub(super) provided: Provided,
    pub(super) inputs: Vec<ReceiptId>,
    pub(super) outcome: Outcome,
    /// What is told of a token that could not be revoked.
    pub(super) unrevoked: Option<String>,
}

impl Ended<'_> {
    /// Publishes, records, releases and applies; or records the failure.
    pub(super) async fn close(self) -> Result<Run, RunError> {
        let Outcome { verdict, attempts } = self.outcome;
        let closing = Closing {
            run: self.run,
            // Lives until the last hook has ended.
            _provided: self.provided,
            inputs: self.inputs,
            attempts,
        };
        let unrevoked = self.unrevoked;
        match verdict {
            Verdict::Valid(validated) => closing.publish(validated, unrevoked).await,
            Verdict::Failed {
                reason,
                violations,
                told,
            } => {
                let report = closing.report(RunStatus::Failed, reason, violations, told.or(unrevoked));
                closing.finish(report).await
            }
            Verdict::Skipped => {
                let report = closing.report(RunStatus::Skipped, RunReason::SkippedByHook, Vec::new(), unrevoked);
                closing.finish(report).await
            }
        }
    }
}

struct Closing<'a> {
    run: AgentRun<'a>,
    _provided: Provided,
    inputs: Vec<ReceiptId>,
    attempts: Vec<Made>,
}

impl Closing<'_> {
    async fn publish(self, validated: Validated, told: Option<String>) -> Result<Run, RunError> {
        let (context, agent) = (self.run.context, self.run.agent);
        let published = Published::put(&context.directory, &agent.name, validated)
            .map_err(RunError::disk("publishing the output"))?;
        let (path, hash) = (published.path().to_owned(), published.validated().hash());
        let mut report = self.report(RunStatus::Ok, RunReason::Valid, Vec::new(), told);
        report.output = Some((path.clone(), hash));
        let output = HarnessOutput {
            bytes: published.validated().size(),
            hash,
        };
        let recorded = match self.record(&report, Some(output)).await {
            Ok(recorded) => recorded,
            Err(error) => {
                published.withdraw();
                return Err(error);
            }
        };
        let released = published.release(recorded)?;
        context.watched.add(path, hash);
        let released = self.apply(released, &mut report).await?;
        self.tell(&report);
        Ok(Run { report, released })
    }

    /// Runs the hooks after publishing; what they do not apply goes no further.
    async fn apply(&self, released: Released, report: &mut AgentReport) -> Result<Option<Released>, RunError> {
        let Err(failure) = hooks::after(&self.run.hook_environment(), &released).await else {
            return Ok(Some(released));
        };
        let context = self.run.context;
        let told = failure.to_string();
        let note = Note::refused("harness.post_hook", "harness", Some(&context.run), &told);
        context.setting.recorder.record(Event::Admin(note)).await?;
        report.exit = match failure.was_stopped() {
            true => exit::BROKEN,
            false => exit::POST_HOOK,
        };
        report.told = Some(told);
        Ok(None)
    }

    async fn finish(self, report: AgentReport) -> Result<Run, RunError> {
        self.record(&report, None).await?;
        self.tell(&report);
        Ok(Run { report, released: None })
    }

    fn report(
        &self,
        status: RunStatus,
        reason: RunReason,
        violations: Vec<Violation>,
        told: Option<String>,
    ) -> AgentReport {
        let class = self.attempts.last().map(|made| made.note.class);
        AgentReport {
            agent: self.run.agent.name.clone(),
            status,
            reason,
            attempts: self.attempts.iter().map(|made| made.note.clone()).collect(),
            violations,
            exit: code(status, reason, class),
            receipt_id: ReceiptId::mint(),
            output: None,
            took: self.run.began.elapsed(),
            told,
        }
    }

    async fn record(&self, report: &AgentReport, output: Option<HarnessOutput>) -> Result<Recorded, RunError> {
        let context = self.run.context;
        let details = ResultDetails {
            output,
            inputs: self.inputs.clone(),
            confinement: self.attempts.iter().rev().find_map(|made| made.confinement.clone()),
        };
        let result = context.result(self.run.agent, report, details);
        Ok(record_result(context.setting.recorder.as_ref(), result).await?)
    }

    fn tell(&self, report: &AgentReport) {
        self.run.tell(Step::Ended {
            agent: report.agent.to_string(),
            status: report.status,
            reason: report.reason,
            took: report.took,
        });
    }
}

/// Records that an agent was never started.
pub(super) async fn never_started(
    context: &Context,
    agent: &Agent,
    status: RunStatus,
    reason: RunReason,
    told: Option<String>,
) -> Result<Run, RunError> {
    let report = AgentReport {
        agent: agent.name.clone(),
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
    let result = context.result(agent, &report, ResultDetails::default());
    record_result(context.setting.recorder.as_ref(), result).await?;
    Ok(Run { report, released: None })
}
