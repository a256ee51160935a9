//! `harness.lock`: schema and prompt of an agent go together, with everything else that decides: its command, its hooks, what it is
//! given, what it may use, and the pipelines it runs in. Whoever changes one of them says so by writing the lock anew; a reviewer
//! sees it.
//! ADR 0040: nothing runs without it. ADR 0067: what it binds.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::Path;

use serde_json::{Value, json};
use vocabulary::Digest;

use crate::config::{Agent, AgentName, Harness, Pipeline, Reference, Source, read_document};
use crate::report::millis;

/// The file's name in the harness directory.
pub const LOCK_FILE: &str = "harness.lock";

/// What a harness is bound to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lock {
    agents: BTreeMap<String, BTreeMap<String, String>>,
    pipelines: BTreeMap<String, String>,
}

/// A difference between a harness and its lock.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LockFault {
    /// There is none.
    #[error("harness.lock is missing; run `portreeve harness lock` and commit it")]
    Missing,
    /// It cannot be read.
    #[error("harness.lock cannot be read; run `portreeve harness lock` and look at what changed")]
    Unreadable,
    /// An agent is not in it.
    #[error("agents.{agent} is not in harness.lock; run `portreeve harness lock`")]
    NewAgent {
        /// The agent.
        agent: String,
    },
    /// An agent of it is not declared.
    #[error("harness.lock has an agent that harness.toml does not declare; run `portreeve harness lock`")]
    LostAgent,
    /// Something changed.
    #[error(
        "the {part} of agents.{agent} is not the one in harness.lock; look at the change, then run `portreeve harness lock`"
    )]
    Changed {
        /// The agent.
        agent: String,
        /// `schema`, `prompt`, `command` and so on.
        part: &'static str,
    },
    /// A pipeline changed, or is new.
    #[error("pipelines.{name} is not the one in harness.lock; look at the change, then run `portreeve harness lock`")]
    Pipeline {
        /// The pipeline.
        name: String,
    },
    /// A pipeline of it is not declared.
    #[error("harness.lock has a pipeline that harness.toml does not declare; run `portreeve harness lock`")]
    LostPipeline,
}

impl Lock {
    /// What `harness` would be bound to.
    #[must_use]
    pub fn of(harness: &Harness) -> Self {
        let entry = |agent: &Agent| {
            let parts = parts(agent, &harness.root);
            let parts = parts
                .into_iter()
                .map(|(part, hash)| (part.to_owned(), hash.to_string()));
            (agent.name.to_string(), parts.collect())
        };
        let pipelines = harness.pipelines.values();
        Self {
            agents: harness.agents.values().map(entry).collect(),
            pipelines: pipelines
                .map(|pipeline| (pipeline.name.clone(), bound(pipeline).to_string()))
                .collect(),
        }
    }

    /// Compares a harness with the lock in its directory; gives back the digest of the lock as it was read.
    ///
    /// # Errors
    /// Every difference.
    pub fn compare(harness: &Harness) -> Result<Digest, Vec<LockFault>> {
        let path = harness.root.join(LOCK_FILE);
        if !path.try_exists().unwrap_or(true) {
            return Err(vec![LockFault::Missing]);
        }
        let bytes = read_document(&path).map_err(|_| vec![LockFault::Unreadable])?;
        let locked = Self::parse(&bytes).ok_or_else(|| vec![LockFault::Unreadable])?;
        let mut faults = Vec::new();
        for agent in harness.agents.values() {
            let name = agent.name.to_string();
            let Some(entry) = locked.agents.get(&name) else {
                faults.push(LockFault::NewAgent { agent: name });
                continue;
            };
            let differs = parts(agent, &harness.root)
                .into_iter()
                .filter(|(part, hash)| entry.get(*part) != Some(&hash.to_string()));
            faults.extend(differs.map(|(part, _)| LockFault::Changed {
                agent: name.clone(),
                part,
            }));
        }
        let declared = |name: &String| harness.agents.keys().any(|agent| agent.as_str() == name);
        if !locked.agents.keys().all(declared) {
            faults.push(LockFault::LostAgent);
        }
        faults.extend(locked.other_pipelines(harness));
        match faults.is_empty() {
            true => Ok(Digest::of(&bytes)),
            false => Err(faults),
        }
    }

    fn other_pipelines(&self, harness: &Harness) -> Vec<LockFault> {
        let differs = |pipeline: &&Pipeline| self.pipelines.get(&pipeline.name) != Some(&bound(pipeline).to_string());
        let changed = harness.pipelines.values().filter(differs);
        let mut faults: Vec<LockFault> = changed
            .map(|pipeline| LockFault::Pipeline {
                name: pipeline.name.clone(),
            })
            .collect();
        if !self.pipelines.keys().all(|name| harness.pipelines.contains_key(name)) {
            faults.push(LockFault::LostPipeline);
        }
        faults
    }

    /// Writes the lock: whole or not at all.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn write(&self, directory: &Path) -> std::io::Result<()> {
        let place = directory.join(".harness.lock.new");
        let _ = fs::remove_file(&place);
        let mut file = fs::OpenOptions::new().write(true).create_new(true).open(&place)?;
        file.write_all(self.to_text().as_bytes())?;
        file.sync_all()?;
        fs::rename(&place, directory.join(LOCK_FILE))
    }

    fn to_text(&self) -> String {
        let mut text = String::from(
            "# Written by `portreeve harness lock`. What decides changes together, and is looked at.\nversion = 1\n",
        );
        for (agent, parts) in &self.agents {
            text.push_str(&format!("\n[agents.{agent}]\n"));
            for (part, hash) in parts {
                text.push_str(&format!("{part} = \"{hash}\"\n"));
            }
        }
        if !self.pipelines.is_empty() {
            text.push_str("\n[pipelines]\n");
        }
        for (pipeline, hash) in &self.pipelines {
            text.push_str(&format!("{pipeline} = \"{hash}\"\n"));
        }
        text
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let table: toml::Table = std::str::from_utf8(bytes).ok()?.parse().ok()?;
        if table.get("version").and_then(toml::Value::as_integer) != Some(1) {
            return None;
        }
        let mut agents = BTreeMap::new();
        for (agent, entry) in table.get("agents")?.as_table()? {
            let parts = entry.as_table()?.iter();
            let parts = parts.map(|(part, hash)| Some((part.clone(), hash.as_str()?.to_owned())));
            agents.insert(agent.clone(), parts.collect::<Option<BTreeMap<_, _>>>()?);
        }
        let pipelines = match table.get("pipelines") {
            Some(pipelines) => pipelines
                .as_table()?
                .iter()
                .map(|(name, hash)| Some((name.clone(), hash.as_str()?.to_owned())))
                .collect::<Option<BTreeMap<_, _>>>()?,
            None => BTreeMap::new(),
        };
        Some(Self { agents, pipelines })
    }
}

/// Everything of an agent that decides. As written, so that two checkouts of one harness agree.
fn parts(agent: &Agent, root: &Path) -> Vec<(&'static str, Digest)> {
    let (retry, limits) = (&agent.retry, &agent.limits);
    let env: Vec<[String; 3]> = agent
        .env
        .iter()
        .map(|(name, from)| variable(name, from, root))
        .collect();
    let servers: Vec<String> = agent.servers.iter().map(ToString::to_string).collect();
    let from = match &agent.output.from {
        Source::File(name) => format!("file {name}"),
        Source::Stdout => "stdout".to_owned(),
    };
    let on: Vec<&str> = retry.on.iter().map(|class| class.as_str()).collect();
    let machine = &limits.machine;
    vec![
        ("schema", agent.output.schema.hash),
        ("prompt", agent.prompt.hash),
        ("command", agent.command_hash),
        ("sandbox", agent.walls.hash),
        ("hooks", agent.hooks.hash),
        ("env", digest(&json!(env))),
        ("servers", digest(&json!(servers))),
        ("output", digest(&json!([from, agent.output.contract.rules()]))),
        (
            "retry",
            digest(&json!([retry.max_retries, retry.max_bytes, retry.max_items, on])),
        ),
        (
            "limits",
            digest(&json!([
                [millis(limits.timeout), millis(limits.total)],
                [machine.memory, machine.processes],
                [machine.cpu_seconds, machine.workspace, machine.files],
            ])),
        ),
    ]
}

fn variable(name: &str, from: &Reference, root: &Path) -> [String; 3] {
    let (kind, what) = match from {
        Reference::Variable(variable) => ("env", variable.clone()),
        Reference::File(path) => ("file", path.strip_prefix(root).unwrap_or(path).display().to_string()),
        Reference::Plain(text) => ("text", text.clone()),
    };
    [name.to_owned(), kind.to_owned(), what]
}

/// Everything of a pipeline: order, needs, conditions, budget.
fn bound(pipeline: &Pipeline) -> Digest {
    let names = |agents: &[AgentName]| agents.iter().map(ToString::to_string).collect::<Vec<_>>();
    let stages = pipeline.stages.iter().map(|stage| {
        let when = stage.when.as_ref();
        let when = when.map(|when| json!([when.from.as_str(), when.pointer, when.values]));
        json!([
            names(&stage.agents),
            names(&stage.needs),
            names(&stage.allow_partial),
            when
        ])
    });
    let stages: Vec<Value> = stages.collect();
    digest(&json!([pipeline.attempts, pipeline.time.map(millis), stages]))
}

fn digest(what: &Value) -> Digest {
    Digest::of(what.to_string().as_bytes())
}
