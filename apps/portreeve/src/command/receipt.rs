//! `receipt`: evidence. Whether the log is what was written, and proofs of single records for people who have only its public
//! key. Works on the files of a state directory, whether or not a gateway runs. 0 sound, 4 broken, 1 could not tell.

mod evidence;
mod proof;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use clap::Subcommand;
use ledger::{Checkpoint, Ledger, OpenError, Settings, latest_checkpoint, newest_seq, stored_key, stored_origin};
use vocabulary::note::Verifier;

use super::access::Access;
use super::output::{self, Form};

/// How a log that is not sound ends a command.
const BROKEN: u8 = 4;
/// How long a running gateway is waited for: it signs every second.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Subcommand)]
pub(super) enum Receipt {
    /// Check records, tree, checkpoints and signatures of the log, and name the first break
    Verify(evidence::Verify),
    /// Prove that a record is in the log, for anybody who has its public key
    Prove {
        /// A receipt id, or a record's place in the log
        id: String,
        /// Where the proof goes; that of the intent goes beside it as FILE.intent [default: standard output]
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
        #[command(flatten)]
        place: Place,
    },
    /// Sign what is new and print the latest checkpoint
    Checkpoint {
        #[command(flatten)]
        place: Place,
    },
    /// Write a record, its proof and the public key into one file
    Export {
        /// A receipt id, or a record's place in the log
        id: String,
        /// Where it goes
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
        #[command(flatten)]
        place: Place,
    },
    /// Check a file that `export` wrote
    VerifyExport {
        /// The file
        file: PathBuf,
        /// The log's public key
        #[arg(long, value_name = "VKEY", value_parser = vkey)]
        key: Verifier,
        #[command(flatten)]
        form: Form,
    },
    /// Print the log's public key
    Key {
        /// Hand over to a new key first; the record of it is signed by both
        #[arg(long)]
        rotate: bool,
        #[command(flatten)]
        place: Place,
    },
}

/// Which log is meant.
#[derive(clap::Args)]
pub(super) struct Place {
    /// State directory [default: the configuration's]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
}

impl Place {
    fn find(self, config: Option<&Path>) -> anyhow::Result<PathBuf> {
        match self.state {
            Some(state) => Ok(state),
            None => Ok(super::load_or_usual(config)?.state.dir),
        }
    }
}

/// A public key on the command line.
fn vkey(text: &str) -> Result<Verifier, String> {
    Verifier::parse(text).map_err(|fault| fault.to_string())
}

impl Receipt {
    pub(super) async fn run(self, config: Option<&Path>) -> anyhow::Result<ExitCode> {
        let config = config.map(Path::to_owned);
        // Reading a log and waiting for its lock blocks.
        tokio::task::spawn_blocking(move || self.act(config.as_deref())).await?
    }

    fn act(self, config: Option<&Path>) -> anyhow::Result<ExitCode> {
        match self {
            Self::Verify(verify) => verify.run(config),
            Self::Prove { id, out, place } => proof::prove(&place.find(config)?, &id, out.as_deref()),
            Self::Checkpoint { place } => {
                let note = signed(&place.find(config)?)?;
                output::lines(note.lines())?;
                Ok(ExitCode::SUCCESS)
            }
            Self::Export { id, out, place } => proof::export(&place.find(config)?, &id, &out),
            Self::VerifyExport { file, key, form } => proof::verify_export(&file, &key, form),
            Self::Key { rotate, place } => key(&place.find(config)?, rotate, config),
        }
    }
}

fn key(state: &Path, rotate: bool, config: Option<&Path>) -> anyhow::Result<ExitCode> {
    let told = match rotate {
        false => {
            let key = stored_key(state)?;
            key.with_context(|| format!("`{}` has no log that signs yet", state.display()))?
                .to_string()
        }
        true => match open(state)? {
            Some(ledger) => {
                let rotated = ledger.rotate_key("local");
                ledger.shutdown();
                rotated?.to_string()
            }
            None => tokio::runtime::Handle::current().block_on(rotate_in_gateway(state, config))?,
        },
    };
    output::line(&told)?;
    Ok(ExitCode::SUCCESS)
}

/// The gateway that writes the log hands over itself, between two records.
async fn rotate_in_gateway(state: &Path, config: Option<&Path>) -> anyhow::Result<String> {
    let mut local = super::load_or_usual(config)?;
    local.state.dir = state.to_owned();
    let access = Access::open(&local).await?;
    let answer = access.post("/ledger/key/rotate", &serde_json::json!({})).await;
    access.close().await?;
    let told = answer?;
    let vkey = told.get("vkey").and_then(serde_json::Value::as_str);
    Ok(vkey.context("the gateway names no key")?.to_owned())
}

/// The latest checkpoint, over everything that was in the log when this was asked.
fn signed(state: &Path) -> anyhow::Result<String> {
    let wanted = newest_seq(state)?;
    if wanted == 0 {
        bail!("there is no log in `{}`", state.display());
    }
    if let Some(note) = covering(state, wanted)? {
        return Ok(note);
    }
    match open(state)? {
        // Closing it signs.
        Some(ledger) => ledger.shutdown(),
        None => wait_for(state, wanted)?,
    }
    covering(state, wanted)?.context("no checkpoint could be signed over the log; its own messages say why")
}

/// A running gateway signs every second by itself.
fn wait_for(state: &Path, wanted: u64) -> anyhow::Result<()> {
    let until = Instant::now() + PATIENCE;
    while covering(state, wanted)?.is_none() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

fn covering(state: &Path, wanted: u64) -> anyhow::Result<Option<String>> {
    let note = latest_checkpoint(state)?;
    let covers = |note: &String| Checkpoint::read(note).is_ok_and(|checkpoint| checkpoint.size >= wanted);
    Ok(note.filter(covers))
}

/// The log, for writing; `None` while somebody else writes it.
fn open(state: &Path) -> anyhow::Result<Option<Ledger>> {
    let origin = stored_origin(state).with_context(|| format!("there is no log in `{}`", state.display()))?;
    match Ledger::open(state, Settings::new(&origin)) {
        Ok((ledger, _)) => Ok(Some(ledger)),
        Err(OpenError::InUse) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
