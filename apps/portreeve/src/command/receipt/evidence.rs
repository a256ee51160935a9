//! `receipt verify`.

use std::fs;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use ledger::{Question, Report, verify_files, verify_state};
use serde_json::json;
use vocabulary::note::Verifier;

use super::super::output::{self, Form};
use super::{BROKEN, Place, vkey};

#[derive(clap::Args)]
pub(crate) struct Verify {
    /// Segments on their own, in their order: lines and chain are checked
    #[arg(value_name = "FILE", conflicts_with_all = ["state", "key", "trusted_checkpoint"])]
    files: Vec<PathBuf>,
    #[command(flatten)]
    place: Place,
    /// The log's public key, an earlier or a later one of it [default: the state directory's]
    #[arg(long, value_name = "VKEY", value_parser = vkey)]
    key: Option<Verifier>,
    /// A checkpoint that was kept elsewhere: the log must continue it
    #[arg(long, value_name = "FILE")]
    trusted_checkpoint: Option<PathBuf>,
    /// The first record to look at closely
    #[arg(long, value_name = "SEQ")]
    from: Option<u64>,
    /// The last record to look at closely
    #[arg(long, value_name = "SEQ")]
    to: Option<u64>,
    #[command(flatten)]
    form: Form,
}

impl Verify {
    pub(super) fn run(self, config: Option<&Path>) -> anyhow::Result<ExitCode> {
        let trusted = self.trusted_checkpoint.map(|file| match fs::read(&file) {
            // What is no text is no checkpoint, and is told as such.
            Ok(bytes) => Ok((file, String::from_utf8_lossy(&bytes).into_owned())),
            Err(error) => Err(error).with_context(|| format!("`{}` cannot be read", file.display())),
        });
        let question = Question {
            key: self.key,
            trusted: trusted.transpose()?,
            from: self.from,
            to: self.to,
        };
        let report = match self.files.is_empty() {
            false => verify_files(&self.files, &question)?,
            true => {
                let state = self.place.find(config)?;
                let mut progress = Progress::default();
                let report = verify_state(&state, &question, &mut |seq| progress.tell(seq));
                progress.end();
                report?
            }
        };
        tell(&report, self.form)?;
        Ok(match report.fault {
            None => ExitCode::SUCCESS,
            Some(_) => ExitCode::from(BROKEN),
        })
    }
}

fn tell(report: &Report, form: Form) -> anyhow::Result<()> {
    if form.json {
        let fault = report.fault.as_ref().map(|fault| {
            json!({
                "seq": fault.seq,
                "file": fault.file.display().to_string(),
                "offset": fault.offset,
                "kind": fault.kind.as_str(),
            })
        });
        let told = json!({
            "ok": fault.is_none(),
            "records": report.records,
            "checkpoints": report.checkpoints,
            "size": report.size,
            "root": report.root,
            "unsigned": report.unsigned,
            "open_intents": report.open_intents,
            "break": fault,
        });
        return output::line(&told.to_string());
    }
    match &report.fault {
        None => output::line(&format!(
            "sound: {} records, {} checkpoints, the latest over {} records; {} not signed yet, {} intents without a final record",
            report.records, report.checkpoints, report.size, report.unsigned, report.open_intents
        )),
        Some(fault) => {
            let what = match fault.seq {
                Some(seq) => format!("record {seq}"),
                None => "what stands there".to_owned(),
            };
            output::line(&format!(
                "BROKEN ({}): {what} {} (`{}`, byte {})",
                fault.kind.as_str(),
                fault.kind,
                fault.file.display(),
                fault.offset
            ))
        }
    }
}

/// How far it has come, where somebody looks.
#[derive(Default)]
struct Progress {
    told: bool,
}

impl Progress {
    fn tell(&mut self, seq: u64) {
        let mut out = io::stderr().lock();
        if out.is_terminal() {
            let _ = write!(out, "\r{seq} records");
            self.told = true;
        }
    }

    fn end(&self) {
        if self.told {
            let _ = write!(io::stderr().lock(), "\r\u{1b}[K");
        }
    }
}
