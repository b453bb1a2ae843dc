//! Where nodes end. The rule looks at keys only, so that equal content has equal shape whatever its history.
//!
//! Left to right, a node ends at its 48th entry, or from its 16th at an entry whose hash falls below an eighth of the
//! range: 23 entries on average. After a change the ends fall back into step with the old ones within a few nodes.

use super::{
    node::{Tree, push_key},
    pack::Location,
    write::Writer,
};

const FEWEST: usize = 16;
/// The most entries of a node.
pub(super) const MOST: usize = 48;
/// One entry in eight may end a node.
const BELOW: u32 = 1 << 29;

/// Cuts the ascending entries of one level into nodes and writes them.
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

    /// Whether the entry before this point ended a node.
    pub(super) fn is_empty(&self) -> bool {
        self.locations.is_empty()
    }

    /// Takes the next entry. When it ends a node, returns the node's last key and location.
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

    /// Ends the last node, if it has entries.
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

/// A fixed multiplicative hash, 8 bytes a step. It needs to be even, not strong: whoever picks ids to defeat it gets nodes
/// of 16 or of 48 entries. Changing it changes the digest of every snapshot.
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
