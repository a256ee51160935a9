//! The two files checkpoints are kept in.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::Checkpoint;
use crate::segment::open_private;

/// A checkpoint in a file, its signatures not judged yet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Stated {
    /// Where its note begins.
    pub(crate) offset: u64,
    pub(crate) checkpoint: Checkpoint,
    pub(crate) note: String,
}

/// Reads notes that stand one after another. Where one is none, says where it begins.
pub(crate) fn read_all(bytes: &[u8]) -> (Vec<Stated>, Option<u64>) {
    let mut notes = Vec::new();
    let mut at = 0;
    while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
        let stated = note_at_start(rest).and_then(|note| {
            let checkpoint = Checkpoint::read(note).ok()?;
            Some((checkpoint, note))
        });
        let Some((checkpoint, note)) = stated else {
            return (notes, Some(at as u64));
        };
        notes.push(Stated {
            offset: at as u64,
            checkpoint,
            note: note.to_owned(),
        });
        at += note.len();
        match bytes.get(at..) {
            // The empty line between two; after the last there is none.
            Some([b'\n', _, ..]) => at += 1,
            Some([]) | None => {}
            Some(_) => return (notes, Some(at as u64)),
        }
    }
    (notes, None)
}

/// The first note: three lines, an empty one, signature lines up to the next empty one or the end.
fn note_at_start(bytes: &[u8]) -> Option<&str> {
    let text = memchr::memmem::find(bytes, b"\n\n")?;
    let signatures = bytes.get(text + 2..)?;
    let end = match memchr::memmem::find(signatures, b"\n\n") {
        Some(end) => text + 2 + end + 1,
        None => bytes.len(),
    };
    let note = std::str::from_utf8(bytes.get(..end)?).ok()?;
    note.ends_with('\n').then_some(note)
}

/// The files of a log, for whoever signs.
#[derive(Debug)]
pub(crate) struct CheckpointFiles {
    folder: PathBuf,
}

/// What they hold.
#[derive(Debug)]
pub(crate) struct KeptCheckpoints {
    /// The latest of both files.
    pub(crate) latest: Option<Stated>,
    /// `ledger/checkpoint` as it stands.
    pub(crate) current: Option<String>,
    /// Whether `ledger/checkpoints` has the latest.
    pub(crate) is_listed: bool,
    /// Where a note in `ledger/checkpoints` begins that a crash cut short.
    pub(crate) cut: Option<u64>,
}

/// Why the files cannot be gone by.
#[derive(Debug)]
pub(crate) enum FilesFault {
    Disk(io::Error),
    /// One of them holds something else than checkpoints, or they contradict each other.
    Unsound(PathBuf),
}

impl CheckpointFiles {
    pub(crate) fn of(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
        }
    }

    pub(crate) fn latest_path(&self) -> PathBuf {
        self.folder.join("checkpoint")
    }

    pub(crate) fn all_path(&self) -> PathBuf {
        self.folder.join("checkpoints")
    }

    pub(crate) fn read(&self) -> Result<KeptCheckpoints, FilesFault> {
        let all = read_if_there(&self.all_path())
            .map_err(FilesFault::Disk)?
            .unwrap_or_default();
        let (notes, cut) = read_all(&all);
        // Only the end can have been cut by a crash: what follows an unreadable note says that somebody wrote it.
        let is_end = |at: u64| {
            let rest = usize::try_from(at)
                .ok()
                .and_then(|at| all.get(at..))
                .unwrap_or_default();
            note_at_start(rest).is_none()
        };
        if cut.is_some_and(|at| !is_end(at)) {
            return Err(FilesFault::Unsound(self.all_path()));
        }
        let current = read_if_there(&self.latest_path()).map_err(FilesFault::Disk)?;
        let current = current
            .map(|bytes| String::from_utf8(bytes).map_err(|_| FilesFault::Unsound(self.latest_path())))
            .transpose()?;
        let stated = current
            .as_ref()
            .map(|note| match read_all(note.as_bytes()) {
                (mut notes, None) if notes.len() == 1 => notes.pop().ok_or(()),
                (_, _) => Err(()),
            })
            .transpose()
            .map_err(|()| FilesFault::Unsound(self.latest_path()))?;
        let (latest, is_listed) = match (notes.last(), stated) {
            (None, None) => (None, true),
            (Some(listed), None) => (Some(listed.clone()), true),
            (None, Some(stated)) => (Some(stated), false),
            (Some(listed), Some(stated)) if stated.checkpoint.size > listed.checkpoint.size => (Some(stated), false),
            (Some(listed), Some(stated)) => {
                let same = listed.checkpoint.size != stated.checkpoint.size || *listed.note == stated.note;
                if !same {
                    return Err(FilesFault::Unsound(self.latest_path()));
                }
                (Some(listed.clone()), true)
            }
        };
        Ok(KeptCheckpoints {
            latest,
            current,
            is_listed,
            cut,
        })
    }

    /// Adds a note to the list; `at` is where the list ends, if a crash left something behind.
    pub(crate) fn append(&self, note: &str, at: Option<u64>) -> io::Result<()> {
        let mut file = open_private(&self.all_path(), OpenOptions::new().append(true).create(true))?;
        if let Some(at) = at {
            // The empty line before the note goes with it.
            file.set_len(at.saturating_sub(1))?;
        }
        let between = if file.metadata()?.len() > 0 { "\n" } else { "" };
        file.write_all(format!("{between}{note}").as_bytes())
    }

    /// Puts a note in the place of the latest.
    pub(crate) fn replace(&self, note: &str) -> io::Result<()> {
        let beside = self.folder.join("checkpoint.new");
        let mut file = open_private(&beside, OpenOptions::new().write(true).create(true).truncate(true))?;
        file.write_all(note.as_bytes())?;
        fs::rename(beside, self.latest_path())
    }

    /// The latest as it stands now.
    pub(crate) fn current(&self) -> io::Result<Option<String>> {
        let bytes = read_if_there(&self.latest_path())?;
        Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }
}

pub(crate) fn read_if_there(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
