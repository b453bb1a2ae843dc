//! Packs: the buffers that hold the nodes and assets of a snapshot, and the table that finds them by number.
//!
//! Each incarnation writes one pack. A pack never changes, is shared by all snapshots that use a part of it, and has
//! one reference count, whatever the number of entries that point into it. A block in a pack starts at a multiple of 8
//! bytes with a digest (32 bytes) and its length (`u32`, little-endian); the highest bit of the length marks a node.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::node::Node;
use crate::{
    asset::{Asset, Block},
    digest::Digest,
    id::IncarnationNo,
};

/// Blocks start at multiples of this many bytes, so that 32 bits reach 32 GiB into a pack.
pub(super) const UNIT: usize = 8;
/// The bit in the length of a block that marks a node.
pub(super) const NODE: u32 = 1 << 31;

/// The position of an asset's bytes in the packs of a snapshot, in 8 bytes. It is valid for its snapshot, and for newer
/// snapshots until one of them moves the asset. See [`Snapshot::at`](super::Snapshot::at).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(deny_unknown_fields)]
pub struct Location {
    pub(super) pack: u32,
    /// The offset in the pack, in units of 8 bytes.
    pub(super) unit: u32,
}

impl Location {
    /// Reads a location from its 8 bytes.
    pub(super) fn read(bytes: &[u8]) -> Self {
        let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|nth| bytes[at + nth]));
        Self {
            pack: word(0),
            unit: word(4),
        }
    }

    pub(super) fn start(self) -> usize {
        self.unit as usize * UNIT
    }
}

/// All blocks that one incarnation wrote: an immutable buffer, shared by all snapshots that use a part of it.
#[derive(Debug, Clone)]
pub struct Pack {
    no: IncarnationNo,
    bytes: Arc<Vec<u8>>,
}

/// The error for a pack whose bytes are not the bytes that were written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "pack {} is damaged: its bytes do not match its digest; restore the store from a backup", no.0
)]
pub struct DamagedPack {
    /// The number of the damaged pack.
    pub no: IncarnationNo,
}

impl Pack {
    /// Creates the pack numbered `no` from stored bytes, after comparing them with the stored digest. Damage is
    /// detected here, once for each load.
    ///
    /// # Errors
    /// When the digest of `bytes` is not `digest`.
    pub fn check(no: IncarnationNo, bytes: Vec<u8>, digest: Digest) -> Result<Self, DamagedPack> {
        if Digest::of(&bytes) != digest {
            return Err(DamagedPack { no });
        }
        let bytes = Arc::new(bytes);
        Ok(Self { no, bytes })
    }

    /// The number of the incarnation that wrote the pack.
    pub fn no(&self) -> IncarnationNo {
        self.no
    }

    /// All bytes of the pack.
    pub fn bytes(&self) -> &Arc<Vec<u8>> {
        &self.bytes
    }

    /// Computes the digest of all bytes of the pack. A store keeps it with the bytes, for [`Pack::check`].
    pub fn digest(&self) -> Digest {
        Digest::of(&self.bytes)
    }
}

/// An entry in a snapshot's table of packs.
#[derive(Debug, Clone)]
pub(super) struct Slot {
    pub(super) no: u32,
    /// Number of units of the pack (8 bytes each) that are live in this snapshot.
    pub(super) live: u32,
    pub(super) bytes: Arc<Vec<u8>>,
}

impl Slot {
    pub(super) fn pack(&self) -> Pack {
        Pack {
            no: IncarnationNo(self.no),
            bytes: Arc::clone(&self.bytes),
        }
    }
}

/// The packs that hold the parts of a snapshot, sorted by number. Copying forward keeps the table short.
#[derive(Debug, Clone, Default)]
pub(super) struct Packs(pub(super) Vec<Slot>);

impl Packs {
    pub(super) fn index(&self, no: u32) -> Option<usize> {
        // Most blocks are in the oldest pack, which is by far the largest.
        if self.0.first()?.no == no {
            return Some(0);
        }
        let at = self.0.partition_point(|slot| slot.no < no);
        (self.0.get(at)?.no == no).then_some(at)
    }

    pub(super) fn slot(&self, no: u32) -> Option<&Slot> {
        self.index(no).map(|at| &self.0[at])
    }

    /// The bytes from `at` to the end of its pack.
    ///
    /// Invariant: every location in a snapshot's trees is within a pack of its table. `load` and `Writer` ensure it.
    pub(super) fn tail(&self, at: Location) -> &[u8] {
        self.slot(at.pack)
            .and_then(|slot| slot.bytes.get(at.start()..))
            .unwrap_or_default()
    }

    /// A byte made of the first four cache lines of a block. Reading it brings them into the caches.
    pub(super) fn first_lines(&self, at: Location) -> u8 {
        let tail = self.tail(at);
        let lines = [0, 64, 128, 192].map(|line| tail.get(line).copied().unwrap_or_default());
        lines.into_iter().fold(0, |all, line| all ^ line)
    }

    pub(super) fn node(&self, at: Location) -> Node<'_> {
        Node::read(self.tail(at))
    }

    pub(super) fn asset(&self, at: Location) -> Option<Asset> {
        let slot = self.slot(at.pack)?;
        Block::length_at(slot.bytes.get(at.start()..)?)?;
        let block = Block::at(Arc::clone(&slot.bytes), at.start());
        Some(Asset::from_checked(block))
    }
}

/// The length field of the block at the start of `tail`.
pub(super) fn length_word(tail: &[u8]) -> u32 {
    u32::from_le_bytes([tail[32], tail[33], tail[34], tail[35]])
}

/// The size, in units of 8 bytes, of the block at the start of `tail`.
pub(super) fn units(tail: &[u8]) -> u32 {
    (length_word(tail) & !NODE).div_ceil(UNIT as u32)
}
