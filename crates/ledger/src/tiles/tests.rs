//! Where tiles lie, and that they hold the tree.

use super::*;
use crate::sample::Folder;
use crate::tree::{self, leaf_hash};

#[test]
fn tiles_lie_where_the_specification_says() {
    let path = |level, index, width| Tile { level, index, width }.path(Path::new("ledger"));
    assert_eq!(path(0, 0, 256), Path::new("ledger/tile/0/000"));
    assert_eq!(path(1, 999, 256), Path::new("ledger/tile/1/999"));
    assert_eq!(path(0, 1_234_067, 256), Path::new("ledger/tile/0/x001/x234/067"));
    assert_eq!(path(0, 273, 112), Path::new("ledger/tile/0/273.p/112"));
    // The example of the specification: a tree of 70,000 leaves.
    let parts: Vec<_> = tiles_of(70_000).filter(|tile| tile.width < WIDTH).collect();
    assert_eq!(
        parts,
        [(0, 273, 112), (1, 1, 17), (2, 0, 1)].map(|(level, index, width)| Tile { level, index, width })
    );
    assert_eq!(tiles_of(70_000).count(), 273 + 1 + 2 + 1);
}

#[test]
fn a_tree_on_disk_is_the_tree_at_every_size_it_was_written_at() {
    let folder = Folder::new();
    let mut tree = GrowingTree::default();
    let mut expected = tree::Frontier::default();
    for number in 0..66_000_u32 {
        let leaf = leaf_hash(&number.to_be_bytes());
        tree.push(leaf);
        expected.push(leaf);
        let size = tree.size();
        if [1, 2, 255, 256, 257, 511, 512, 1000, 65_535, 65_536, 65_537, 66_000].contains(&size) {
            let unneeded = tree.write(folder.path()).unwrap();
            remove_parts(&unneeded);
            assert!(are_all_there(folder.path(), size));
            let mut tiles = TileReader::new(folder.path(), size);
            assert_eq!(tree::root(&mut tiles, size).unwrap(), expected.root(), "{size}");
            let loaded = GrowingTree::load(folder.path(), size).unwrap();
            assert_eq!((loaded.size(), loaded.root()), (size, expected.root()));
            assert_eq!(loaded.parts_now(), tree.parts_now());
        }
    }
    // An older size is read from what became of its tiles.
    assert_eq!(GrowingTree::load(folder.path(), 1000).unwrap().size(), 1000);
}

#[test]
fn a_tile_that_says_something_else_stays_as_it_is_and_one_cut_short_is_completed() {
    let folder = Folder::new();
    let mut tree = GrowingTree::default();
    (0..300_u32).for_each(|number| tree.push(leaf_hash(&number.to_be_bytes())));
    tree.write(folder.path()).unwrap();
    let path = folder.path().join("tile/0/000");
    let whole = fs::read(&path).unwrap();
    let again = || {
        let mut tree = GrowingTree::default();
        (0..300_u32).for_each(|number| tree.push(leaf_hash(&number.to_be_bytes())));
        tree.write(folder.path()).map(drop)
    };
    fs::write(&path, &whole[..100]).unwrap();
    assert!(!are_all_there(folder.path(), 300));
    again().unwrap();
    assert_eq!(fs::read(&path).unwrap(), whole);
    let mut forged = whole.clone();
    forged[77] ^= 1;
    fs::write(&path, &forged).unwrap();
    assert!(matches!(again(), Err(TileFault::Contradicts(found)) if found == path));
    assert_eq!(fs::read(&path).unwrap(), forged, "nothing is rewritten");
}
