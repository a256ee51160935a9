//! `harness.toml`: what people write, and what the harness trusts. Everything is read and compiled here, before anything
//! runs; a file that changes later changes nothing.

mod agent;
mod files;
mod keys;
mod pipeline;
mod sharing;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use settings::{Complaint, Section};
use vocabulary::Digest;

pub use agent::{Agent, AgentLimits, AgentName, Hooks, OutputRule, Reference, Retry, Source, WallRule};
pub use files::{Document, read_document};
pub use keys::FORMAT;
pub use pipeline::{Condition, Pipeline, Stage};
pub use settings::{Fault, Faults, Unreadable};

use files::Files;

/// The file's name in the harness directory.
pub const FILE: &str = "harness.toml";

/// A harness without a fault: every schema compiled, every prompt in memory.
#[derive(Debug)]
pub struct Harness {
    /// The directory, links followed.
    pub root: PathBuf,
    /// Every agent.
    pub agents: BTreeMap<AgentName, Agent>,
    /// Every pipeline.
    pub pipelines: BTreeMap<String, Pipeline>,
    /// The digest of `harness.toml`.
    pub config_hash: Digest,
    /// Every file that was read, with its digest: none may change while a runtime runs.
    pub watched: BTreeMap<PathBuf, Digest>,
    /// What is allowed but deserves a second look.
    pub warnings: Vec<Fault>,
}

impl Harness {
    /// Reads the harness of a directory.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn load(directory: &Path) -> Result<Self, Faults> {
        let file = directory.join(FILE);
        let whole = |message: String, hint| FORMAT.refuse(Fault::of_file(&file, message, hint));
        let root = directory
            .canonicalize()
            .map_err(|error| whole(format!("the directory cannot be found: {error}"), None))?;
        let bytes = read_document(&root.join(FILE)).map_err(|error| {
            let hint = "call `portreeve harness` in the directory that holds harness.toml";
            whole(error.to_string(), Some(hint))
        })?;
        let config_hash = Digest::of(&bytes);
        let text = settings::text(bytes).map_err(|error| whole(error.to_string(), None))?;
        let files = Files::below(root.clone());
        files.note(root.join(FILE), config_hash);
        let (declared, remarks) = FORMAT.read(&file, &text, |table| Some(sections(table, &files)))?;
        let (agents, pipelines) = declared;
        let harness = Self {
            root,
            agents,
            pipelines,
            config_hash,
            watched: files.into_watched(),
            warnings: remarks.warnings,
        };
        let mut faults = harness.within_reach(&file);
        faults.extend(sharing::faults(&harness, &file));
        FORMAT.accept_without(faults)?;
        Ok(harness)
    }

    /// Files of the harness that lie where a runtime may write.
    fn within_reach(&self, file: &Path) -> Vec<Fault> {
        let mut faults = Vec::new();
        for agent in self.agents.values() {
            // Without walls everything is in reach: that is warned of, and found afterwards.
            if agent.walls.fs == sandbox::FsPolicy::Unconfined {
                continue;
            }
            let within = self
                .watched
                .keys()
                .find(|path| agent.walls.lets_write(path, &self.root));
            if let Some(path) = within {
                let shown = path.strip_prefix(&self.root).unwrap_or(path).display();
                let mut fault = Fault::of_file(
                    file,
                    format!("`{shown}` lies in the workspace, where the runtime could rewrite it"),
                    Some("move the workspace, or write `fs = \"read_only\"`"),
                );
                fault.key = format!("agents.{}.sandbox.workspace", agent.name);
                faults.push(fault);
            }
        }
        faults
    }
}

fn sections(mut root: Section<'_>, files: &Files) -> (BTreeMap<AgentName, Agent>, BTreeMap<String, Pipeline>) {
    root.require("version", |value| value.number(1..=1));
    let mut agents = BTreeMap::new();
    let mut declared = BTreeSet::new();
    for (name, section) in root.named_sections("agents") {
        if let Some(agent) = Agent::check(&name, section, files) {
            agents.insert(agent.name.clone(), agent);
        }
        declared.insert(name);
    }
    if declared.is_empty() {
        root.fault(
            "agents",
            Complaint::new("declares no agent").hint("write a table `[agents.NAME]`"),
        );
    }
    let mut pipelines = BTreeMap::new();
    for (name, section) in root.named_sections("pipelines") {
        if let Some(pipeline) = Pipeline::check(&name, section, &agents, &declared) {
            pipelines.insert(name, pipeline);
        }
    }
    root.finish();
    (agents, pipelines)
}

#[cfg(test)]
mod tests;
