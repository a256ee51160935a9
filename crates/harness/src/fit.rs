//! Whether the sandboxes of a harness's agents can be built: what a run would refuse, asked beforehand and by the same judge.
//! What is wrong with the declaration is a fault; what this machine lacks is a warning.

use std::path::{Path, PathBuf};

use sandbox::{Plan, PlanFault};
use vocabulary::Secret;

use crate::advice::Advice;
use crate::config::{Agent, Fault, Harness};
use crate::runtime::{declared, shows_other_runs};

/// Looks at the sandbox of every agent; `state` is the state directory that runs would use.
#[must_use]
pub fn fit(harness: &Harness, state: &Path) -> Advice {
    let mut advice = Advice::default();
    let file = harness.root.join(crate::FILE);
    for agent in harness.agents.values() {
        let place = |text: String| {
            let mut fault = Fault::of_file(&file, text, None);
            fault.key = format!("agents.{}.sandbox", agent.name);
            fault
        };
        advice.faults.extend(shows_other_runs(agent, state).map(place));
        for found in plan_faults(agent, harness, state) {
            let list = match found.is_of_host() {
                true => &mut advice.warnings,
                false => &mut advice.faults,
            };
            list.push(place(found.to_string()));
        }
    }
    advice
}

fn plan_faults(agent: &Agent, harness: &Harness, state: &Path) -> Vec<PlanFault> {
    // A fresh workspace is as it should be; the harness directory stands for it, and is not judged as one.
    let own = agent.walls.workspace.clone();
    let workspace = own.clone().unwrap_or_else(|| harness.root.clone());
    let mut draft = declared(agent, workspace, state);
    draft.env = agent
        .env
        .keys()
        .map(|name| (name.clone(), Secret::new(String::new())))
        .collect();
    let mut faults = Plan::check(draft).err().unwrap_or_default();
    if own.is_none() && !agent.walls.read.contains(&harness.root) {
        faults.retain(|fault| !is_about(fault, &harness.root));
    }
    faults
}

fn is_about(fault: &PlanFault, workspace: &PathBuf) -> bool {
    match fault {
        PlanFault::WorkspaceMissing { path }
        | PlanFault::WorkspaceNotDirectory { path }
        | PlanFault::WorkspaceSymlink { path, .. }
        | PlanFault::WorkspaceIsSystem { path }
        | PlanFault::WorkspaceUnusable { path, .. }
        | PlanFault::ShowsState { path, .. } => path == workspace,
        PlanFault::EmptyCommand
        | PlanFault::Nul { .. }
        | PlanFault::Relative { .. }
        | PlanFault::NotText { .. }
        | PlanFault::ReadMissing { .. }
        | PlanFault::ReadForbidden { .. }
        | PlanFault::SocketsOfTheHost
        | PlanFault::ProgramMissing { .. }
        | PlanFault::ProgramHidden { .. }
        | PlanFault::ProgramNotExecutable { .. }
        | PlanFault::VariableName { .. }
        | PlanFault::ZeroLimit { .. }
        | PlanFault::RootUser
        | PlanFault::CannotChangeUser { .. }
        | PlanFault::Egress(_) => false,
    }
}
