//! What has to hold before anything is signed: the key is the one that signed before, the log is no shorter than its checkpoint,
//! and the tree has the checkpoint's root. Nothing is changed where it does not.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use vocabulary::Digest;
use vocabulary::note::Signer;

use super::{CheckpointSigner, Next};
use crate::chain::seq_of;
use crate::checkpoint::{Checkpoint, CheckpointFiles, FilesFault, KeptCheckpoints};
use crate::key::KeyFiles;
use crate::open::OpenError;
use crate::segment::{LedgerReader, Position};
use crate::settings::Settings;
use crate::tiles::{GrowingTree, TileFault, TileReader, are_all_there};
use crate::tree::{Frontier, leaf_hash};

/// The records of the segment that was read at the start.
pub(crate) struct ReadBack<'a> {
    /// The place of the newest record.
    pub(crate) last_seq: u64,
    /// The hashes of the last records, the newest last.
    pub(crate) leaves: &'a [Digest],
}

/// Checks all that was signed, and gives back what signs on.
pub(crate) fn prepare(
    state: &Path,
    settings: &Settings,
    found: &ReadBack<'_>,
    lock: Arc<File>,
) -> Result<CheckpointSigner, OpenError> {
    let reader = LedgerReader::of_state(state);
    let files = CheckpointFiles::of(reader.folder());
    let kept = files.read().map_err(|fault| match fault {
        FilesFault::Disk(source) => OpenError::disk("read its checkpoints")(source),
        FilesFault::Unsound(path) => OpenError::Checkpoint(path),
    })?;
    let keys = KeyFiles::of_state(state);
    let (current, next) = keys_for(&keys, &settings.origin, &kept)?;
    let signed = kept.latest.as_ref().map(|latest| &latest.checkpoint);
    if let Some(checkpoint) = signed.filter(|checkpoint| checkpoint.size > found.last_seq) {
        return Err(OpenError::Shorter {
            size: checkpoint.size,
            last_seq: found.last_seq,
        });
    }
    let tree = match signed {
        Some(checkpoint) => tree_of(&reader, checkpoint, found)?,
        None => GrowingTree::default(),
    };
    let current = match current {
        Some(current) => current,
        None => keys.create(&settings.origin).map_err(OpenError::Key)?,
    };
    let (current, next) = match next {
        // It signed its first checkpoint, and the process died before it was put in its place.
        Some(Pending::Signed(signer)) => {
            keys.take_over()
                .map_err(OpenError::disk("put its new key in its place"))?;
            (signer, None)
        }
        Some(Pending::Announced(signer)) => {
            let is_recorded = false;
            (current, Some(Next { signer, is_recorded }))
        }
        None => (current, None),
    };
    let size = tree.size();
    Ok(CheckpointSigner {
        origin: settings.origin.clone(),
        cursor: cursor(&reader, size).map_err(OpenError::disk("read a segment"))?,
        reader,
        files,
        keys,
        current,
        next,
        tree,
        unlisted: kept.latest.filter(|_| !kept.is_listed).map(|latest| latest.note),
        on_disk: kept.current,
        cut: kept.cut,
        signed: size,
        _lock: lock,
    })
}

/// The key that signs, and one that was about to take over when the process died.
fn keys_for(
    keys: &KeyFiles,
    origin: &str,
    kept: &KeptCheckpoints,
) -> Result<(Option<Signer>, Option<Pending>), OpenError> {
    let current = keys.current(origin).map_err(OpenError::Key)?;
    let next = keys.next(origin).map_err(OpenError::Key)?;
    let Some(latest) = &kept.latest else {
        return Ok((current, next.map(Pending::Announced)));
    };
    let Some(current) = current else {
        return Err(OpenError::KeyMissing(keys.current_path()));
    };
    let known = [Some(&current), next.as_ref()];
    let known: Vec<_> = known
        .into_iter()
        .flatten()
        .map(|signer| signer.verifier().clone())
        .collect();
    let (_, signed) = Checkpoint::open(&latest.note, &known).map_err(|fault| OpenError::Signature {
        key: keys.current_path(),
        fault,
    })?;
    if latest.checkpoint.origin != origin {
        return Err(OpenError::OriginDiffers {
            stored: latest.checkpoint.origin.clone(),
            configured: origin.to_owned(),
        });
    }
    let next = next.map(|signer| match signed.contains(&signer.verifier()) {
        true => Pending::Signed(signer),
        false => Pending::Announced(signer),
    });
    Ok((Some(current), next))
}

/// A key that lies beside the log's own.
enum Pending {
    /// It was made; whether a record names it is for the records to say.
    Announced(Signer),
    /// It signed the latest checkpoint.
    Signed(Signer),
}

/// The tree at a checkpoint: from its tiles, which are written again from the records where they are gone.
fn tree_of(reader: &LedgerReader, checkpoint: &Checkpoint, found: &ReadBack<'_>) -> Result<GrowingTree, OpenError> {
    let folder = reader.folder();
    if !are_all_there(folder, checkpoint.size) {
        rebuild(reader, checkpoint)?;
    }
    let tree = GrowingTree::load(folder, checkpoint.size).map_err(OpenError::Tile)?;
    compare(reader, checkpoint.size, found)?;
    match tree.root() == checkpoint.root {
        true => Ok(tree),
        false => Err(OpenError::Root(checkpoint.size)),
    }
}

/// The tiles must say of the records that were read what these say themselves.
fn compare(reader: &LedgerReader, size: u64, found: &ReadBack<'_>) -> Result<(), OpenError> {
    let mut tiles = TileReader::new(reader.folder(), size);
    let first = found.last_seq - (found.leaves.len() as u64).min(found.last_seq);
    for (index, leaf) in (first..size).zip(found.leaves) {
        if tiles.leaf(index).map_err(OpenError::Tile)? != *leaf {
            return Err(OpenError::Tile(TileFault::Contradicts(tiles.leaf_path(index))));
        }
    }
    Ok(())
}

/// Writes the tiles that are missing, once it is known that the records have the root that was signed.
fn rebuild(reader: &LedgerReader, checkpoint: &Checkpoint) -> Result<(), OpenError> {
    let mut frontier = Frontier::default();
    each_leaf(reader, checkpoint.size, |leaf| {
        frontier.push(leaf);
        Ok(())
    })?;
    if frontier.root() != checkpoint.root {
        return Err(OpenError::Root(checkpoint.size));
    }
    let mut tree = GrowingTree::default();
    each_leaf(reader, checkpoint.size, |leaf| {
        tree.push(leaf);
        tree.write_full(reader.folder()).map_err(OpenError::Tile)
    })?;
    tree.write(reader.folder()).map(drop).map_err(OpenError::Tile)
}

fn each_leaf(
    reader: &LedgerReader,
    size: u64,
    mut take: impl FnMut(Digest) -> Result<(), OpenError>,
) -> Result<(), OpenError> {
    let disk = OpenError::disk;
    let mut lines = reader.lines_from(Position::START).map_err(disk("read a segment"))?;
    let mut line = Vec::new();
    for seq in 1..=size {
        let read = lines.read_into(&mut line).map_err(disk("read a segment"))?;
        if read.is_none() || seq_of(&line) != Some(seq) {
            let tiles = reader.folder().join("tile");
            return Err(OpenError::Tile(TileFault::Missing(tiles)));
        }
        take(leaf_hash(&line))?;
    }
    Ok(())
}

/// Where to begin to read for the record after `size`: at the start of the segment it is in.
fn cursor(reader: &LedgerReader, size: u64) -> std::io::Result<Position> {
    for segment in reader.segments()?.into_iter().rev() {
        let position = Position { segment, offset: 0 };
        let first = reader.lines_from(position)?.next().transpose()?;
        let first = first.filter(|(span, _)| span.position.segment == segment);
        if first
            .and_then(|(_, line)| seq_of(&line))
            .is_some_and(|seq| seq <= size + 1)
        {
            return Ok(position);
        }
    }
    Ok(Position::START)
}
