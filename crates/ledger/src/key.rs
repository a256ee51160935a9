//! The log's key: `ledger.key` of the state directory, made at first start. While a new one takes over it lies beside as
//! `ledger.key.next`.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use vocabulary::Secret;
use vocabulary::note::{KeyFault, KeyName, Signer, Verifier};

use crate::segment::open_private;

/// Why the log's key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LedgerKeyFault {
    /// It is no key.
    #[error("`{}` {fault}", .path.display())]
    Unsound {
        /// Its file.
        path: PathBuf,
        /// What is wrong.
        fault: KeyFault,
    },
    /// The file cannot be read or written.
    #[error("`{}` cannot be read or written", .path.display())]
    Disk {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

/// Where a state directory has its keys.
#[derive(Clone, Debug)]
pub(crate) struct KeyFiles {
    state: PathBuf,
}

impl KeyFiles {
    pub(crate) fn of_state(state: &Path) -> Self {
        Self {
            state: state.to_owned(),
        }
    }

    pub(crate) fn current_path(&self) -> PathBuf {
        self.state.join("ledger.key")
    }

    fn next_path(&self) -> PathBuf {
        self.state.join("ledger.key.next")
    }

    pub(crate) fn current(&self, origin: &str) -> Result<Option<Signer>, LedgerKeyFault> {
        load(&self.current_path(), origin)
    }

    pub(crate) fn next(&self, origin: &str) -> Result<Option<Signer>, LedgerKeyFault> {
        load(&self.next_path(), origin)
    }

    /// Makes the first key.
    pub(crate) fn create(&self, origin: &str) -> Result<Signer, LedgerKeyFault> {
        make(&self.current_path(), origin)
    }

    /// Makes a key that is to take over.
    pub(crate) fn create_next(&self, origin: &str) -> Result<Signer, LedgerKeyFault> {
        self.forget_next();
        make(&self.next_path(), origin)
    }

    /// The new key is the log's from here on.
    pub(crate) fn take_over(&self) -> io::Result<()> {
        fs::rename(self.next_path(), self.current_path())?;
        File::open(&self.state)?.sync_all()
    }

    /// A key that never took over goes.
    pub(crate) fn forget_next(&self) {
        let _ = fs::remove_file(self.next_path());
    }
}

/// The public half of a state directory's key, if it has one.
///
/// # Errors
/// When the file is there and holds no key.
pub fn stored_key(state: &Path) -> Result<Option<Verifier>, LedgerKeyFault> {
    let files = KeyFiles::of_state(state);
    // The key says itself what it is called: a log that was tampered with does not get to.
    let text = fs::read_to_string(files.current_path()).map(Secret::new).ok();
    let named = text.as_ref().and_then(|text| {
        let vkey = Signer::vkey_in(text.expose())?.ok()?;
        Signer::is_pair(text.expose(), &vkey).then_some(vkey)
    });
    if named.is_some() {
        return Ok(named);
    }
    let origin = crate::open::stored_origin(state).unwrap_or_default();
    let signer = files.current(&origin)?;
    Ok(signer.map(|signer| signer.verifier().clone()))
}

fn load(path: &Path, origin: &str) -> Result<Option<Signer>, LedgerKeyFault> {
    let unsound = |fault| LedgerKeyFault::Unsound {
        path: path.to_owned(),
        fault,
    };
    let text = match fs::read(path) {
        Ok(bytes) => String::from_utf8(bytes).map_err(|_| unsound(KeyFault::Private))?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => {
            return Err(LedgerKeyFault::Disk {
                path: path.to_owned(),
                source,
            });
        }
    };
    let text = Secret::new(text);
    let name = KeyName::parse(origin).map_err(unsound)?;
    Signer::from_pem(text.expose(), &name).map(Some).map_err(unsound)
}

fn make(path: &Path, origin: &str) -> Result<Signer, LedgerKeyFault> {
    let unsound = |fault| LedgerKeyFault::Unsound {
        path: path.to_owned(),
        fault,
    };
    let name = KeyName::parse(origin).map_err(unsound)?;
    let signer = Signer::generate(name).map_err(unsound)?;
    let pem = signer.to_pem().map_err(unsound)?;
    write_new(path, &pem).map_err(|source| LedgerKeyFault::Disk {
        path: path.to_owned(),
        source,
    })?;
    Ok(signer)
}

/// Whole and on disk under its name, or not there.
fn write_new(path: &Path, pem: &Secret) -> io::Result<()> {
    let beside = path.with_extension("new");
    let mut file = open_private(&beside, OpenOptions::new().write(true).create(true).truncate(true))?;
    file.write_all(pem.expose().as_bytes())?;
    file.sync_all()?;
    fs::rename(&beside, path)?;
    match path.parent() {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}
