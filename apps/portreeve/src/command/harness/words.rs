//! What a run comes to, for people or for programs, and the one place where a document reaches standard output.

use std::io::{self, Write as _};

use harness::{AgentReport, Context, PipelineReport, Released, Run, RunError, Violation, exit};
use serde_json::{Value, json};

use super::code_of;
use crate::command::output;

/// In which form a run is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    /// Sentences.
    Words,
    /// One object.
    Json,
}

/// How a command ends.
pub(super) struct Ending<'a> {
    form: Form,
    /// `agent` or `pipeline`, and its name.
    subject: (&'static str, &'a str),
}

impl<'a> Ending<'a> {
    pub(super) fn of_agent(form: Form, name: &'a str) -> Self {
        Self {
            form,
            subject: ("agent", name),
        }
    }

    pub(super) fn of_pipeline(form: Form, name: &'a str) -> Self {
        Self {
            form,
            subject: ("pipeline", name),
        }
    }

    /// Nothing ran.
    pub(super) fn never_began(&self, code: u8, why: &str) -> anyhow::Result<u8> {
        self.fail(None, code, why);
        Ok(code)
    }

    /// The run could not be carried out.
    pub(super) fn broke(&self, context: Option<&Context>, error: &RunError) -> anyhow::Result<u8> {
        let causes = std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source());
        let mut causes: Vec<String> = causes.map(ToString::to_string).collect();
        causes.dedup();
        self.fail(context, code_of(error), &causes.join(": "));
        Ok(code_of(error))
    }

    fn fail(&self, context: Option<&Context>, code: u8, why: &str) {
        match self.form {
            Form::Words => output::note(&format!("error: {why}")),
            Form::Json => {
                let (kind, name) = self.subject;
                let mut object = json!({
                    "run": context.map(Context::run),
                    "directory": context.map(|context| context.directory().display().to_string()),
                    "class": null,
                    "attempts": 0,
                    "violations": [],
                    "exit": code,
                    "receipt_id": null,
                    "error": why,
                });
                if let Some(members) = object.as_object_mut() {
                    members.insert(kind.to_owned(), Value::from(name));
                    if kind == "pipeline" {
                        members.insert("failed".to_owned(), json!([]));
                    }
                }
                output::object(&object);
            }
        }
    }

    /// An agent's run ended.
    pub(super) fn ended(&self, context: &Context, run: &Run, signalled: Option<u8>) -> anyhow::Result<u8> {
        let mut report = run.report.clone();
        report.exit = match (report.exit, signalled) {
            (exit::BROKEN, Some(code)) => code,
            (code, _) => code,
        };
        if let Err(told) = print(run.released.as_ref()) {
            report.exit = exit::BROKEN;
            report.told = Some(told);
        }
        match self.form {
            Form::Json => output::object(&report.to_json(context.run(), context.directory())),
            Form::Words => summary(context, &report),
        }
        Ok(report.exit)
    }

    /// A pipeline ended.
    pub(super) fn ended_pipeline(
        &self,
        context: &Context,
        report: &PipelineReport,
        signalled: Option<u8>,
    ) -> anyhow::Result<u8> {
        let mut report = report.clone();
        if report.exit != exit::OK {
            report.exit = signalled.unwrap_or(report.exit);
        }
        let unwritten = print(report.last.as_ref()).err();
        if unwritten.is_some() {
            report.exit = exit::BROKEN;
        }
        match self.form {
            Form::Json => output::object(&report.to_json(context.run(), context.directory())),
            Form::Words => {
                report.failed().for_each(|agent| summary(context, agent));
                let attempts: usize = report.agents.iter().map(|agent| agent.attempts.len()).sum();
                output::note(&format!(
                    "pipeline {}: {} of {} agents, {attempts} attempts, {:.1} s; run {} in {}",
                    report.pipeline,
                    report.agents.len() - report.failed().count(),
                    report.agents.len(),
                    report.took.as_secs_f64(),
                    context.run(),
                    context.directory().display()
                ));
                if let Some(told) = unwritten {
                    output::note(&format!("  {told}"));
                }
            }
        }
        Ok(report.exit)
    }
}

/// Writes a released document, byte for byte. Nothing else of the harness writes to standard output.
///
/// # Errors
/// Why it could not be written, for people. That is no success, whoever closed the door.
fn print(released: Option<&Released>) -> Result<(), String> {
    let Some(released) = released else {
        return Ok(());
    };
    let mut out = io::stdout().lock();
    let written = match sandbox::host::stdout_was_closed() {
        true => Err(io::Error::other("it is closed")),
        false => out.write_all(released.bytes()).and_then(|()| out.flush()),
    };
    if written.is_ok() && !released.bytes().ends_with(b"\n") && is_one_place() {
        // Of the summary, which would go on in the document's last line.
        let _ = writeln!(io::stderr().lock());
    }
    written.map_err(|error| format!("the output is published, but could not be written to standard output: {error}"))
}

/// Whether standard output and standard error are read in one place: a terminal, or one file for both.
fn is_one_place() -> bool {
    let place = |file: rustix::io::Result<rustix::fs::Stat>| file.map(|file| (file.st_dev, file.st_ino)).ok();
    let out = place(rustix::fs::fstat(io::stdout()));
    out.is_some() && out == place(rustix::fs::fstat(io::stderr()))
}

fn summary(context: &Context, report: &AgentReport) {
    output::note(&format!(
        "{}: {} ({}), exit {}; run {} in {}",
        report.agent,
        report.status.as_str(),
        report.reason.as_str(),
        report.exit,
        context.run(),
        context.directory().display()
    ));
    for note in &report.attempts {
        let usage = note.usage.map(|usage| {
            let cost = usage.cost_usd_micros.map(|micros| {
                let (dollars, rest) = (micros / 1_000_000, micros % 1_000_000);
                format!(", {dollars}.{rest:06} USD")
            });
            let tokens = |name: &str, count: Option<u64>| count.map(|count| format!(", {count} {name}"));
            [
                cost,
                tokens("tokens in", usage.input_tokens),
                tokens("tokens out", usage.output_tokens),
            ]
            .into_iter()
            .flatten()
            .collect::<String>()
        });
        let exit = note.exit.map(|code| format!(", exit code {code}"));
        output::note(&format!(
            "  attempt {}: {}{}, {:.1} s{}",
            note.number,
            note.class.as_str(),
            exit.unwrap_or_default(),
            note.took.as_secs_f64(),
            usage.unwrap_or_default()
        ));
        for line in &note.last_words {
            output::note(&format!("    {}", output::printable(line)));
        }
    }
    violations(&report.violations);
    if let Some(told) = &report.told {
        output::note(&format!("  {told}"));
    }
    let looks = matches!(
        report.exit,
        exit::REFUSED | exit::NO_DOCUMENT | exit::RUNTIME | exit::TIMEOUT
    );
    if looks {
        output::note("  what the runtime wrote and said is in the run's directory below `quarantine`");
    }
}

/// What was wrong, in the schema's words.
pub(super) fn violations(violations: &[Violation]) {
    for violation in violations.iter().take(SHOWN) {
        let words = [&violation.path, &violation.keyword, &violation.expected];
        let words: Vec<String> = words
            .into_iter()
            .filter(|word| !word.is_empty())
            .map(|word| output::printable(word))
            .collect();
        output::note(&format!("  {}", words.join(": ")));
    }
    if violations.len() > SHOWN {
        output::note(&format!("  and {} more", violations.len() - SHOWN));
    }
}

const SHOWN: usize = 20;
