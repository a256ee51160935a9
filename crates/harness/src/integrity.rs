//! Whether anything of the harness changed while a runtime ran. The sandbox keeps runtimes away from all of it; this is
//! how a hole in it, or an unconfined runtime, is found.

use std::collections::BTreeMap;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use vocabulary::{Digest, lock};

use crate::regular::{self, Links};

/// Files that must stay as they are: those of the harness, and what a run has published.
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    files: Arc<Mutex<BTreeMap<PathBuf, Digest>>>,
    state: PathBuf,
}

/// How things stood before a runtime was let go.
#[derive(Debug)]
pub(crate) struct Before {
    ledger: Option<Tail>,
}

/// The end of the log as it was; it may grow, but what is there stays.
#[derive(Debug, PartialEq, Eq)]
struct Tail {
    segment: PathBuf,
    length: u64,
    hash: Digest,
}

impl Watched {
    /// Watches `files`, and the log below `state`.
    #[must_use]
    pub(crate) fn new(files: BTreeMap<PathBuf, Digest>, state: &Path) -> Self {
        Self {
            files: Arc::new(Mutex::new(files)),
            state: state.to_owned(),
        }
    }

    /// Watches one more file.
    pub(crate) fn add(&self, path: PathBuf, hash: Digest) {
        lock(&self.files).insert(path, hash);
    }

    /// Looks at the log before a runtime is let go.
    #[must_use]
    pub(crate) fn before(&self) -> Before {
        Before {
            ledger: newest_segment(&self.state).and_then(|segment| {
                let length = segment.metadata().ok()?.len();
                Tail::read(&segment, length)
            }),
        }
    }

    /// What changed: the first such file, if any.
    #[must_use]
    pub(crate) fn changed(&self, before: &Before) -> Option<PathBuf> {
        let files = lock(&self.files).clone();
        let differs = |(path, hash): (PathBuf, Digest)| {
            let same = digest_of(&path).is_some_and(|now| now == hash);
            (!same).then_some(path)
        };
        files.into_iter().find_map(differs).or_else(|| {
            let tail = before.ledger.as_ref()?;
            let same = Tail::read(&tail.segment, tail.length).is_some_and(|now| now == *tail);
            (!same).then(|| tail.segment.clone())
        })
    }
}

impl Tail {
    /// The last bytes before `length`.
    fn read(segment: &Path, length: u64) -> Option<Self> {
        let mut file = regular::open(segment, Links::Refuse).ok()?;
        let start = length.saturating_sub(TAIL);
        file.seek(SeekFrom::Start(start)).ok()?;
        let mut bytes = Vec::new();
        file.take(length - start).read_to_end(&mut bytes).ok()?;
        (bytes.len() as u64 == length - start).then(|| Self {
            segment: segment.to_owned(),
            length,
            hash: Digest::of(&bytes),
        })
    }
}

/// The digest of a regular file that is no larger than any output may be; whatever else stands there is a change.
fn digest_of(path: &Path) -> Option<Digest> {
    // By what it leads to, as it was read: where a link leads to the same bytes nothing has changed.
    let bytes = regular::read(path, Links::Follow, LARGEST).ok()??;
    Some(Digest::of(&bytes))
}

fn newest_segment(state: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(state.join("ledger")).ok()?;
    let paths = entries.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    paths
        .filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"))
        .max()
}

/// Cutting and rewriting show at the end; the chain shows the rest.
const TAIL: u64 = 64 << 10;
/// As much as `max_bytes` may be.
const LARGEST: u64 = 1 << 30;
