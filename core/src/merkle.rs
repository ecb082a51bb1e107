//! The Merkle tree over a log (RFC 6962), grown at its right edge.

use crate::Digest;

/// A Merkle tree over event digests in position order (RFC 6962), held by its right edge alone.
///
/// A leaf is SHA-256(0 ‖ digest), a node SHA-256(1 ‖ left ‖ right).
///
/// # Examples
///
/// ```
/// use recount_core::{Digest, MerkleTree};
///
/// let mut tree = MerkleTree::default();
/// assert_eq!(tree.root(), Digest::of_bytes(b""));
/// let event = Digest::of_bytes(b"event");
/// tree.push_leaf(MerkleTree::leaf(event));
/// assert_eq!(tree.root(), Digest::of_parts(&[&[0], event.as_bytes()]));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MerkleTree {
    size: u64,
    /// The roots of the full trees that the size is the sum of, largest first.
    edge: Vec<Digest>,
}

impl MerkleTree {
    /// The leaf of an event; it depends on nothing else, so it can be computed beside the fold.
    pub fn leaf(event: Digest) -> Digest {
        let mut bytes = [0; 33];
        bytes[1..].copy_from_slice(event.as_bytes());
        Digest::of_bytes(&bytes)
    }

    /// Adds the next leaf.
    ///
    /// # Panics
    ///
    /// Never: there is a tree for each bit of the size.
    pub fn push_leaf(&mut self, leaf: Digest) {
        let mut node = leaf;
        // Each full tree that the new one completes is as large as it: binary addition.
        for _ in 0..self.size.trailing_ones() {
            let left = self.edge.pop().expect("there is a tree for each bit of the size");
            node = join(left, node);
        }
        self.edge.push(node);
        self.size += 1;
    }

    /// How many leaves there are.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The root; of an empty tree SHA-256 of nothing.
    pub fn root(&self) -> Digest {
        let mut edge = self.edge.iter().rev().copied();
        let Some(right) = edge.next() else { return Digest::of_bytes(b"") };
        edge.fold(right, |right, left| join(left, right))
    }
}

fn join(left: Digest, right: Digest) -> Digest {
    let mut bytes = [1; 65];
    bytes[1..33].copy_from_slice(left.as_bytes());
    bytes[33..].copy_from_slice(right.as_bytes());
    Digest::of_bytes(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition of RFC 6962, section 2.1.
    fn by_definition(events: &[Digest]) -> Digest {
        match events {
            [] => Digest::of_bytes(b""),
            [event] => MerkleTree::leaf(*event),
            events => {
                let split = events.len().next_power_of_two() / 2;
                let (left, right) = events.split_at(split);
                join(by_definition(left), by_definition(right))
            }
        }
    }

    #[test]
    fn the_root_is_that_of_the_definition_at_every_size() {
        let events: Vec<_> = (0..70_u8).map(|n| Digest::of_bytes(&[n])).collect();
        let mut tree = MerkleTree::default();
        for size in 0..events.len() {
            assert_eq!(tree.root(), by_definition(&events[..size]), "{size}");
            tree.push_leaf(MerkleTree::leaf(events[size]));
        }
        assert_eq!(tree.size(), 70);
    }
}
