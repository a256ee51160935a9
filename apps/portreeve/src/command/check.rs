//! `check`: all that start-up checks; starts nothing and leaves nothing behind.

use std::path::Path;
use std::process::ExitCode;

use serde_json::json;

use super::next_steps;
use super::output::{self, Form};
use crate::config::{Config, FORMAT, Fault, Faults, Profile, RawConfig, find_file};

#[derive(clap::Args)]
pub(super) struct Check {
    /// Judge as if this profile were written: production
    #[arg(long, value_name = "PROFILE", value_parser = profile)]
    profile: Option<Profile>,
    #[command(flatten)]
    form: Form,
}

fn profile(text: &str) -> Result<Profile, String> {
    let known = Profile::ALL.into_iter().find(|profile| profile.as_str() == text);
    known.ok_or_else(|| format!("is none of {}", Profile::ALL.map(Profile::as_str).join(", ")))
}

impl Check {
    pub(super) fn run(self, config: Option<&Path>) -> anyhow::Result<ExitCode> {
        match load_as(config, self.profile).and_then(fits_its_state) {
            Ok(config) if !config.obstacles().is_empty() => {
                report("fault", config.obstacles(), self.form)?;
                report("warning", config.warnings(), self.form)?;
                let obstacles = counted(config.obstacles().len(), "fault");
                output::note(&format!("{obstacles} of servers that do not start; the others would"));
                Ok(ExitCode::FAILURE)
            }
            Ok(config) => {
                report("warning", config.warnings(), self.form)?;
                report("note", &notes(&config)?, self.form)?;
                let warnings = config.warnings().len();
                output::note(&format!(
                    "{}: sound, {}",
                    config.file().display(),
                    counted(warnings, "warning")
                ));
                Ok(ExitCode::SUCCESS)
            }
            Err(faults) => {
                report("fault", faults.as_slice(), self.form)?;
                output::note(&counted(faults.as_slice().len(), "fault"));
                Ok(ExitCode::FAILURE)
            }
        }
    }
}

/// What is left to do before agents can use the servers, and what is worth knowing of them.
fn notes(config: &Config) -> anyhow::Result<Vec<Fault>> {
    let inventory = next_steps::discovered(config)?;
    let mut notes = Vec::new();
    for id in config.servers.keys() {
        let steps = next_steps::of_server(config, &inventory, id);
        let steps = steps.into_iter().chain(next_steps::sharing(config, id));
        notes.extend(steps.map(|step| {
            let message = format!("servers.{id}: {}", step.what);
            Fault::of_file(config.file(), message, Some(&step.how))
        }));
    }
    Ok(notes)
}

/// Finds and checks a configuration.
pub(super) fn load(config: Option<&Path>) -> Result<Config, Faults> {
    load_as(config, None)
}

/// As [`load`], judged by a profile.
fn load_as(config: Option<&Path>, profile: Option<Profile>) -> Result<Config, Faults> {
    RawConfig::read(&find_file(config)?)?.judged_by(profile).try_into()
}

/// What start-up would find in the state directory: a log keeps the name it got at first start.
fn fits_its_state(config: Config) -> Result<Config, Faults> {
    match ledger::stored_origin(&config.state.dir) {
        Some(kept) if kept != config.audit.origin => {
            let message = format!("audit.origin: the log in the state directory is named `{kept}`");
            let hint = "give it that name, or name another `state.dir`";
            Err(FORMAT.refuse(Fault::of_file(config.file(), message, Some(hint))))
        }
        Some(_) | None => Ok(config),
    }
}

/// One finding per entry; hints stand under theirs.
pub(super) fn report(level: &str, findings: &[Fault], form: Form) -> anyhow::Result<()> {
    for finding in findings {
        if form.json {
            let Fault {
                file,
                line,
                key,
                message,
                hint,
            } = finding;
            let file = file.display().to_string();
            let object =
                json!({ "level": level, "file": file, "line": line, "key": key, "message": message, "hint": hint });
            output::line(&object.to_string())?;
        } else {
            output::line(&format!("{level}: {finding}"))?;
        }
    }
    Ok(())
}

/// A number and its noun.
pub(super) fn counted(count: usize, word: &str) -> String {
    match count {
        0 => format!("no {word}s"),
        1 => format!("1 {word}"),
        _ => format!("{count} {word}s"),
    }
}
