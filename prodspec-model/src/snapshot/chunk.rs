//! The rule that divides the entries of a level into nodes. It depends on keys only, so that equal content has an equal
//! shape, whatever edits led to it.
//!
//! From left to right, a node ends at its 48th entry, or from its 16th entry on at one whose hash is in the lowest
//! eighth of the range: 23 entries on average. After a change, the new boundaries are the old ones again within a few
//! nodes.

use super::{
    node::{MOST, Tree, push_key},
    pack::Location,
    write::Writer,
};

/// Minimum number of entries of a node, except the last of a level.
const FEWEST: usize = 16;
/// An entry whose hash is below this value can end a node: one entry in eight.
const BELOW: u32 = 1 << 29;

/// Divides the ascending entries of one level into nodes and writes them.
pub(super) struct Chunker {
    tree: Tree,
    level: u8,
    last: Vec<u8>,
    keys: Vec<u8>,
    locations: Vec<Location>,
}

impl Chunker {
    pub(super) fn new(tree: Tree, level: u8) -> Self {
        Self {
            tree,
            level,
            last: Vec::with_capacity(64),
            keys: Vec::with_capacity(512),
            locations: Vec::with_capacity(MOST),
        }
    }

    /// Whether the present node has no entries: the last entry ended a node, or there was none.
    pub(super) fn is_empty(&self) -> bool {
        self.locations.is_empty()
    }

    /// Adds the next entry. When the entry ends a node, writes that node and returns its last key and its location.
    pub(super) fn push(
        &mut self,
        writer: &mut Writer<'_>,
        key: &[u8],
        at: Location,
    ) -> Option<(Vec<u8>, Location)> {
        let before: &[u8] = if self.is_empty() { &[] } else { &self.last };
        push_key(&mut self.keys, before, key);
        self.last.clear();
        self.last.extend_from_slice(key);
        self.locations.push(at);
        let count = self.locations.len();
        let ends = count == MOST || count >= FEWEST && hash(self.level, key) < BELOW;
        ends.then(|| self.flush(writer))
    }

    /// Writes the last node and returns its last key and its location. `None`: it has no entries.
    pub(super) fn finish(mut self, writer: &mut Writer<'_>) -> Option<(Vec<u8>, Location)> {
        (!self.is_empty()).then(|| self.flush(writer))
    }

    fn flush(&mut self, writer: &mut Writer<'_>) -> (Vec<u8>, Location) {
        let at = writer.node(self.tree, self.level, &self.locations, &self.keys);
        self.keys.clear();
        self.locations.clear();
        (self.last.clone(), at)
    }
}

/// A fixed multiplicative hash, 8 bytes per step. It must be evenly distributed, but not cryptographically strong: ids
/// chosen to defeat it lead to nodes of 16 or 48 entries, no worse. A change of the hash changes the digest of every
/// snapshot.
fn hash(level: u8, key: &[u8]) -> u32 {
    /// 2^64 divided by the golden ratio.
    const K: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut state = (u64::from(level) + 1).wrapping_mul(K) ^ key.len() as u64;
    for chunk in key.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        state = (state ^ u64::from_le_bytes(word)).wrapping_mul(K);
        state ^= state >> 32;
    }
    (state.wrapping_mul(K) >> 32) as u32
}
