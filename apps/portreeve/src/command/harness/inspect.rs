//! `harness check`, `lock` and `validate`: what is looked at without starting anything.

use std::path::{Path, PathBuf};

use harness::{
    Contract, Dialect, FILE, Harness, Lock, Request, Secrets, check, check_unlocked, exit, read_document, take_file,
};
use screening::result::strip::{Class, Classes};
use serde_json::json;

use super::setting::{self, environment};
use crate::command::check::counted;
use crate::command::output;

#[derive(clap::Args)]
pub(crate) struct Check {
    /// Every file of the harness must have an owner in CODEOWNERS
    #[arg(long)]
    codeowners: bool,
    /// Say what a runtime's own schema option would refuse
    #[arg(long, value_name = "DIALECT", value_parser = ["openai-strict"])]
    dialect: Option<String>,
}

#[derive(clap::Args)]
pub(crate) struct Validate {
    /// The schema
    #[arg(long, value_name = "FILE")]
    schema: PathBuf,
    /// The most bytes
    #[arg(long, value_name = "N", default_value_t = 1_048_576, value_parser = clap::value_parser!(u64).range(1..=1 << 30))]
    max_bytes: u64,
    /// The deepest nesting
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u64).range(1..=512))]
    max_depth: u64,
    /// Classes of text to refuse: ansi, c0c1, bidi, zero_width
    #[arg(long, value_name = "CLASS", value_delimiter = ',', value_parser = ["ansi", "c0c1", "bidi", "zero_width"])]
    reject_text: Vec<String>,
    /// One JSON object on standard error instead of words
    #[arg(long)]
    json: bool,
    /// The file to judge
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

impl Check {
    pub(super) fn run(self, directory: &Path, config: Option<&Path>) -> anyhow::Result<u8> {
        let (harness, state) = match load(directory, config) {
            Ok(loaded) => loaded,
            Err(told) => {
                output::note(&told);
                return Ok(exit::CONFIG);
            }
        };
        let request = Request {
            codeowners: self.codeowners,
            dialect: self.dialect.map(|_| Dialect::OpenAiStrict),
        };
        let advice = check(&harness, request, &state, &environment());
        for warning in &advice.warnings {
            output::note(&format!("warning: {warning}"));
        }
        for fault in &advice.faults {
            output::note(&format!("fault: {fault}"));
        }
        if !advice.faults.is_empty() {
            return Ok(exit::CONFIG);
        }
        output::note(&format!(
            "{FILE}: {} and {} without a fault",
            counted(harness.agents.len(), "agent"),
            counted(harness.pipelines.len(), "pipeline")
        ));
        Ok(exit::OK)
    }
}

/// Loads a harness, and says where its runs would keep their state.
pub(super) fn load(directory: &Path, config: Option<&Path>) -> Result<(Harness, PathBuf), String> {
    let harness = Harness::load(directory).map_err(|faults| faults.to_string())?;
    let config = setting::config(directory, config).map_err(|error| format!("error: {error:#}"))?;
    let state = config.state.dir;
    Ok((harness, state.canonicalize().unwrap_or(state)))
}

/// Writes the lock of a harness that a run would not refuse.
pub(super) fn lock(directory: &Path, config: Option<&Path>) -> anyhow::Result<u8> {
    let (harness, state) = match load(directory, config) {
        Ok(loaded) => loaded,
        Err(told) => {
            output::note(&told);
            return Ok(exit::CONFIG);
        }
    };
    let advice = check_unlocked(&harness, Request::default(), &state, &environment());
    for fault in &advice.faults {
        output::note(&format!("fault: {fault}"));
    }
    if !advice.faults.is_empty() {
        return Ok(exit::CONFIG);
    }
    Lock::of(&harness).write(&harness.root)?;
    let agents = counted(harness.agents.len(), "agent");
    output::note(&format!("harness.lock binds {agents}"));
    Ok(exit::OK)
}

impl Validate {
    /// Says nothing on standard output, whatever the verdict.
    pub(super) fn run(self) -> anyhow::Result<u8> {
        let told = |code: u8, class: &str, violations: Vec<serde_json::Value>| {
            if self.json {
                output::object(&json!({ "class": class, "violations": violations, "exit": code }));
            }
            Ok(code)
        };
        let sizes = (usize::try_from(self.max_bytes)?, usize::try_from(self.max_depth)?);
        let rejected: Classes = Class::ALL
            .into_iter()
            .filter(|class| self.reject_text.iter().any(|word| word == class.as_str()))
            .collect();
        let contract = match read_document(&self.schema) {
            Ok(schema) => Contract::compile(&schema, sizes, rejected, Secrets::Off).map_err(|fault| fault.to_string()),
            Err(error) => Err(format!("the schema {error}")),
        };
        let contract = match contract {
            Ok(contract) => contract,
            Err(fault) => {
                if !self.json {
                    output::note(&format!("error: {fault}"));
                }
                return told(exit::CONFIG, "schema", Vec::new());
            }
        };
        let verdict = take_file(&self.file, contract.max_bytes()).and_then(|raw| contract.validate(&raw).0);
        match verdict {
            Ok(_) => {
                if !self.json {
                    output::note("valid");
                }
                told(exit::OK, "ok", Vec::new())
            }
            Err(refusal) => {
                let (class, code) = (refusal.class.as_str(), harness::refusal_code(refusal.class));
                if !self.json {
                    output::note(&format!("not valid: {class}"));
                    super::words::violations(&refusal.violations);
                }
                let list = refusal.violations.iter();
                let list =
                    list.map(|one| json!({ "path": one.path, "keyword": one.keyword, "expected": one.expected }));
                told(code, class, list.collect())
            }
        }
    }
}
