//! Our tree beside an independent one, and proofs that were tampered with.

use ct_merkle::mem_backed_tree::MemoryBackedTree;
use sha2::Sha256;

use super::*;

/// A small generator that gives the same numbers every time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    fn line(&mut self) -> Vec<u8> {
        let length = self.below(40);
        (0..length).map(|_| u8::try_from(self.below(256)).unwrap()).collect()
    }
}

/// All whole subtrees in memory, by height.
#[derive(Default)]
struct Leaves(Vec<Vec<Digest>>);

impl Leaves {
    fn of(leaves: &[Digest]) -> Self {
        let mut all = Self::default();
        leaves.iter().for_each(|leaf| all.push(*leaf));
        all
    }

    fn push(&mut self, leaf: Digest) {
        let mut hash = leaf;
        for height in 0.. {
            if self.0.len() == height {
                self.0.push(Vec::new());
            }
            let row = &mut self.0[height];
            row.push(hash);
            if row.len() % 2 == 1 {
                return;
            }
            hash = node_hash(&row[row.len() - 2], &row[row.len() - 1]);
        }
    }
}

impl Nodes for Leaves {
    type Error = ();

    fn whole(&mut self, height: u32, index: u64) -> Result<Digest, ()> {
        let row = self.0.get(height as usize).ok_or(())?;
        row.get(usize::try_from(index).unwrap()).copied().ok_or(())
    }
}

fn digests(bytes: &[u8]) -> Vec<Digest> {
    let hash = |piece: &[u8]| Digest::from_bytes(piece.try_into().unwrap());
    bytes.chunks(32).map(hash).collect()
}

#[test]
fn roots_and_proofs_are_those_of_an_independent_implementation_for_all_sizes_to_5000() {
    let mut dice = Dice(7);
    let mut theirs = MemoryBackedTree::<Sha256, Vec<u8>>::new();
    let mut frontier = Frontier::default();
    let mut leaves = Leaves::default();
    let mut roots = vec![frontier.root()];
    assert_eq!(frontier.root().as_bytes(), theirs.root().as_bytes().as_slice());
    for size in 1..=5000_u64 {
        let line = dice.line();
        theirs.push(line.clone());
        frontier.push(leaf_hash(&line));
        leaves.push(leaf_hash(&line));
        let ours = (size, frontier.root());
        assert_eq!(ours.1.as_bytes(), theirs.root().as_bytes().as_slice(), "root of {size}");
        assert_eq!(root(&mut leaves, size), Ok(ours.1));
        roots.push(ours.1);

        let index = dice.below(size);
        let path = inclusion(&mut leaves, index, size).unwrap();
        let place = usize::try_from(index).unwrap();
        assert_eq!(
            path,
            digests(theirs.prove_inclusion(place).as_bytes()),
            "{index} of {size}"
        );
        assert!(is_included(leaves.0[0][place], index, ours, &path), "{index} of {size}");

        let old = 1 + dice.below(size);
        if old < size {
            let path = consistency(&mut leaves, old, size).unwrap();
            let added = usize::try_from(size - old).unwrap();
            assert_eq!(
                path,
                digests(theirs.prove_consistency(added).as_bytes()),
                "{old} to {size}"
            );
            let first = (old, roots[usize::try_from(old).unwrap()]);
            assert!(is_continued(first, ours, &path), "{old} to {size}");
        }
    }
    assert_eq!(Frontier::load(&mut leaves, 5000), Ok(frontier));
}

#[test]
fn every_proof_of_every_small_tree_holds_and_no_other_does() {
    let leaves: Vec<Digest> = (0..40_u8).map(|byte| leaf_hash(&[byte])).collect();
    let mut nodes = Leaves::of(&leaves);
    for size in 1..=40_u64 {
        let tree = (size, root(&mut nodes, size).unwrap());
        for index in 0..size {
            let leaf = leaves[usize::try_from(index).unwrap()];
            let path = inclusion(&mut nodes, index, size).unwrap();
            assert!(is_included(leaf, index, tree, &path));
            for other in (0..=size + 1).filter(|other| *other != index) {
                assert!(!is_included(leaf, other, tree, &path), "{index} as {other} of {size}");
            }
            let longer = [path.as_slice(), &[leaf]].concat();
            assert!(!is_included(leaf, index, tree, &longer), "an extra hash");
            assert!(
                !is_included(node_hash(&leaf, &leaf), index, tree, &path),
                "another leaf"
            );
            for lost in 0..path.len() {
                let mut shorter = path.clone();
                shorter.remove(lost);
                assert!(!is_included(leaf, index, tree, &shorter), "a missing hash");
            }
        }
        for old in 0..=size {
            let first = (old, root(&mut nodes, old).unwrap());
            let path = consistency(&mut nodes, old, size).unwrap();
            assert!(is_continued(first, tree, &path), "{old} to {size}");
            let longer = [path.as_slice(), &[tree.1]].concat();
            assert!(!is_continued(first, tree, &longer), "an extra hash: {old} to {size}");
            let forged = (old, leaf_hash(b"forged"));
            assert!(!is_continued(forged, tree, &path), "another past: {old} to {size}");
            if old < size {
                assert!(!is_continued(tree, first, &path), "backwards: {old} to {size}");
            }
        }
    }
}

#[test]
fn absurd_sizes_and_proofs_are_refused_at_once() {
    let leaf = leaf_hash(b"leaf");
    assert!(is_included(leaf, 0, (1, leaf), &[]));
    assert!(!is_included(leaf, 0, (0, leaf), &[]), "nothing is in an empty tree");
    assert!(!is_included(leaf, 0, (0, Digest::of(b"")), &[]));
    let many = vec![leaf; 100_000];
    for size in [1, 2, u64::MAX - 1, u64::MAX] {
        assert!(!is_included(leaf, 0, (size, leaf), &many));
        assert!(!is_included(leaf, size - 1, (size, leaf), &many));
        assert!(!is_included(leaf, u64::MAX, (size, leaf), &many));
        assert!(!is_continued((1, leaf), (size, leaf), &many));
        assert!(!is_continued((size - 1, leaf), (size, leaf), &many));
    }
    assert!(!is_included(leaf, 5, (u64::MAX, leaf), &[]));
    assert!(!is_continued((3, leaf), (u64::MAX, leaf), &[]));
}

#[test]
fn the_known_answers_of_certificate_transparency() {
    // The eight leaves of the test data that came with RFC 6962's first implementation.
    let lines: [&[u8]; 8] = [
        b"",
        &[0x00],
        &[0x10],
        &[0x20, 0x21],
        &[0x30, 0x31],
        &[0x40, 0x41, 0x42, 0x43],
        &[0x50, 0x51, 0x52, 0x53, 0x54, 0x55, 0x56, 0x57],
        &[
            0x60, 0x61, 0x62, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68, 0x69, 0x6a, 0x6b, 0x6c, 0x6d, 0x6e, 0x6f,
        ],
    ];
    let mut frontier = Frontier::default();
    let mut roots = Vec::new();
    for line in lines {
        frontier.push(leaf_hash(line));
        roots.push(frontier.root().to_string());
    }
    assert_eq!(
        roots[0],
        "sha256:6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"
    );
    assert_eq!(
        roots[1],
        "sha256:fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125"
    );
    assert_eq!(
        roots[7],
        "sha256:5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328"
    );
}
