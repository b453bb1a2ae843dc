//! The bytes of a tree node: their layout, and the search for a key without unpacking.
//!
//! ```text
//! 0   digest over the level and the digests of the groups (32); zero in the reference tree
//! 32  length | NODE (u32)
//! 36  level, 0 for a leaf; tree; count; 0 (4 x u8)
//! 40  groups: for every 12 children the digest over theirs (32 each); none in the reference tree
//! ..  locations: count x (pack u32, unit u32); none in a leaf of the reference tree
//! ..  keys: bytes shared with the key before (u8), length of the rest (1 or 2 bytes), the rest
//! ```
//! The keys of a leaf are those of its entries; the keys of an inner node are the last keys of its children. The
//! digests of the children cover their ids, because an asset's digest covers its id; locations are not part of a
//! digest. Groups halve the bytes that are hashed after a change, and most children of the node need not be read for
//! it.

use super::pack::{Location, NODE, length_word};

/// Number of bytes before the groups.
pub(super) const HEADER: usize = 40;
/// Number of children that are hashed together.
pub(super) const GROUP: usize = 12;
/// Maximum number of entries of a node.
pub(super) const MOST: usize = 48;

/// The tree that a node belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tree {
    /// The tree from id to asset.
    Assets,
    /// The set of `target, 0, source` for every reference.
    References,
}

impl Tree {
    /// Whether nodes at `level` contain locations.
    pub(super) fn locates(self, level: u8) -> bool {
        level > 0 || self == Self::Assets
    }

    /// The number of groups of a node with `count` entries.
    pub(super) fn groups(self, count: usize) -> usize {
        match self {
            Self::Assets => count.div_ceil(GROUP),
            Self::References => 0,
        }
    }
}

/// A node, read from its bytes without copying.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node<'a>(&'a [u8]);

impl<'a> Node<'a> {
    /// The node at the start of `tail`.
    pub(super) fn read(tail: &'a [u8]) -> Self {
        Self(&tail[..(length_word(tail) & !NODE) as usize])
    }

    pub(super) fn bytes(self) -> &'a [u8] {
        self.0
    }

    pub(super) fn level(self) -> u8 {
        self.0[36]
    }

    pub(super) fn tree(self) -> Tree {
        match self.0[37] {
            0 => Tree::Assets,
            _ => Tree::References,
        }
    }

    pub(super) fn count(self) -> usize {
        usize::from(self.0[38])
    }

    /// The digests of all groups, 32 bytes each.
    pub(super) fn groups(self) -> &'a [u8] {
        &self.0[HEADER..HEADER + 32 * self.tree().groups(self.count())]
    }

    /// The offset in bytes at which the locations start.
    pub(super) fn places_start(self) -> usize {
        HEADER + self.groups().len()
    }

    /// All locations as bytes, 8 for each.
    pub(super) fn places(self) -> &'a [u8] {
        let places = match self.tree().locates(self.level()) {
            true => self.count(),
            false => 0,
        };
        let start = self.places_start();
        &self.0[start..start + 8 * places]
    }

    /// The location of entry `nth`. The zero location if the node contains none.
    pub(super) fn location(self, nth: usize) -> Location {
        match self.places().get(8 * nth..8 * nth + 8) {
            Some(place) => Location::read(place),
            None => Location::default(),
        }
    }

    fn packed_keys(self) -> &'a [u8] {
        &self.0[self.places_start() + self.places().len()..]
    }

    pub(super) fn keys(self) -> Keys<'a> {
        Keys {
            left: self.count(),
            rest: self.packed_keys(),
            key: Vec::with_capacity(64),
        }
    }

    /// The first key. It is stored in full, because no key precedes it.
    pub(super) fn first_key(self) -> &'a [u8] {
        let (_, rest, _) = split_key(self.packed_keys());
        rest
    }

    /// The index of the first entry whose key is not below `key`, and whether the two are equal.
    ///
    /// Reads the packed keys one by one. The preceding key is below `key` and has its first `same` bytes in common with
    /// it. A packed key that shares more than `same` bytes with the preceding key is below `key` as well.
    pub(super) fn find(self, key: &[u8]) -> (usize, bool) {
        let mut keys = self.packed_keys();
        let count = self.count();
        let mut same = 0;
        for nth in 0..count {
            let (shared, rest, next) = split_key(keys);
            keys = next;
            if shared > same {
                continue;
            }
            let wanted = &key[shared..];
            let agree = common(rest, wanted);
            if agree == rest.len() || agree == wanted.len() {
                if agree == wanted.len() {
                    return (nth, agree == rest.len());
                }
            } else if rest[agree] > wanted[agree] {
                return (nth, false);
            }
            same = shared + agree;
        }
        (count, false)
    }
}

/// The keys of a node, unpacked one after the other.
pub(super) struct Keys<'a> {
    left: usize,
    rest: &'a [u8],
    key: Vec<u8>,
}

impl Keys<'_> {
    /// Unpacks the next key. `None`: there is none.
    pub(super) fn next(&mut self) -> Option<&[u8]> {
        self.left = self.left.checked_sub(1)?;
        let (shared, rest, next) = split_key(self.rest);
        self.rest = next;
        self.key.truncate(shared);
        self.key.extend_from_slice(rest);
        Some(&self.key)
    }

    /// The key that was unpacked last.
    pub(super) fn last(self) -> Vec<u8> {
        self.key
    }
}

/// The length in bytes of the common prefix of `a` and `b`.
#[inline]
pub(super) fn common(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Appends `key` to packed keys. `before` is the preceding key.
pub(super) fn push_key(packed: &mut Vec<u8>, before: &[u8], key: &[u8]) {
    let shared = common(before, key).min(255);
    let rest = &key[shared..];
    packed.push(shared as u8);
    if rest.len() < 0x80 {
        packed.push(rest.len() as u8);
    } else {
        // A key has at most two ids and a separator: far below 2^15 bytes.
        packed.extend_from_slice(&[0x80 | (rest.len() >> 8) as u8, rest.len() as u8]);
    }
    packed.extend_from_slice(rest);
}

/// Splits the first packed key off: the number of bytes shared with the preceding key, the rest of the key, and the
/// packed keys after it.
#[inline]
fn split_key(packed: &[u8]) -> (usize, &[u8], &[u8]) {
    let shared = usize::from(packed[0]);
    let (length, at) = match packed[1] {
        short @ 0..0x80 => (usize::from(short), 2),
        high => (usize::from(high & 0x7f) << 8 | usize::from(packed[2]), 3),
    };
    let (rest, next) = packed[at..].split_at(length);
    (shared, rest, next)
}
