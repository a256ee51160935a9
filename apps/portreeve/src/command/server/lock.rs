//! `server lock`, `server sign` and `server verify`: what servers are now is written down, and an operator stands for it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use serde_json::json;
use vocabulary::Secret;
use vocabulary::note::{Signature, Signer, Verifier, sign, verify};

use crate::command::output::{self, Form};
use crate::config::{Config, RawConfig, hold, keys_in_file, replace, variable};
use crate::servers_lock::{Entry, LOCK_FILE, SIGNATURE_FILE, ServersLock, signed};

#[derive(clap::Args)]
pub(in crate::command) struct Lock {
    #[command(flatten)]
    form: Form,
}

#[derive(clap::Args)]
pub(in crate::command) struct Sign {
    /// The private key that `portreeve keygen` made: a file, or `env:NAME` of a variable that holds its text
    #[arg(long, value_name = "FILE")]
    key: String,
    /// Where the signature goes [default: servers.lock.sig beside the configuration]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    form: Form,
}

#[derive(clap::Args)]
pub(in crate::command) struct Verify {
    /// A file with public keys, one a line [default: those of `trust.keys`]
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    #[command(flatten)]
    form: Form,
}

impl Lock {
    pub(super) async fn run(self, file: &Path) -> anyhow::Result<ExitCode> {
        let _held = hold(file)?;
        let (config, lock) = locked_now(file)?;
        let changes = write(file, &lock)?;
        super::reload(&config).await?;
        tell(&changes, None, self.form)?;
        let unsigned = config.anchors.require_signed && !changes.is_empty();
        if unsigned {
            output::note("no server is started until it is signed: `portreeve server sign --key FILE`");
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Sign {
    pub(super) async fn run(self, file: &Path) -> anyhow::Result<ExitCode> {
        let _held = hold(file)?;
        let (config, lock) = locked_now(file)?;
        let signer = signer(&self.key, &config.anchors.keys)?;
        let text = lock.to_text()?;
        let signature = sign(&text, &signer).context("servers.lock")?;
        let out = self.out.unwrap_or_else(|| file.with_file_name(SIGNATURE_FILE));
        let others = others(&out, &text, (&config.anchors.keys, signer.verifier()));
        let changes = write(file, &lock)?;
        replace(&out, &format!("{}{others}", signature.to_line()))?;
        super::reload(&config).await?;
        tell(&changes, Some(signer.verifier()), self.form)?;
        if !config.anchors.keys.contains(signer.verifier()) {
            output::note(&format!(
                "this key is not in `trust.keys`, so that its signature does not count here yet: {}",
                signer.verifier()
            ));
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Verify {
    pub(super) fn run(self, file: &Path) -> anyhow::Result<ExitCode> {
        let config = RawConfig::read(file).and_then(|raw| Config::try_from(raw.for_locking()))?;
        let keys = match &self.key {
            Some(path) => {
                let text =
                    std::fs::read_to_string(path).with_context(|| format!("`{}` cannot be read", path.display()))?;
                public_keys(&text).map_err(|why| anyhow::anyhow!("`{}` {why}", path.display()))?
            }
            None => config.anchors.keys.clone(),
        };
        anyhow::ensure!(
            !keys.is_empty(),
            "no key is trusted: write one into `trust.keys`, or name a file with --key"
        );
        let text = |name: &str| -> anyhow::Result<Option<String>> {
            match std::fs::read_to_string(file.with_file_name(name)) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
                read => Ok(Some(read.with_context(|| format!("`{name}` cannot be read"))?)),
            }
        };
        let (lock, signatures) = (text(LOCK_FILE)?, text(SIGNATURE_FILE)?);
        let by = signed(lock.as_deref(), signatures.as_deref(), &keys);
        let mut faults: Vec<String> = by.as_ref().err().into_iter().cloned().collect();
        match lock.as_deref().map(ServersLock::parse) {
            Some(Ok(lock)) => faults.extend(differences(&config, &lock)),
            Some(Err(why)) => faults.push(format!("servers.lock {why}")),
            None => {}
        }
        let by: Vec<String> = by.unwrap_or_default().iter().map(|key| key.shown()).collect();
        if self.form.json {
            let told = json!({"ok": faults.is_empty(), "keys": by, "faults": faults});
            output::line(&told.to_string())?;
        } else {
            for key in &by {
                output::line(&format!("servers.lock is signed by {}", output::printable(key)))?;
            }
            faults.iter().for_each(|fault| output::note(&format!("fault: {fault}")));
        }
        Ok(match faults.is_empty() {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        })
    }
}

/// The servers as they are now. What cannot be started is not locked: nobody could have looked at it.
fn locked_now(file: &Path) -> anyhow::Result<(Config, ServersLock)> {
    let config = RawConfig::read(file).and_then(|raw| Config::try_from(raw.for_locking()))?;
    for id in config.servers.keys() {
        config.starts(id)?;
    }
    let mut lock = ServersLock::default();
    for (id, server) in &config.servers {
        let entry = Entry::of(id, &server.reach, &config.state.dir);
        lock.set(
            id.to_string(),
            entry.map_err(|why| anyhow::anyhow!("server `{id}`: {why}"))?,
        );
    }
    Ok((config, lock))
}

/// In what the servers are other than a lock says.
fn differences(config: &Config, lock: &ServersLock) -> Vec<String> {
    let told = |(id, server): (&vocabulary::ServerId, &crate::config::Server)| {
        let differs = match (lock.get(id.as_str()), Entry::of(id, &server.reach, &config.state.dir)) {
            (None, _) => "it is not in servers.lock".to_owned(),
            (Some(_), Err(why)) => why,
            (Some(locked), Ok(found)) => format!("servers.lock has it otherwise: {}", locked.difference(&found)?),
        };
        Some(format!("servers.{id}: {differs}"))
    };
    config.servers.iter().filter_map(told).collect()
}

/// Writes the lock if it says something else than the one that is there; what is other about it.
fn write(file: &Path, lock: &ServersLock) -> anyhow::Result<Vec<String>> {
    let lock_file = file.with_file_name(LOCK_FILE);
    let text = lock.to_text()?;
    let before = std::fs::read_to_string(&lock_file).ok();
    if before.as_deref() == Some(&text) {
        return Ok(Vec::new());
    }
    let before = before
        .and_then(|before| ServersLock::parse(&before).ok())
        .unwrap_or_default();
    replace(&lock_file, &text)?;
    let changes = before.changes_to(lock);
    Ok(match changes.is_empty() {
        true => vec!["the same servers, spelled anew".to_owned()],
        false => changes,
    })
}

/// Signatures of other keys that are trusted, as far as they are of this text: keys change one after another.
fn others(file: &Path, text: &str, (keys, own): (&[Verifier], &Verifier)) -> String {
    let Ok(lines) = std::fs::read_to_string(file) else {
        return String::new();
    };
    let signatures = Signature::read_all(&lines).unwrap_or_default();
    let counts = |signature: &&Signature| {
        let mut keys = keys.iter().filter(|key| *key != own && signature.is_of(key));
        keys.any(|key| verify(text, &signature.to_line(), std::slice::from_ref(key)).is_ok())
    };
    signatures.iter().filter(counts).map(Signature::to_line).collect()
}

/// The private key, with the name it was given; one that was made elsewhere has the name that `trust.keys` gives it.
fn signer(key: &str, trusted: &[Verifier]) -> anyhow::Result<Signer> {
    let text = match key.strip_prefix("env:") {
        Some(name) => Secret::new(
            variable(name).with_context(|| format!("environment variable `{}` is not set", output::printable(name)))?,
        ),
        None => {
            let path = Path::new(key.strip_prefix("file:").unwrap_or(key));
            let read = std::fs::read_to_string(path);
            Secret::new(read.with_context(|| format!("`{}` cannot be read", path.display()))?)
        }
    };
    let shown = output::printable(key);
    let own = Signer::vkey_in(text.expose()).transpose();
    let own = own.map_err(|fault| anyhow::anyhow!("`{shown}`: the public key beside the private one {fault}"))?;
    let known = || {
        trusted
            .iter()
            .find(|known| Signer::is_pair(text.expose(), known))
            .cloned()
    };
    let named = own.or_else(known);
    match named {
        Some(public) => Signer::from_pem(text.expose(), public.name()),
        None => {
            let any_name = vocabulary::note::KeyName::parse("unnamed")?;
            // A file that holds no key is told so first.
            Signer::from_pem(text.expose(), &any_name).map_err(|fault| anyhow::anyhow!("`{shown}` {fault}"))?;
            anyhow::bail!(
                "`{shown}` holds a key without a name; make one with `portreeve keygen`, or put its public key into `trust.keys`"
            )
        }
    }
    .map_err(|fault| anyhow::anyhow!("`{shown}` {fault}"))
}

/// Public keys, one a line; the file of a private key names its own.
fn public_keys(text: &str) -> Result<Vec<Verifier>, String> {
    match Signer::vkey_in(text) {
        Some(key) => key.map(|key| vec![key]).map_err(|fault| fault.to_string()),
        None => keys_in_file(text),
    }
}

fn tell(changes: &[String], by: Option<&Verifier>, form: Form) -> anyhow::Result<()> {
    if form.json {
        let told = json!({"changes": changes, "signed_by": by.map(Verifier::shown)});
        return output::line(&told.to_string());
    }
    for change in changes {
        output::line(&output::printable(change))?;
    }
    if changes.is_empty() {
        output::note("servers.lock says already what the servers are");
    }
    match by {
        Some(key) => output::line(&format!(
            "servers.lock is signed by {}",
            output::printable(&key.shown())
        )),
        None => Ok(()),
    }
}
