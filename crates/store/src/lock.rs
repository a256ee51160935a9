//! One process at a time works on a state directory.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Why the lock was not given.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process holds it.
    #[error("the state directory `{0}` is in use by another process")]
    InUse(PathBuf),
    /// The directory or its lock file cannot be made or opened.
    #[error("the state directory `{folder}` cannot be locked")]
    Disk {
        /// The directory.
        folder: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

/// The right to change a state directory, held until dropped. The lock goes with the process, however it ends.
#[derive(Debug)]
pub struct StateLock {
    _file: File,
}

impl StateLock {
    /// Takes the lock of a state directory, making the directory where it is missing. Does not wait.
    ///
    /// # Errors
    /// When another process holds it, or the directory cannot be used.
    pub fn take(state: &Path) -> Result<Self, LockError> {
        let disk = |source| LockError::Disk {
            folder: state.to_owned(),
            source,
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(state)
            .map_err(disk)?;
        let mut options = OpenOptions::new();
        let file = options
            .write(true)
            .create(true)
            .mode(0o600)
            .open(state.join("lock"))
            .map_err(disk)?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(TryLockError::WouldBlock) => Err(LockError::InUse(state.to_owned())),
            Err(TryLockError::Error(source)) => Err(disk(source)),
        }
    }
}
