//! What stays the same from an agent's first step to its last.

use std::time::Instant;

use ledger::RunReason;
use tokio::sync::watch;

use super::context::Context;
use crate::config::Agent;
use crate::hooks::HookEnvironment;
use crate::ports::{Step, Stop};
use crate::runtime::{Provided, Surroundings, Tools};

/// One agent's run.
pub(super) struct AgentRun<'a> {
    pub(super) context: &'a Context,
    pub(super) agent: &'a Agent,
    pub(super) stop: watch::Receiver<Stop>,
    pub(super) began: Instant,
    /// When all attempts and hooks together must be over.
    pub(super) deadline: Instant,
}

impl<'a> AgentRun<'a> {
    pub(super) fn begin(context: &'a Context, agent: &'a Agent, stop: watch::Receiver<Stop>) -> Self {
        let began = Instant::now();
        Self {
            context,
            agent,
            stop,
            began,
            deadline: context.budget.bound(began + agent.limits.total),
        }
    }

    pub(super) fn is_stopped(&self) -> bool {
        *self.stop.borrow() != Stop::No
    }

    /// Which time was over.
    pub(super) fn out_of_time(&self) -> RunReason {
        match self.context.budget.is_out_of_time() {
            true => RunReason::Budget,
            false => RunReason::TotalTime,
        }
    }

    pub(super) fn tell(&self, step: Step) {
        self.context.setting.progress.tell(step);
    }

    pub(super) fn surroundings<'s>(&'s self, provided: &'s Provided, tools: &'s Tools) -> Surroundings<'s> {
        Surroundings {
            harness: &self.context.harness,
            agent: self.agent,
            run: &self.context.run,
            state: &self.context.setting.state,
            program: self.context.setting.program.as_deref(),
            provided,
            tools,
        }
    }

    pub(super) fn hook_environment(&self) -> HookEnvironment<'_> {
        HookEnvironment {
            agent: self.agent,
            root: &self.context.harness.root,
            run: &self.context.run,
            directory: &self.context.directory,
            environment: &self.context.setting.environment,
            deadline: self.deadline,
            stop: &self.stop,
        }
    }
}
