//! The tree as the records have it, beside the tiles and the roots that were signed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use vocabulary::Digest;

use crate::segment::Position;
use crate::tiles::{GrowingTree, Tile, TileFault, TileReader, WIDTH};

/// A tile that says something else than the records.
pub(super) struct Doubt {
    pub(super) tile: PathBuf,
    /// Where in the tile.
    pub(super) offset: u64,
    /// The first record it is about, and where that stands if it is a leaf.
    pub(super) seq: u64,
    pub(super) record: Option<Position>,
}

/// The tree of the records that were read.
pub(super) struct ReadTree<'f> {
    folder: &'f Path,
    tree: GrowingTree,
    /// Sizes at which the root is wanted, and the roots found.
    roots: BTreeMap<u64, Option<Digest>>,
    /// Up to here the tiles are to be compared.
    signed: u64,
    /// Where the records of the tile that is being filled stand.
    positions: Vec<Option<Position>>,
    doubt: Option<Doubt>,
}

impl<'f> ReadTree<'f> {
    /// Begins after `before` records that are not there any more, by their tiles.
    pub(super) fn after(
        before: u64,
        folder: &'f Path,
        signed: u64,
        wanted: impl Iterator<Item = u64>,
    ) -> Result<Self, TileFault> {
        let mut read = Self {
            folder,
            tree: GrowingTree::default(),
            roots: wanted.map(|size| (size, None)).collect(),
            signed,
            positions: Vec::new(),
            doubt: None,
        };
        // The tiles above the lowest are made again and compared, as those of records that are there.
        let mut tiles = TileReader::new(folder, signed);
        for index in 0..before {
            let leaf = tiles.leaf(index)?;
            read.push(leaf, None);
        }
        Ok(read)
    }

    /// Takes in a record's hash, and where it stands if it is there.
    pub(super) fn push(&mut self, leaf: Digest, position: Option<Position>) {
        self.tree.push(leaf);
        self.positions.push(position);
        let size = self.tree.size();
        if let Some(root) = self.roots.get_mut(&size) {
            *root = Some(self.tree.root());
        }
        for (tile, hashes) in self.tree.take_full() {
            if size <= self.signed {
                self.compare(tile, &hashes);
            }
        }
        if size == self.signed {
            for (tile, hashes) in self.tree.parts_now() {
                self.compare(tile, &hashes);
            }
        }
        if size.is_multiple_of(WIDTH) {
            self.positions.clear();
        }
    }

    /// The root over `size` records, if so many were read.
    pub(super) fn root_at(&self, size: u64) -> Option<Digest> {
        self.roots.get(&size).copied().flatten()
    }

    pub(super) fn doubt(&self) -> Option<&Doubt> {
        self.doubt.as_ref()
    }

    /// A tile that is gone says nothing; one that says something else is remembered, if it is the first.
    fn compare(&mut self, tile: Tile, hashes: &[Digest]) {
        let path = tile.path(self.folder);
        let Ok(found) = fs::read(&path) else { return };
        let expected: Vec<u8> = hashes.iter().flat_map(|hash| *hash.as_bytes()).collect();
        if self.doubt.is_some() || found == expected {
            return;
        }
        let same = found
            .iter()
            .zip(&expected)
            .take_while(|(left, right)| left == right)
            .count();
        let place = (same as u64 / 32).min(tile.width - 1);
        // The first record that is below this hash.
        let index = (tile.index * WIDTH + place) << (tile.level * 8);
        let of_leaf = usize::try_from(place).ok().filter(|_| tile.level == 0);
        self.doubt = Some(Doubt {
            tile: path,
            offset: place * 32,
            seq: index + 1,
            record: of_leaf.and_then(|place| self.positions.get(place)).copied().flatten(),
        });
    }
}
