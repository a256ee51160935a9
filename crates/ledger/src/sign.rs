//! Signs checkpoints beside the writer: every second or 256 records, when asked, and at the end. It reads the records back from
//! the log and signs only what is on disk, so that no power cut leaves a log shorter than its checkpoint. ADR 0084.

mod prepare;
mod thread;

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use memchr::memmem;
use vocabulary::note::{NoteFault, Signer, Verifier};

use crate::chain::seq_of;
use crate::checkpoint::{Checkpoint, CheckpointFiles};
use crate::key::{KeyFiles, LedgerKeyFault};
use crate::record::write_text;
use crate::segment::{LedgerReader, Position};
use crate::tiles::{GrowingTree, TileFault, TileReader, remove_parts};
use crate::tree::{consistency, is_continued, leaf_hash};

pub(crate) use prepare::{ReadBack, prepare};
pub(crate) use thread::{Order, SignerThread};

/// The action of the record by which one key hands over to the next.
pub(crate) const ROTATION: &str = "ledger.key.rotate";
/// Lines between two looks for tiles that are full.
const TILES_WRITTEN_EVERY: u64 = 4096;

/// Why no checkpoint was signed.
#[derive(Debug, thiserror::Error)]
pub enum SignFault {
    /// The disk failed; the next one is tried.
    #[error("the log's checkpoint cannot be written")]
    Disk(#[from] io::Error),
    /// The tree's tiles cannot be used.
    #[error("the log's tree cannot be continued")]
    Tile(#[from] TileFault),
    /// The records do not follow what was signed before.
    #[error("record {0} of the log is not where it belongs; nothing is signed any more")]
    Sequence(u64),
    /// Somebody else wrote the checkpoint.
    #[error("the log's latest checkpoint was changed by somebody else; nothing is signed any more")]
    Changed,
    /// The tiles do not continue what was signed before.
    #[error("the log's tree does not continue the one that was signed; nothing is signed any more")]
    Inconsistent,
    /// The new key cannot be kept.
    #[error("the log's new key cannot be kept")]
    Key(#[from] LedgerKeyFault),
    /// The log's name cannot be signed.
    #[error("the log's checkpoint cannot be signed")]
    Note(#[from] NoteFault),
    /// The log is closed, or signing was given up before.
    #[error("the log's checkpoints are not signed any more")]
    Stopped,
}

impl SignFault {
    /// Whether trying again may help.
    fn may_pass(&self) -> bool {
        match self {
            Self::Disk(_) | Self::Tile(TileFault::Disk { .. }) | Self::Key(_) => true,
            Self::Tile(TileFault::Missing(_) | TileFault::Contradicts(_))
            | Self::Sequence(_)
            | Self::Changed
            | Self::Inconsistent
            | Self::Note(_)
            | Self::Stopped => false,
        }
    }
}

/// What signs. INVARIANT: it holds the log's lock, so there is one.
pub(crate) struct CheckpointSigner {
    origin: String,
    reader: LedgerReader,
    files: CheckpointFiles,
    keys: KeyFiles,
    current: Signer,
    /// A key that takes over with the record that names it.
    next: Option<Next>,
    tree: GrowingTree,
    /// Where the first record lies that the tree does not have, or a few before it.
    cursor: Position,
    /// What `ledger/checkpoint` holds.
    on_disk: Option<String>,
    /// What is to be put right in `ledger/checkpoints` first.
    unlisted: Option<String>,
    cut: Option<u64>,
    signed: u64,
    _lock: Arc<File>,
}

struct Next {
    signer: Signer,
    is_recorded: bool,
}

impl CheckpointSigner {
    /// Signs the log up to `size`, which is on disk, if anything is new; gives back the latest checkpoint.
    fn sign_up_to(&mut self, size: u64) -> Result<Option<&str>, SignFault> {
        self.extend(size)?;
        if self.tree.size() > self.signed {
            self.publish()?;
        }
        Ok(self.on_disk.as_deref())
    }

    /// Takes records into the tree.
    fn extend(&mut self, size: u64) -> Result<(), SignFault> {
        if self.tree.size() >= size {
            return Ok(());
        }
        let mut lines = self.reader.lines_from(self.cursor)?;
        let mut line = Vec::new();
        while self.tree.size() < size {
            let next = self.tree.size() + 1;
            let Some(span) = lines.read_into(&mut line)? else {
                return Err(SignFault::Sequence(next));
            };
            match seq_of(&line) {
                Some(seq) if seq == next => {
                    self.notice(&line);
                    self.tree.push(leaf_hash(&line));
                }
                Some(seq) if seq < next => {}
                Some(_) | None => return Err(SignFault::Sequence(next)),
            }
            self.cursor = Position {
                offset: span.position.offset + span.length + 1,
                ..span.position
            };
            if next.is_multiple_of(TILES_WRITTEN_EVERY) {
                self.tree.write_full(self.reader.folder())?;
            }
        }
        Ok(())
    }

    /// Looks whether a record hands over to the next key.
    fn notice(&mut self, line: &[u8]) {
        if let Some(next) = &mut self.next
            && names(line, next.signer.verifier())
        {
            next.is_recorded = true;
        }
    }

    /// INVARIANT: tiles before the checkpoint that needs them, the list before the latest, the old parts last.
    fn publish(&mut self) -> Result<(), SignFault> {
        let unneeded = self.tree.write(self.reader.folder())?;
        let checkpoint = Checkpoint {
            origin: self.origin.clone(),
            size: self.tree.size(),
            root: self.tree.root(),
        };
        self.must_continue(&checkpoint)?;
        let taking_over = self.next.as_ref().filter(|next| next.is_recorded);
        let signers = [Some(&self.current), taking_over.map(|next| &next.signer)];
        let note = checkpoint.sign(signers.into_iter().flatten())?;
        if let Some(unlisted) = &self.unlisted {
            self.files.append(unlisted, self.cut.take())?;
        }
        self.unlisted = None;
        self.files.append(&note, self.cut.take())?;
        self.files.replace(&note)?;
        self.signed = checkpoint.size;
        self.on_disk = Some(note);
        remove_parts(&unneeded);
        self.finish_taking_over()
    }

    /// Only what continues the checkpoint that stands is signed: both are read back, and the tiles must prove it.
    fn must_continue(&self, new: &Checkpoint) -> Result<(), SignFault> {
        let stands = self.files.current()?;
        if stands != self.on_disk {
            return Err(SignFault::Changed);
        }
        let Some(old) = stands.as_deref().and_then(|note| Checkpoint::read(note).ok()) else {
            return Ok(());
        };
        let mut tiles = TileReader::new(self.reader.folder(), new.size);
        let path = consistency(&mut tiles, old.size, new.size)?;
        match is_continued((old.size, old.root), (new.size, new.root), &path) {
            true => Ok(()),
            false => Err(SignFault::Inconsistent),
        }
    }

    fn finish_taking_over(&mut self) -> Result<(), SignFault> {
        match self.next.take() {
            Some(next) if next.is_recorded => {
                self.keys.take_over()?;
                self.current = next.signer;
            }
            // One that was announced a moment ago, or that no record names.
            Some(next) => self.next = Some(next),
            None => {}
        }
        Ok(())
    }

    /// Makes the key that the next rotation's record names.
    fn announce(&mut self) -> Result<(Verifier, Verifier), SignFault> {
        let signer = self.keys.create_next(&self.origin)?;
        let verifier = signer.verifier().clone();
        self.next = Some(Next {
            signer,
            is_recorded: false,
        });
        Ok((self.current.verifier().clone(), verifier))
    }

    /// The segments that may hold records which are not on disk yet.
    fn unsynced_files(&self) -> io::Result<Vec<PathBuf>> {
        let numbers = self.reader.segments()?;
        let from = self.cursor.segment;
        let late = numbers.into_iter().filter(|number| *number >= from);
        Ok(late.map(|number| self.reader.path(number)).collect())
    }
}

/// Whether a line is the record by which a key takes over.
pub(crate) fn names(line: &[u8], key: &Verifier) -> bool {
    let mut subject = b",\"subject\":".to_vec();
    write_text(&key.to_string(), &mut subject);
    line.starts_with(format!("{{\"action\":\"{ROTATION}\"").as_bytes()) && memmem::find(line, &subject).is_some()
}
