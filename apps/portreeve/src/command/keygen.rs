//! `keygen`: a key of the operator's, for what they stand for.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use vocabulary::Secret;
use vocabulary::note::{KeyName, Signer};

use super::output;

#[derive(clap::Args)]
pub(super) struct Keygen {
    /// The key's name, such as `ops.example/locks`: no space, no `+`
    #[arg(long, value_name = "NAME", value_parser = name)]
    name: KeyName,
    /// Where the private key is written; a file that is there already is left alone
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

fn name(text: &str) -> Result<KeyName, String> {
    KeyName::parse(text).map_err(|fault| fault.to_string())
}

impl Keygen {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let signer = Signer::generate(self.name).context("the key")?;
        let pem = signer.to_pem().context("the key")?;
        write_new(&self.out, &pem).map_err(|error| match error.kind() == io::ErrorKind::AlreadyExists {
            true => anyhow::anyhow!(
                "`{}` is there already and stays as it is; name another file with --out",
                self.out.display()
            ),
            false => anyhow::Error::new(error).context(format!("`{}` cannot be written", self.out.display())),
        })?;
        output::line(&signer.verifier().to_string())?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Only its owner can read it; what cannot be written whole leaves nothing behind.
fn write_new(file: &Path, pem: &Secret) -> io::Result<()> {
    let mut opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?;
    let written = opened
        .write_all(pem.expose().as_bytes())
        .and_then(|()| opened.sync_all());
    written.inspect_err(|_| drop(fs::remove_file(file)))
}
