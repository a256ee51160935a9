//! `harness`: runs agents and hands on what fits their schemas. Standard output is a validated document, byte for byte,
//! or nothing; everything else goes to standard error.

mod inputs;
mod inspect;
mod progress;
mod records;
mod setting;
mod signals;
mod tokens;
mod words;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Subcommand;
use harness::{
    AgentName, Context, Given, Harness, LOCK_FILE, Lock, Request, RunError, check_unlocked, exit, run_agent,
    run_pipeline,
};

use self::inputs::Unread;
use self::progress::Show;
use self::signals::Signals;
use self::words::{Ending, Form};

/// See `harness check|lock|run|pipeline|validate --help`.
#[derive(Subcommand)]
pub(super) enum HarnessCommand {
    /// Check harness.toml, schemas and lock, report every fault at once, start nothing
    Check(inspect::Check),
    /// Write harness.lock: which schema, prompt, command, hooks, limits and pipelines go together
    Lock,
    /// Run one agent and print its validated output
    Run(RunOne),
    /// Run a pipeline and print the validated output of its last stage
    Pipeline(RunPipeline),
    /// Judge one file by a schema, as the harness would
    Validate(inspect::Validate),
}

#[derive(clap::Args)]
pub(super) struct RunOne {
    /// The agent's name in harness.toml
    #[arg(value_name = "AGENT")]
    agent: String,
    #[command(flatten)]
    options: RunOptions,
}

#[derive(clap::Args)]
pub(super) struct RunPipeline {
    /// The pipeline's name in harness.toml
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    options: RunOptions,
}

#[derive(clap::Args)]
struct RunOptions {
    /// A file for HARNESS_INPUT_DIR, under this name; may be given several times
    #[arg(long = "input", value_name = "NAME=PATH", value_parser = inputs::parse)]
    inputs: Vec<(String, PathBuf)>,
    /// One JSON object on standard error instead of words
    #[arg(long)]
    json: bool,
}

impl RunOptions {
    fn form(&self) -> Form {
        match self.json {
            true => Form::Json,
            false => Form::Words,
        }
    }
}

impl HarnessCommand {
    pub(super) async fn run(self, config: Option<&Path>) -> anyhow::Result<ExitCode> {
        let directory = std::env::current_dir()?;
        let code = match self {
            Self::Check(check) => check.run(&directory, config)?,
            Self::Lock => inspect::lock(&directory, config)?,
            Self::Validate(validate) => validate.run()?,
            Self::Run(one) => one.run(&directory, config).await?,
            Self::Pipeline(pipeline) => pipeline.run(&directory, config).await?,
        };
        Ok(ExitCode::from(code))
    }
}

impl RunOne {
    async fn run(self, directory: &Path, config: Option<&Path>) -> anyhow::Result<u8> {
        // First of all: from here on a signal ends the run in good order.
        let signals = Signals::watch()?;
        let form = self.options.form();
        let ending = Ending::of_agent(form, &self.agent);
        let harness = match load(directory, config) {
            Ok(harness) => harness,
            Err(faults) => return ending.never_began(exit::CONFIG, &faults),
        };
        let Some(agent) = AgentName::parse(&self.agent).filter(|name| harness.agents.contains_key(name)) else {
            return ending.never_began(exit::USAGE, "harness.toml declares no such agent");
        };
        let files = match inputs::read(&self.options.inputs, &harness, signals.stop()).await {
            Ok(files) => files,
            Err(Unread::Wrong(told)) => return ending.never_began(exit::USAGE, &told),
            Err(Unread::Stopped) => return ending.never_began(signals.code().unwrap_or(exit::BROKEN), STOPPED),
        };
        let show = Show::new(form, [agent.as_str()]);
        let setting = match setting::open(directory, config, show.clone()).await {
            Ok(setting) => setting,
            Err(error) => return ending.never_began(exit::CONFIG, &format!("{error:#}")),
        };
        let what = format!("agent {agent}");
        let context = match Context::begin(setting, Arc::new(harness), None, &what).await {
            Ok(context) => context,
            Err(error) => return ending.broke(None, &error),
        };
        let given = Given {
            files,
            ..Given::default()
        };
        let run = run_agent(&context, &agent, given, signals.stop()).await;
        show.close();
        let run = match run {
            Ok(run) => run,
            Err(error) => {
                context.end("broken")?;
                return ending.broke(Some(&context), &error);
            }
        };
        context.end(run.report.status.as_str())?;
        ending.ended(&context, &run, signals.code())
    }
}

impl RunPipeline {
    async fn run(self, directory: &Path, config: Option<&Path>) -> anyhow::Result<u8> {
        // First of all: from here on a signal ends the run in good order.
        let signals = Signals::watch()?;
        let form = self.options.form();
        let ending = Ending::of_pipeline(form, &self.name);
        let harness = match load(directory, config) {
            Ok(harness) => harness,
            Err(faults) => return ending.never_began(exit::CONFIG, &faults),
        };
        let Some(pipeline) = harness.pipelines.get(&self.name).cloned() else {
            return ending.never_began(exit::USAGE, "harness.toml declares no such pipeline");
        };
        let files = match inputs::read(&self.options.inputs, &harness, signals.stop()).await {
            Ok(files) => files,
            Err(Unread::Wrong(told)) => return ending.never_began(exit::USAGE, &told),
            Err(Unread::Stopped) => return ending.never_began(signals.code().unwrap_or(exit::BROKEN), STOPPED),
        };
        let show = Show::new(form, pipeline.agents().map(AgentName::as_str));
        let setting = match setting::open(directory, config, show.clone()).await {
            Ok(setting) => setting,
            Err(error) => return ending.never_began(exit::CONFIG, &format!("{error:#}")),
        };
        let what = format!("pipeline {}", pipeline.name);
        let context = match Context::begin(setting, Arc::new(harness), Some(&pipeline), &what).await {
            Ok(context) => Arc::new(context),
            Err(error) => return ending.broke(None, &error),
        };
        let report = run_pipeline(&context, &pipeline, files, signals.stop()).await;
        show.close();
        let report = match report {
            Ok(report) => report,
            Err(error) => {
                context.end("broken")?;
                return ending.broke(Some(&context), &error);
            }
        };
        context.end(if report.exit == exit::OK { "ok" } else { "failed" })?;
        ending.ended_pipeline(&context, &report, signals.code())
    }
}

/// Loads a harness that agrees with its lock and that `check` finds no fault with; else everything that is wrong, for people.
fn load(directory: &Path, config: Option<&Path>) -> Result<Harness, String> {
    let (mut harness, state) = inspect::load(directory, config)?;
    let hash = Lock::compare(&harness).map_err(|faults| {
        let told: Vec<String> = faults.iter().map(ToString::to_string).collect();
        told.join("\n")
    })?;
    let advice = check_unlocked(&harness, Request::default(), &state, &setting::environment());
    if !advice.faults.is_empty() {
        let told: Vec<String> = advice.faults.iter().map(|fault| format!("fault: {fault}")).collect();
        return Err(told.join("\n"));
    }
    harness.watched.insert(harness.root.join(LOCK_FILE), hash);
    Ok(harness)
}

const STOPPED: &str = "told to end before the inputs were there";

/// The code of a run that could not be carried out.
fn code_of(error: &RunError) -> u8 {
    match error {
        RunError::Config(_) => exit::CONFIG,
        RunError::Sandbox(_) => exit::SANDBOX,
        RunError::Outside(_) | RunError::Record(_) | RunError::Disk { .. } => exit::BROKEN,
    }
}
