//! Takes an output off a runtime's hands, after everything inside its sandbox is dead: one regular file with one name,
//! found below a directory that the harness made and holds open, read once. From then on only these bytes exist.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, open, openat2};
use rustix::io::Errno;
use vocabulary::Digest;

use crate::refusal::{Guard, Refusal};

/// Bytes nobody has judged yet.
#[derive(Clone)]
pub struct RawOutput {
    bytes: Vec<u8>,
    hash: Digest,
}

impl RawOutput {
    /// Bytes that came some other way than by a file.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Self {
        let hash = Digest::of(&bytes);
        Self { bytes, hash }
    }

    /// Their digest.
    #[must_use]
    pub fn hash(&self) -> Digest {
        self.hash
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl std::fmt::Debug for RawOutput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RawOutput")
            .field("hash", &self.hash)
            .finish_non_exhaustive()
    }
}

/// A directory that is held open: whatever is put in its place later, this one is meant.
#[derive(Debug)]
pub struct OutputPlace(OwnedFd);

impl OutputPlace {
    /// Takes hold of a directory.
    ///
    /// # Errors
    /// When it is not there or leads through a link in its last part.
    pub fn hold(path: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(Self(open(path, flags, Mode::empty())?))
    }

    /// Takes the file `name` out of the directory.
    ///
    /// # Errors
    /// Why there is nothing to judge.
    pub fn take(&self, name: &str, max_bytes: usize) -> Result<RawOutput, Refusal> {
        let beneath =
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV;
        take_below(self.0.as_fd(), name, beneath, max_bytes)
    }
}

/// Takes a file somebody names on the command line, under the same rules for the file itself.
///
/// # Errors
/// Why there is nothing to judge.
pub fn take_file(path: &Path, max_bytes: usize) -> Result<RawOutput, Refusal> {
    let name = path
        .to_str()
        .ok_or_else(|| Refusal::guard(Guard::Unreadable, UNREADABLE))?;
    // Directories on the way are the caller's own; the file must be one.
    let last = path.symlink_metadata().map(|found| found.file_type().is_symlink());
    if last.unwrap_or(false) {
        return Err(not_regular());
    }
    take_below(CWD, name, ResolveFlags::NO_MAGICLINKS, max_bytes)
}

fn take_below(directory: impl AsFd, name: &str, resolve: ResolveFlags, max_bytes: usize) -> Result<RawOutput, Refusal> {
    // Without blocking: a pipe that nobody writes would be waited for.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = openat2(directory, name, flags, Mode::empty(), resolve).map_err(|error| match error {
        Errno::NOENT => Refusal::no_output(),
        Errno::LOOP | Errno::XDEV | Errno::NXIO | Errno::NODEV => not_regular(),
        _ => Refusal::guard(Guard::Unreadable, UNREADABLE),
    })?;
    let unreadable = |_| Refusal::guard(Guard::Unreadable, UNREADABLE);
    let found = fstat(&file).map_err(unreadable)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
        return Err(not_regular());
    }
    if found.st_nlink != 1 {
        return Err(Refusal::guard(Guard::Linked, "the output must be a file with one name"));
    }
    if usize::try_from(found.st_size).map_or(true, |size| size > max_bytes) {
        return Err(Refusal::too_large());
    }
    let mut bytes = Vec::with_capacity(usize::try_from(found.st_size).unwrap_or_default());
    let most = u64::try_from(max_bytes).unwrap_or(u64::MAX).saturating_add(1);
    let read = File::from(file).take(most).read_to_end(&mut bytes);
    read.map_err(|_| Refusal::guard(Guard::Unreadable, UNREADABLE))?;
    match bytes.len() {
        0 => Err(Refusal::no_output()),
        size if size > max_bytes => Err(Refusal::too_large()),
        _ => Ok(RawOutput::new(bytes)),
    }
}

fn not_regular() -> Refusal {
    Refusal::guard(Guard::NotARegularFile, "the output must be a regular file")
}

const UNREADABLE: &str = "the output cannot be opened";

#[cfg(test)]
mod tests;
