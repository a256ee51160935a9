//! The key that keeps arguments from lying open in the state directory: made when it is first needed, and kept beside the store.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use control::ports::PortError;
use data_encoding::HEXLOWER;
use vocabulary::{SealingKey, SealingKeyBytes};

/// The file in the state directory.
pub(crate) const KEY_FILE: &str = "approvals.key";

/// Seals and opens under the key of a state directory.
pub(super) struct Sealed {
    file: PathBuf,
    key: OnceLock<SealingKey>,
}

impl Sealed {
    pub(super) fn of(state: &Path) -> Self {
        Self {
            file: state.join(KEY_FILE),
            key: OnceLock::new(),
        }
    }

    pub(super) fn close(&self, purpose: &str, content: &[u8]) -> Result<Vec<u8>, PortError> {
        let sealed = self.key()?.close(purpose, content);
        sealed.map_err(|_| PortError::new("no random bytes"))
    }

    /// What was sealed; nothing where another key sealed it, or another hand changed it.
    pub(super) fn open(&self, purpose: &str, sealed: &[u8]) -> Result<Option<Vec<u8>>, PortError> {
        Ok(self.key()?.open(purpose, sealed))
    }

    fn key(&self) -> Result<&SealingKey, PortError> {
        if let Some(key) = self.key.get() {
            return Ok(key);
        }
        let bytes = read_or_make(&self.file).map_err(PortError::new)?;
        let key = SealingKey::of(&bytes).map_err(|_| PortError::new("the key of approvals cannot be used"))?;
        Ok(self.key.get_or_init(|| key))
    }
}

fn read_or_make(file: &Path) -> io::Result<SealingKeyBytes> {
    match fs::read_to_string(file) {
        Ok(text) => read(&text),
        Err(missing) if missing.kind() == io::ErrorKind::NotFound => make(file),
        Err(other) => Err(other),
    }
}

fn read(text: &str) -> io::Result<SealingKeyBytes> {
    let bytes = HEXLOWER.decode(text.trim_end().as_bytes()).ok();
    let bytes = bytes.and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
    let broken = || io::Error::new(io::ErrorKind::InvalidData, format!("`{KEY_FILE}` does not hold a key"));
    bytes.map(SealingKeyBytes::from).ok_or_else(broken)
}

fn make(file: &Path) -> io::Result<SealingKeyBytes> {
    let bytes = SealingKey::draw().map_err(|_| io::Error::other("no random bytes"))?;
    let mut made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?;
    made.write_all(HEXLOWER.encode(bytes.as_slice()).as_bytes())?;
    made.sync_all()?;
    Ok(bytes)
}
