//! A run of one agent: hooks, attempts, judgement, publishing, records, in this order. Each step takes what the one before
//! gives by value. What leaves it is [`Released`](crate::Released), or a failure without a byte of output.
//! ADR 0045: a run is recorded before it begins. ADR 0041: who repeats the failed bytes has not read the feedback.

mod agent_run;
mod attempt;
mod attempts;
mod close;
mod context;
mod open;

use ledger::{RunReason, RunStatus};
use tokio::sync::watch;

pub use close::Run;
pub use context::{Context, RunError, Setting};
pub use open::{Given, InputFiles};

use crate::config::AgentName;
use crate::ports::Stop;
use agent_run::AgentRun;
use open::Opened;

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
        return close::never_started(context, agent, RunStatus::Failed, RunReason::Sandbox, Some(told)).await;
    }
    let _seat = context.seats.acquire().await;
    let opened = Opened::open(AgentRun::begin(context, agent, stop), given)?;
    let ended = opened.run().await?;
    ended.close().await
}

/// Looks whether an agent could be started here at all.
///
/// # Errors
/// What keeps it from starting.
pub(crate) fn preflight(context: &Context, name: &AgentName) -> Result<(), RunError> {
    let agent = context.agent(name)?;
    if let Some(told) = context.missing_confinement(agent) {
        return Err(RunError::Sandbox(format!("agents.{name}: {told}")));
    }
    let (_, stop) = watch::channel(Stop::No);
    let opened = Opened::open(AgentRun::begin(context, agent, stop), Given::default())?;
    opened.owner().map(drop)
}

/// Records that an agent did not have to run.
pub(crate) async fn skip(context: &Context, name: &AgentName, reason: RunReason) -> Result<Run, RunError> {
    let agent = context.agent(name)?;
    close::never_started(context, agent, RunStatus::Skipped, reason, None).await
}
