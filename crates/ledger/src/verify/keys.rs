//! Which key had to sign which checkpoint: the log's own records say when one took over from another.

use vocabulary::note::Verifier;

use crate::checkpoint::{Checkpoint, Stated};
use crate::retention::Handover;

/// The keys of a log, in their order, and the place of the record by which each took over.
pub(super) struct KeyRing {
    keys: Vec<Verifier>,
    since: Vec<u64>,
}

impl KeyRing {
    /// The keys that a trusted one vouches for; `None` where the trusted one is not among them, or they do not follow each other.
    pub(super) fn around<'h>(trusted: &Verifier, handovers: impl Iterator<Item = &'h Handover>) -> Option<Self> {
        let mut keys = Vec::new();
        let mut since = Vec::new();
        for rotation in handovers {
            let (old, new) = (
                Verifier::parse(&rotation.old).ok()?,
                Verifier::parse(&rotation.new).ok()?,
            );
            match keys.last() {
                None => {
                    keys.push(old);
                    since.push(0);
                }
                Some(last) if *last == old => {}
                Some(_) => return None,
            }
            keys.push(new);
            since.push(rotation.seq);
        }
        if keys.is_empty() {
            keys.push(trusted.clone());
            since.push(0);
        }
        keys.contains(trusted).then_some(Self { keys, since })
    }

    /// Whether a checkpoint is signed by everybody who had to: the key of its time, and where keys took over since the checkpoint
    /// before it, these and the one they took over from.
    pub(super) fn accepts(&self, stated: &Stated, before: u64) -> bool {
        let size = stated.checkpoint.size;
        let holds_at = |size: u64| self.since.iter().rposition(|seq| *seq <= size).unwrap_or_default();
        let needed = self.keys.get(holds_at(before)..=holds_at(size)).unwrap_or_default();
        match Checkpoint::open(&stated.note, needed) {
            Ok((_, signed)) => !needed.is_empty() && signed.len() == needed.len(),
            Err(_) => false,
        }
    }

    /// All of them.
    pub(super) fn all(&self) -> &[Verifier] {
        &self.keys
    }
}
