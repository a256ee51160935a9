//! What `portreeve harness check` looks at beyond loading: the layout of schemas, the lock, owners, unused agents, and
//! what this machine lacks. Starts nothing.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::advice::Advice;
use crate::codeowners::{self, Ownership};
use crate::config::{Fault, Harness, Source};
use crate::dialect;
use crate::fit::fit;
use crate::lock::{LOCK_FILE, Lock};
use crate::ports::HostEnvironment;
use crate::runtime::resolve;

/// What is to be looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Request {
    /// Whether every file must have an owner.
    pub codeowners: bool,
    /// A runtime's own dialect.
    pub dialect: Option<Dialect>,
}

/// A dialect of schemas that some runtimes ask for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dialect {
    /// OpenAI's structured outputs, as Codex passes them on.
    OpenAiStrict,
}

/// Looks at a harness that could be loaded; `state` is the state directory that runs would use.
#[must_use]
pub fn check(harness: &Harness, request: Request, state: &Path, environment: &HostEnvironment) -> Advice {
    let mut advice = check_unlocked(harness, request, state, environment);
    let lock = harness.root.join(LOCK_FILE);
    let differs = Lock::compare(harness).err().unwrap_or_default().into_iter();
    let differs = differs.map(|fault| Fault::of_file(&lock, fault.to_string(), None));
    advice.faults.splice(0..0, differs);
    advice
}

/// The same of a harness that is about to be locked.
#[must_use]
pub fn check_unlocked(harness: &Harness, request: Request, state: &Path, environment: &HostEnvironment) -> Advice {
    let mut advice = Advice {
        faults: Vec::new(),
        warnings: harness.warnings.clone(),
    };
    layout(harness, &mut advice);
    unused(harness, &mut advice);
    hooks(harness, &mut advice);
    if let Some(Dialect::OpenAiStrict) = request.dialect {
        for agent in harness.agents.values() {
            let schema = &agent.output.schema;
            for place in dialect::openai_strict(&schema.bytes) {
                advice.faults.push(Fault::of_file(&schema.path, place, Some(STRICT)));
            }
        }
    }
    if request.codeowners {
        owners(harness, &mut advice);
    }
    let sandbox = fit(harness, state);
    advice.faults.extend(sandbox.faults);
    advice.warnings.extend(sandbox.warnings);
    surroundings(harness, environment, &mut advice);
    advice
}

const STRICT: &str = "the runtime's own schema option refuses it (openai-strict)";

/// Schemas name themselves and their version.
fn layout(harness: &Harness, advice: &mut Advice) {
    let mut seen = BTreeSet::new();
    for agent in harness.agents.values() {
        let schema = &agent.output.schema;
        if !seen.insert(&schema.path) {
            continue;
        }
        let document: Option<serde_json::Value> = serde_json::from_slice(&schema.bytes).ok();
        let id = document.as_ref().and_then(|document| document.get("$id")?.as_str());
        if id.is_none_or(str::is_empty) {
            let hint = "write `\"$id\": \"https://…/triage.v1.json\"`";
            advice
                .faults
                .push(Fault::of_file(&schema.path, "has no `$id`", Some(hint)));
        }
        if !has_version(&schema.name) {
            let hint = "name it `triage.v1.json`; a change of meaning gets a new number";
            let fault = Fault::of_file(&schema.path, "has no version in its name", Some(hint));
            advice.faults.push(fault);
        }
    }
}

fn has_version(name: &str) -> bool {
    let mut parts = name.rsplit('.');
    let json = parts.next() == Some("json");
    let version = parts.next().and_then(|part| part.strip_prefix('v'));
    json && version.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// A hook that cannot be executed would fail a run after everything else went well.
fn hooks(harness: &Harness, advice: &mut Advice) {
    for agent in harness.agents.values() {
        for command in agent.hooks.pre.iter().chain(&agent.hooks.post) {
            let path = PathBuf::from(command.first().map(String::as_str).unwrap_or_default());
            let executable = path
                .metadata()
                .is_ok_and(|found| found.permissions().mode() & 0o111 != 0);
            if !executable {
                let hint = Some("chmod +x");
                advice
                    .faults
                    .push(Fault::of_file(&path, "is a hook that cannot be executed", hint));
            }
        }
    }
}

/// Where there are pipelines, an agent of none is a mistake.
fn unused(harness: &Harness, advice: &mut Advice) {
    if harness.pipelines.is_empty() {
        return;
    }
    let used: BTreeSet<_> = harness
        .pipelines
        .values()
        .flat_map(|pipeline| pipeline.agents())
        .collect();
    for agent in harness.agents.keys().filter(|agent| !used.contains(agent)) {
        let mut fault = Fault::of_file(
            &harness.root.join(crate::FILE),
            "runs in no pipeline",
            Some("put it into a stage, or remove it"),
        );
        fault.key = format!("agents.{agent}");
        advice.faults.push(fault);
    }
}

fn owners(harness: &Harness, advice: &mut Advice) {
    let mut files: Vec<PathBuf> = harness.watched.keys().cloned().collect();
    files.push(harness.root.join(LOCK_FILE));
    let hint = Some("name an owner in CODEOWNERS: whoever changes these files changes what agents may hand on");
    match codeowners::check(&files, &harness.root) {
        Ownership::NoFile => {
            let fault = Fault::of_file(&harness.root, "no repository with a CODEOWNERS file holds it", hint);
            advice.faults.push(fault);
        }
        Ownership::Unowned(paths) => {
            for path in paths {
                advice
                    .faults
                    .push(Fault::of_file(&PathBuf::from(path), "has no owner", hint));
            }
        }
    }
}

/// What a run would miss here: of this machine, not of the harness.
fn surroundings(harness: &Harness, environment: &HostEnvironment, advice: &mut Advice) {
    let file = harness.root.join(crate::FILE);
    for agent in harness.agents.values() {
        for told in resolve(agent, environment).err().unwrap_or_default() {
            advice.warnings.push(Fault::of_file(&file, told, None));
        }
        if let Source::Stdout = agent.output.from {
            let mut note = Fault::of_file(&file, "whatever the runtime prints is its output", None);
            note.key = format!("agents.{}.output.from", agent.name);
            note.hint =
                Some("one line of a log makes it invalid; prefer a file where the runtime can write one".to_owned());
            advice.warnings.push(note);
        }
    }
}
