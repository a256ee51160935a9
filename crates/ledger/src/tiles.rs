//! The tree on disk: `ledger/tile/LEVEL/INDEX`, 256 hashes each (C2SP tlog-tiles). A full tile never changes; of the last one of
//! each level there is the part that the latest checkpoint needs, as `INDEX.p/WIDTH`. ADR 0083.

mod grow;

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use vocabulary::Digest;

use crate::tree::{Nodes, node_hash};

pub(crate) use grow::{GrowingTree, remove_parts};

/// Hashes in a full tile.
pub(crate) const WIDTH: u64 = 256;
/// Levels of the tree that one level of tiles stands for.
const HEIGHT: u32 = 8;
const HASH: usize = 32;

/// Why a tile cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TileFault {
    /// It is not there, or only a part of it.
    #[error("the tile `{}` is missing or cut short", .0.display())]
    Missing(PathBuf),
    /// It holds other hashes than the log's.
    #[error("the tile `{}` contradicts the log", .0.display())]
    Contradicts(PathBuf),
    /// The disk failed.
    #[error("the tile `{}` cannot be read or written", .path.display())]
    Disk {
        /// Which.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

/// One tile, whole or in part: `width` hashes from the `index`th tile of its level.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Tile {
    pub(crate) level: u32,
    pub(crate) index: u64,
    pub(crate) width: u64,
}

impl Tile {
    /// Its file under the log's directory.
    pub(crate) fn path(self, folder: &Path) -> PathBuf {
        let mut name = format!("{:03}", self.index % 1000);
        let mut rest = self.index / 1000;
        while rest > 0 {
            name = format!("x{:03}/{name}", rest % 1000);
            rest /= 1000;
        }
        if self.width < WIDTH {
            name.push_str(&format!(".p/{}", self.width));
        }
        folder.join("tile").join(self.level.to_string()).join(name)
    }
}

/// The tiles that a tree of `size` leaves has on disk, full ones and parts.
pub(crate) fn tiles_of(size: u64) -> impl Iterator<Item = Tile> {
    let levels = (0..u64::BITS / HEIGHT).map(move |level| (level, size >> (level * HEIGHT)));
    levels.filter(|(_, hashes)| *hashes > 0).flat_map(|(level, hashes)| {
        (0..hashes.div_ceil(WIDTH)).map(move |index| Tile {
            level,
            index,
            width: (hashes - index * WIDTH).min(WIDTH),
        })
    })
}

/// Reads the hashes of a tree of `size` leaves.
pub(crate) struct TileReader {
    folder: PathBuf,
    size: u64,
    /// The tile that was read last of each level.
    kept: Vec<(Tile, Vec<Digest>)>,
}

impl TileReader {
    pub(crate) fn new(folder: &Path, size: u64) -> Self {
        Self {
            folder: folder.to_owned(),
            size,
            kept: Vec::new(),
        }
    }

    /// The hashes of one tile, as many as a tree of this size has there.
    pub(crate) fn hashes(&mut self, level: u32, index: u64) -> Result<&[Digest], TileFault> {
        let hashes = self.size >> (level * HEIGHT);
        let tile = Tile {
            level,
            index,
            width: hashes.saturating_sub(index * WIDTH).min(WIDTH),
        };
        let at = match self.kept.iter().position(|(kept, _)| *kept == tile) {
            Some(at) => at,
            None => {
                let read = read(&self.folder, tile)?;
                self.kept.retain(|(kept, _)| kept.level != level);
                self.kept.push((tile, read));
                self.kept.len() - 1
            }
        };
        let kept = self.kept.get(at).map(|(_, hashes)| hashes.as_slice());
        kept.ok_or_else(|| TileFault::Missing(tile.path(&self.folder)))
    }

    /// The hash of the leaf at `index`.
    pub(crate) fn leaf(&mut self, index: u64) -> Result<Digest, TileFault> {
        self.whole(0, index)
    }

    /// The file a leaf's hash stands in.
    pub(crate) fn leaf_path(&self, index: u64) -> PathBuf {
        let index = index / WIDTH;
        let width = self.size.saturating_sub(index * WIDTH).min(WIDTH);
        Tile { level: 0, index, width }.path(&self.folder)
    }
}

impl Nodes for TileReader {
    type Error = TileFault;

    fn whole(&mut self, height: u32, index: u64) -> Result<Digest, TileFault> {
        let (level, within) = (height / HEIGHT, height % HEIGHT);
        let start = index << within;
        let (tile, place) = (start / WIDTH, usize::try_from(start % WIDTH).unwrap_or_default());
        let hashes = self.hashes(level, tile)?.get(place..place + (1 << within));
        match hashes.map(subtree) {
            Some(hash) => Ok(hash),
            None => Err(TileFault::Missing(
                Tile {
                    level,
                    index: tile,
                    width: WIDTH,
                }
                .path(&self.folder),
            )),
        }
    }
}

/// The root over hashes whose number is a power of two.
fn subtree(hashes: &[Digest]) -> Digest {
    match hashes {
        [] => Digest::of(b""),
        [only] => *only,
        _ => {
            let (left, right) = hashes.split_at(hashes.len() / 2);
            node_hash(&subtree(left), &subtree(right))
        }
    }
}

/// Reads a tile: from its file, or from the beginning of one that has become longer since.
fn read(folder: &Path, tile: Tile) -> Result<Vec<Digest>, TileFault> {
    let path = tile.path(folder);
    let disk = |path: &Path, source| TileFault::Disk {
        path: path.to_owned(),
        source,
    };
    if let Some(hashes) = read_file(&path, tile.width).map_err(|source| disk(&path, source))? {
        return Ok(hashes);
    }
    let full = Tile { width: WIDTH, ..tile }.path(folder);
    if let Some(hashes) = read_file(&full, tile.width).map_err(|source| disk(&full, source))? {
        return Ok(hashes);
    }
    for width in tile.width + 1..WIDTH {
        let longer = Tile { width, ..tile }.path(folder);
        if let Some(hashes) = read_file(&longer, tile.width).map_err(|source| disk(&longer, source))? {
            return Ok(hashes);
        }
    }
    Err(TileFault::Missing(path))
}

/// The first hashes of a file; `None` where it is not there or has fewer.
fn read_file(path: &Path, width: u64) -> io::Result<Option<Vec<Digest>>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    file.take(width * HASH as u64).read_to_end(&mut bytes)?;
    let (hashes, rest) = bytes.as_chunks::<HASH>();
    let whole = rest.is_empty() && hashes.len() as u64 == width;
    Ok(whole.then(|| hashes.iter().map(|hash| Digest::from_bytes(*hash)).collect()))
}

/// Whether every tile of a tree of this size has its file. Contents are for [`TileReader`] to judge.
pub(crate) fn are_all_there(folder: &Path, size: u64) -> bool {
    tiles_of(size).all(|tile| {
        let bytes = tile.width * HASH as u64;
        let has_bytes = |path: PathBuf| fs::metadata(path).is_ok_and(|found| found.len() >= bytes);
        has_bytes(tile.path(folder)) || (tile.width < WIDTH && read(folder, tile).is_ok())
    })
}

#[cfg(test)]
mod tests;
