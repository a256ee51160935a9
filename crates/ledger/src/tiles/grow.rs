//! A tree that grows, and its tiles with it. What is on disk already is compared, never overwritten.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use vocabulary::Digest;

use super::{HEIGHT, Tile, TileFault, TileReader, WIDTH, subtree};
use crate::segment::open_private;
use crate::tree::Frontier;

/// The right edge of the tree: its root, and the hashes of the last tile of each level.
#[derive(Debug, Default)]
pub(crate) struct GrowingTree {
    frontier: Frontier,
    edges: Vec<Vec<Digest>>,
    /// Full tiles that are not on disk yet.
    full: Vec<(Tile, Vec<Digest>)>,
    /// The parts on disk that the latest checkpoint needs.
    parts: Vec<Tile>,
}

impl GrowingTree {
    /// The tree of `size` leaves whose tiles are in `folder`.
    pub(crate) fn load(folder: &Path, size: u64) -> Result<Self, TileFault> {
        let mut reader = TileReader::new(folder, size);
        let mut edges = Vec::new();
        let mut parts = Vec::new();
        for level in 0..u64::BITS / HEIGHT {
            let hashes = size >> (level * HEIGHT);
            let (index, width) = (hashes / WIDTH, hashes % WIDTH);
            if hashes == 0 {
                break;
            }
            if width == 0 {
                edges.push(Vec::new());
                continue;
            }
            edges.push(reader.hashes(level, index)?.to_vec());
            parts.push(Tile { level, index, width });
        }
        let frontier = Frontier::load(&mut reader, size)?;
        Ok(Self {
            frontier,
            edges,
            full: Vec::new(),
            parts,
        })
    }

    pub(crate) fn size(&self) -> u64 {
        self.frontier.size()
    }

    pub(crate) fn root(&self) -> Digest {
        self.frontier.root()
    }

    /// Adds a leaf.
    pub(crate) fn push(&mut self, leaf: Digest) {
        self.frontier.push(leaf);
        let mut hash = leaf;
        for level in 0..u64::BITS / HEIGHT {
            let at = level as usize;
            if self.edges.len() <= at {
                self.edges.push(Vec::new());
            }
            let Some(edge) = self.edges.get_mut(at) else { return };
            edge.push(hash);
            if (edge.len() as u64) < WIDTH {
                return;
            }
            let hashes = std::mem::take(edge);
            let index = (self.frontier.size() >> ((level + 1) * HEIGHT)) - 1;
            hash = subtree(&hashes);
            let tile = Tile {
                level,
                index,
                width: WIDTH,
            };
            self.full.push((tile, hashes));
        }
    }

    /// The tiles that have become full since the last time.
    pub(crate) fn take_full(&mut self) -> Vec<(Tile, Vec<Digest>)> {
        std::mem::take(&mut self.full)
    }

    /// The parts of tiles that the tree has as it is now.
    pub(crate) fn parts_now(&self) -> Vec<(Tile, Vec<Digest>)> {
        let size = self.frontier.size();
        let part = |(level, edge): (u32, &Vec<Digest>)| {
            let tile = Tile {
                level,
                index: (size >> (level * HEIGHT)) / WIDTH,
                width: edge.len() as u64,
            };
            (tile, edge.clone())
        };
        let edges = (0..).zip(&self.edges).filter(|(_, edge)| !edge.is_empty());
        edges.map(part).collect()
    }

    /// Writes full tiles before they are too many to keep.
    pub(crate) fn write_full(&mut self, folder: &Path) -> Result<(), TileFault> {
        while let Some((tile, hashes)) = self.full.first() {
            write(folder, *tile, hashes)?;
            self.full.remove(0);
        }
        Ok(())
    }

    /// Writes every tile that the tree needs as it is now; gives back the parts that nobody needs once this size is signed.
    pub(crate) fn write(&mut self, folder: &Path) -> Result<Vec<PathBuf>, TileFault> {
        self.write_full(folder)?;
        let mut parts = Vec::new();
        for (tile, edge) in self.parts_now() {
            write(folder, tile, &edge)?;
            parts.push(tile);
        }
        let old = std::mem::replace(&mut self.parts, parts);
        let unneeded = old.into_iter().filter(|tile| !self.parts.contains(tile));
        Ok(unneeded.map(|tile| tile.path(folder)).collect())
    }
}

/// Removes parts of tiles, and the directories they alone were in. What cannot be removed does no harm.
pub(crate) fn remove_parts(paths: &[PathBuf]) {
    for path in paths {
        let _ = fs::remove_file(path);
        if let Some(folder) = path.parent() {
            let _ = fs::remove_dir(folder);
        }
    }
}

fn write(folder: &Path, tile: Tile, hashes: &[Digest]) -> Result<(), TileFault> {
    let path = tile.path(folder);
    let bytes: Vec<u8> = hashes.iter().flat_map(|hash| *hash.as_bytes()).collect();
    match write_file(&path, &bytes) {
        Ok(Written::Stands) => Ok(()),
        Ok(Written::Differs) => Err(TileFault::Contradicts(path)),
        Err(source) => Err(TileFault::Disk { path, source }),
    }
}

enum Written {
    Stands,
    Differs,
}

/// A file that holds the beginning of what it should was cut by a crash, and is written again; any other stays.
fn write_file(path: &Path, bytes: &[u8]) -> io::Result<Written> {
    match fs::read(path) {
        Ok(found) if found == bytes => return Ok(Written::Stands),
        Ok(found) if !bytes.starts_with(&found) => return Ok(Written::Differs),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    if let Some(folder) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let beside = path.with_extension("new");
    let mut file = open_private(&beside, OpenOptions::new().write(true).create(true).truncate(true))?;
    file.write_all(bytes)?;
    fs::rename(&beside, path)?;
    Ok(Written::Stands)
}
