//! The Merkle tree over the log's lines (RFC 6962, RFC 9162 §2.1): its root while it grows, and proofs that a line is in it or
//! that one tree continues another. Pure: where hashes are kept is for others to know.

use vocabulary::Digest;

/// More hashes than this no proof has: a tree of 2^64 leaves is 64 high, and consistency needs one more.
pub(crate) const LONGEST_PROOF: usize = 65;

/// The hash of a leaf: a line without its newline.
pub(crate) fn leaf_hash(line: &[u8]) -> Digest {
    Digest::of_pieces([[0_u8].as_slice(), line])
}

/// The hash over two subtrees.
pub(crate) fn node_hash(left: &Digest, right: &Digest) -> Digest {
    let mut bytes = [1_u8; 65];
    let (_, places) = bytes.split_at_mut(1);
    let (first, second) = places.split_at_mut(32);
    first.copy_from_slice(left.as_bytes());
    second.copy_from_slice(right.as_bytes());
    Digest::of(&bytes)
}

/// The roots of the whole subtrees that a tree consists of, largest first: enough to grow it and to know its root.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Frontier {
    size: u64,
    subtrees: Vec<Digest>,
}

impl Frontier {
    /// The frontier of a tree of `size` leaves that is kept elsewhere.
    pub(crate) fn load<N: Nodes>(nodes: &mut N, size: u64) -> Result<Self, N::Error> {
        let mut subtrees = Vec::new();
        let mut start = 0;
        for height in (0..u64::BITS).rev().filter(|height| size >> height & 1 == 1) {
            subtrees.push(nodes.whole(height, start >> height)?);
            start += 1 << height;
        }
        Ok(Self { size, subtrees })
    }

    /// How many leaves the tree has.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Adds a leaf at the end.
    pub(crate) fn push(&mut self, leaf: Digest) {
        let mut hash = leaf;
        let mut before = self.size;
        while before & 1 == 1 {
            let Some(left) = self.subtrees.pop() else { break };
            hash = node_hash(&left, &hash);
            before >>= 1;
        }
        self.subtrees.push(hash);
        self.size += 1;
    }

    /// The root of the tree as it is now.
    pub(crate) fn root(&self) -> Digest {
        let joined = self.subtrees.iter().rev().copied();
        joined
            .reduce(|right, left| node_hash(&left, &right))
            .unwrap_or(Digest::of(b""))
    }
}

/// Where the hashes of whole subtrees are found.
pub(crate) trait Nodes {
    /// Why one cannot be had.
    type Error;

    /// The root of the `index`th subtree of 2^`height` leaves.
    fn whole(&mut self, height: u32, index: u64) -> Result<Digest, Self::Error>;
}

/// The root of the first `size` leaves, from the hashes of subtrees.
#[cfg(test)]
pub(crate) fn root<N: Nodes>(nodes: &mut N, size: u64) -> Result<Digest, N::Error> {
    match size {
        0 => Ok(Digest::of(b"")),
        _ => range(nodes, 0, size),
    }
}

/// The proof that the leaf at `index` is in the tree of `size` leaves: hashes from its sibling upward. Empty where it is not.
pub(crate) fn inclusion<N: Nodes>(nodes: &mut N, index: u64, size: u64) -> Result<Vec<Digest>, N::Error> {
    let (mut start, mut end) = (0, size);
    let mut path = Vec::new();
    while index < size && end - start > 1 {
        let middle = start + split(end - start);
        if index < middle {
            path.push(range(nodes, middle, end)?);
            end = middle;
        } else {
            path.push(range(nodes, start, middle)?);
            start = middle;
        }
    }
    path.reverse();
    Ok(path)
}

/// The proof that the tree of `new` leaves continues the one of `old`. Empty where there is nothing to prove.
pub(crate) fn consistency<N: Nodes>(nodes: &mut N, old: u64, new: u64) -> Result<Vec<Digest>, N::Error> {
    let (mut start, mut end) = (0, new);
    let mut path = Vec::new();
    if old == 0 || old >= new {
        return Ok(path);
    }
    // Down to the subtree whose end is that of the old tree.
    while end != old {
        let middle = start + split(end - start);
        if old <= middle {
            path.push(range(nodes, middle, end)?);
            end = middle;
        } else {
            path.push(range(nodes, start, middle)?);
            start = middle;
        }
    }
    // The old root itself is known to whoever asks.
    if start != 0 {
        path.push(range(nodes, start, end)?);
    }
    path.reverse();
    Ok(path)
}

/// Whether `path` proves that `leaf` stands at `index` in the tree of `size` leaves with this root.
pub(crate) fn is_included(leaf: Digest, index: u64, (size, root): (u64, Digest), path: &[Digest]) -> bool {
    if index >= size {
        return false;
    }
    let (mut place, mut last) = (index, size - 1);
    let mut hash = leaf;
    for step in path {
        if last == 0 {
            return false;
        }
        if place & 1 == 1 || place == last {
            hash = node_hash(step, &hash);
            (place, last) = skip_left_edge(place, last);
        } else {
            hash = node_hash(&hash, step);
        }
        (place, last) = (place >> 1, last >> 1);
    }
    last == 0 && hash == root
}

/// Whether `path` proves that the second tree (its leaves and root) begins with the first.
pub(crate) fn is_continued((old, first): (u64, Digest), (new, second): (u64, Digest), path: &[Digest]) -> bool {
    if old == 0 || old >= new {
        let same = old == new && first == second;
        return path.is_empty() && (same || (old == 0 && first == Digest::of(b"")));
    }
    // The root of a tree that is one whole subtree is the proof's first hash, left out.
    let (start, rest) = match (old.is_power_of_two(), path.split_first()) {
        (true, Some(_)) => (first, path),
        (false, Some((start, rest))) => (*start, rest),
        (_, None) => return false,
    };
    let (mut place, mut last) = (old - 1, new - 1);
    while place & 1 == 1 {
        (place, last) = (place >> 1, last >> 1);
    }
    let (mut from, mut to) = (start, start);
    for step in rest {
        if last == 0 {
            return false;
        }
        if place & 1 == 1 || place == last {
            from = node_hash(step, &from);
            to = node_hash(step, &to);
            (place, last) = skip_left_edge(place, last);
        } else {
            to = node_hash(&to, step);
        }
        (place, last) = (place >> 1, last >> 1);
    }
    last == 0 && from == first && to == second
}

/// Goes up while the node has no right sibling to be joined with.
fn skip_left_edge(mut place: u64, mut last: u64) -> (u64, u64) {
    while place & 1 == 0 && place != 0 {
        (place, last) = (place >> 1, last >> 1);
    }
    (place, last)
}

/// The hash over the leaves from `start` to `end`, which is a subtree of some tree: `start` is a multiple of its size rounded up.
fn range<N: Nodes>(nodes: &mut N, start: u64, end: u64) -> Result<Digest, N::Error> {
    let mut start = start;
    let mut parts = Vec::new();
    while end - start > 1 && !(end - start).is_power_of_two() {
        let middle = start + split(end - start);
        parts.push(whole(nodes, start, middle)?);
        start = middle;
    }
    let last = whole(nodes, start, end)?;
    Ok(parts.iter().rev().fold(last, |right, left| node_hash(left, &right)))
}

fn whole<N: Nodes>(nodes: &mut N, start: u64, end: u64) -> Result<Digest, N::Error> {
    let height = (end - start).trailing_zeros();
    nodes.whole(height, start >> height)
}

/// The largest power of two below `length`, which is at least 2.
fn split(length: u64) -> u64 {
    1 << (length - 1).ilog2()
}

#[cfg(test)]
mod tests;
