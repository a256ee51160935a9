//! Carries a pipeline out as it is declared: stages in order, agents of a stage at the same time, each output judged on
//! its own. No model decides what runs. A failure stops whoever needs it, and those who run beside it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ledger::{RunReason, RunStatus};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::config::{AgentName, Condition, Pipeline, Stage};
use crate::ports::Stop;
use crate::released::{Lookup, Released};
use crate::report::{AgentReport, exit, millis};
use crate::run::{Context, Given, InputFiles, Run, RunError, preflight, run_agent, skip};

/// What a pipeline came to.
#[derive(Clone, Debug)]
pub struct PipelineReport {
    /// Its name.
    pub pipeline: String,
    /// Every agent that ran or was skipped, in the order of the declaration.
    pub agents: Vec<AgentReport>,
    /// The exit code.
    pub exit: u8,
    /// The output of the last stage, if that is one agent and it ran.
    pub last: Option<Released>,
    /// How long all of it took.
    pub took: Duration,
}

impl PipelineReport {
    /// Those that failed, or whose hooks did.
    pub fn failed(&self) -> impl Iterator<Item = &AgentReport> {
        self.agents.iter().filter(|report| is_failure(report))
    }

    /// The object for programs.
    #[must_use]
    pub fn to_json(&self, run: &str, directory: &Path) -> Value {
        let objects = |reports: Vec<&AgentReport>| -> Vec<Value> {
            reports.iter().map(|report| report.to_json(run, directory)).collect()
        };
        json!({
            "run": run,
            "directory": directory.display().to_string(),
            "pipeline": self.pipeline,
            "failed": objects(self.failed().collect()),
            "agents": objects(self.agents.iter().collect()),
            "attempts": self.agents.iter().map(|report| report.attempts.len()).sum::<usize>(),
            "duration_ms": millis(self.took),
            "exit": self.exit,
        })
    }
}

fn is_failure(report: &AgentReport) -> bool {
    report.status == RunStatus::Failed || report.exit != exit::OK
}

/// Runs a pipeline to its end. `files` are given to every agent.
///
/// # Errors
/// When it could not be carried out at all.
pub async fn run_pipeline(
    context: &Arc<Context>,
    pipeline: &Pipeline,
    files: InputFiles,
    stop: watch::Receiver<Stop>,
) -> Result<PipelineReport, RunError> {
    let began = Instant::now();
    // What can be known to fail is found before anything costs money.
    pipeline.agents().try_for_each(|agent| preflight(context, agent))?;
    let mut course = Course {
        context,
        pipeline,
        files,
        done: BTreeMap::new(),
        halt: halting(stop),
    };
    let mut outcome = Outcome::Whole;
    for stage in &pipeline.stages {
        outcome = course.stage(stage).await?;
        if outcome == Outcome::Broken {
            break;
        }
    }
    let agents: Vec<AgentReport> = pipeline
        .agents()
        .filter_map(|agent| course.done.get(agent).map(|run| run.report.clone()))
        .collect();
    let last = match (outcome, pipeline.stages.last().map(|stage| stage.agents.as_slice())) {
        (Outcome::Whole, Some([only])) => course.done.get(only).and_then(|run| run.released.clone()),
        (Outcome::Whole | Outcome::Broken, _) => None,
    };
    Ok(PipelineReport {
        pipeline: pipeline.name.clone(),
        agents,
        exit: match outcome {
            Outcome::Whole => exit::OK,
            Outcome::Broken => exit::PIPELINE,
        },
        last,
        took: began.elapsed(),
    })
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Outcome {
    Whole,
    Broken,
}

/// A switch of our own that the caller's turns too.
fn halting(mut stop: watch::Receiver<Stop>) -> watch::Sender<Stop> {
    let (halt, _) = watch::channel(Stop::No);
    let forward = halt.clone();
    tokio::spawn(async move {
        Stop::from(Stop::Caller, &mut stop).await;
        forward.send_replace(Stop::Caller);
    });
    halt
}

struct Course<'a> {
    context: &'a Arc<Context>,
    pipeline: &'a Pipeline,
    files: InputFiles,
    done: BTreeMap<AgentName, Run>,
    halt: watch::Sender<Stop>,
}

impl Course<'_> {
    async fn stage(&mut self, stage: &Stage) -> Result<Outcome, RunError> {
        let given = match self.given(stage) {
            Ok(given) => given,
            Err(reason) => {
                for agent in &stage.agents {
                    let run = skip(self.context, agent, reason).await?;
                    self.done.insert(agent.clone(), run);
                }
                return Ok(Outcome::Whole);
            }
        };
        let mut running = JoinSet::new();
        for agent in &stage.agents {
            let (context, agent, given) = (self.context.clone(), agent.clone(), given.clone());
            let stop = self.halt.subscribe();
            running.spawn(async move {
                let run = run_agent(&context, &agent, given, stop).await;
                (agent, run)
            });
        }
        let mut outcome = Outcome::Whole;
        let mut error = None;
        while let Some(joined) = running.join_next().await {
            let Ok((agent, run)) = joined else {
                outcome = Outcome::Broken;
                continue;
            };
            let broken = match &run {
                Ok(run) => is_failure(&run.report) && !self.pipeline.bears_failure_of(&agent),
                Err(_) => true,
            };
            if broken {
                outcome = Outcome::Broken;
                self.halt.send_if_modified(|stop| match stop {
                    Stop::No => {
                        *stop = Stop::Beside;
                        true
                    }
                    Stop::Beside | Stop::Caller => false,
                });
            }
            match run {
                Ok(run) => drop(self.done.insert(agent, run)),
                Err(failure) => drop(error.get_or_insert(failure)),
            }
        }
        match error {
            Some(error) => Err(error),
            None => Ok(outcome),
        }
    }

    /// What the agents of a stage are given, or why they do not run.
    fn given(&self, stage: &Stage) -> Result<Given, RunReason> {
        if let Some(condition) = &stage.when {
            self.decide(condition)?;
        }
        let mut given = Given {
            files: self.files.clone(),
            ..Given::default()
        };
        for need in &stage.needs {
            match self.done.get(need) {
                Some(Run {
                    released: Some(released),
                    ..
                }) => given.released.push(released.clone()),
                Some(Run { report, .. }) if report.status == RunStatus::Skipped => return Err(RunReason::NeedSkipped),
                // Only a failure that the stage allows gets here; any other has ended the pipeline.
                Some(Run { report, .. }) => given.failed.push(report.clone()),
                None => return Err(RunReason::NeedSkipped),
            }
        }
        Ok(given)
    }

    /// Asks a validated output; without one a condition does not hold.
    fn decide(&self, condition: &Condition) -> Result<(), RunReason> {
        let released = self.done.get(&condition.from).and_then(|run| run.released.as_ref());
        match released.map(|released| released.decide(condition)) {
            Some(Lookup::Holds) => Ok(()),
            Some(Lookup::Differs) | None => Err(RunReason::ConditionFalse),
            Some(Lookup::Missing) => Err(RunReason::PointerMissing),
        }
    }
}
