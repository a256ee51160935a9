//! Files of the harness directory: found inside it, links included, and read once.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use settings::{Complaint, Unreadable, quoted};
use vocabulary::Digest;

use crate::regular::{self, Links};

/// A file that was read before anything ran: these bytes are used, whatever becomes of the file.
#[derive(Clone, PartialEq, Eq)]
pub struct Document {
    /// As written in the configuration.
    pub name: String,
    /// Where it lies.
    pub path: PathBuf,
    /// What it holds.
    pub bytes: Vec<u8>,
    /// The digest of that.
    pub hash: Digest,
}

impl std::fmt::Debug for Document {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Document")
            .field("name", &self.name)
            .field("hash", &self.hash)
            .finish_non_exhaustive()
    }
}

/// The harness directory, and what was read from it.
#[derive(Debug)]
pub(super) struct Files {
    root: PathBuf,
    read: RefCell<BTreeMap<PathBuf, Digest>>,
}

impl Files {
    pub(super) fn below(root: PathBuf) -> Self {
        Self {
            root,
            read: RefCell::default(),
        }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Reads a file that must lie inside the directory.
    pub(super) fn document(&self, name: &str) -> Result<Document, Complaint> {
        let path = self.inside(name)?;
        let bytes = read_document(&path).map_err(|error| Complaint::new(format!("{} {error}", quoted(name))))?;
        let hash = Digest::of(&bytes);
        self.note(path.clone(), hash);
        Ok(Document {
            name: name.to_owned(),
            path,
            bytes,
            hash,
        })
    }

    /// Where a file inside the directory lies, links followed.
    pub(super) fn inside(&self, name: &str) -> Result<PathBuf, Complaint> {
        let plain = Path::new(name)
            .components()
            .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        if name.is_empty() || !plain {
            return Err(outside(name));
        }
        let target = self.root.join(name).canonicalize();
        let target = target.map_err(|error| Complaint::new(format!("{} cannot be found: {error}", quoted(name))))?;
        if !target.starts_with(&self.root) {
            return Err(outside(name).hint("a link leads out of the harness directory; put the file itself there"));
        }
        if !target.is_file() {
            return Err(Complaint::new(format!("{} is not a file", quoted(name))));
        }
        Ok(target)
    }

    /// The digest of a word of a command line that is a file of this directory.
    pub(super) fn part_of_command(&self, word: &str) -> Option<Digest> {
        let path = self.root.join(word).canonicalize().ok()?;
        if !path.starts_with(&self.root) || !path.is_file() {
            return None;
        }
        let hash = Digest::of(&read_document(&path).ok()?);
        self.note(path, hash);
        Some(hash)
    }

    /// A path that may lie outside.
    pub(super) fn anywhere(&self, name: &str) -> PathBuf {
        let path = self.root.join(name);
        path.canonicalize().unwrap_or(path)
    }

    pub(super) fn note(&self, path: PathBuf, hash: Digest) {
        self.read.borrow_mut().insert(path, hash);
    }

    /// Every file that was read, with its digest.
    pub(super) fn into_watched(self) -> BTreeMap<PathBuf, Digest> {
        self.read.into_inner()
    }
}

fn outside(name: &str) -> Complaint {
    Complaint::new(format!("{} does not lie in the harness directory", quoted(name)))
        .hint("write a relative path without `..`")
}

/// Reads a file of a harness: a regular one, at most 4 MiB.
///
/// # Errors
/// Why there is nothing to go by.
pub fn read_document(path: &Path) -> Result<Vec<u8>, Unreadable> {
    settings::read(regular::open(path, Links::Follow), MAX_FILE)
}

const MAX_FILE: u64 = 4 << 20;
