//! `harness.lock`: schema and prompt of an agent go together, with its command and its sandbox. Whoever changes one of them
//! says so by writing the lock anew; a reviewer sees it.
//! ADR 0040: nothing runs without it.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::Path;

use vocabulary::Digest;

use crate::config::{Agent, Harness, read_document};

/// The file's name in the harness directory.
pub const LOCK_FILE: &str = "harness.lock";

/// What a harness is bound to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lock(BTreeMap<String, BTreeMap<String, String>>);

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
        /// `schema`, `prompt`, `command` or `sandbox`.
        part: &'static str,
    },
}

impl Lock {
    /// What `harness` would be bound to.
    #[must_use]
    pub fn of(harness: &Harness) -> Self {
        let entry = |agent: &Agent| {
            let parts = parts(agent).map(|(part, hash)| (part.to_owned(), hash.to_string()));
            (agent.name.to_string(), BTreeMap::from(parts))
        };
        Self(harness.agents.values().map(entry).collect())
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
            let Some(entry) = locked.0.get(&name) else {
                faults.push(LockFault::NewAgent { agent: name });
                continue;
            };
            let differs = parts(agent)
                .into_iter()
                .filter(|(part, hash)| entry.get(*part) != Some(&hash.to_string()));
            faults.extend(differs.map(|(part, _)| LockFault::Changed {
                agent: name.clone(),
                part,
            }));
        }
        let declared = |name: &String| harness.agents.keys().any(|agent| agent.as_str() == name);
        if !locked.0.keys().all(declared) {
            faults.push(LockFault::LostAgent);
        }
        match faults.is_empty() {
            true => Ok(Digest::of(&bytes)),
            false => Err(faults),
        }
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
        let mut text =
            String::from("# Written by `portreeve harness lock`. Schema and prompt change together.\nversion = 1\n");
        for (agent, parts) in &self.0 {
            text.push_str(&format!("\n[agents.{agent}]\n"));
            for (part, hash) in parts {
                text.push_str(&format!("{part} = \"{hash}\"\n"));
            }
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
        Some(Self(agents))
    }
}

fn parts(agent: &Agent) -> [(&'static str, Digest); 4] {
    [
        ("schema", agent.output.schema.hash),
        ("prompt", agent.prompt.hash),
        ("command", agent.command_hash),
        ("sandbox", agent.walls.hash),
    ]
}
