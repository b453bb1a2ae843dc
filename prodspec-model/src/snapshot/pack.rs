//! Packs: the buffers that hold the nodes and assets of a snapshot, and the table that finds them by number.
//!
//! One incarnation writes one pack. A pack is never changed, is shared by every snapshot that still reaches into it, and
//! has one reference count however many entries point into it. A block in it starts at a multiple of 8 bytes with a
//! digest (32) and its length (`u32`, little-endian); the length's highest bit marks a node.

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
/// Set in the length of a block that is a node.
pub(super) const NODE: u32 = 1 << 31;

/// Where an asset's bytes are: 8 bytes that stand for the asset while its snapshot, or a newer one that did not move it,
/// is at hand. See [`Snapshot::at`](super::Snapshot::at).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(deny_unknown_fields)]
pub struct Location {
    pub(super) pack: u32,
    /// In units of 8 bytes.
    pub(super) unit: u32,
}

impl Location {
    /// From 8 bytes.
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

/// Everything that one incarnation wrote: an immutable buffer, shared by all snapshots that reach into it.
#[derive(Debug, Clone)]
pub struct Pack {
    no: IncarnationNo,
    bytes: Arc<Vec<u8>>,
}

/// Bytes that should have been a pack are not what was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "pack {} is damaged: its bytes do not match its digest; restore the store from a backup", no.0
)]
pub struct DamagedPack {
    /// Which pack.
    pub no: IncarnationNo,
}

impl Pack {
    /// The pack numbered `no`, read back from where it was kept. This is where damage is noticed: once, at load.
    ///
    /// # Errors
    /// When `bytes` are not those whose [`Pack::digest`] was `digest`.
    pub fn check(no: IncarnationNo, bytes: Vec<u8>, digest: Digest) -> Result<Self, DamagedPack> {
        if Digest::of(&bytes) != digest {
            return Err(DamagedPack { no });
        }
        let bytes = Arc::new(bytes);
        Ok(Self { no, bytes })
    }

    /// The incarnation that wrote it.
    pub fn no(&self) -> IncarnationNo {
        self.no
    }

    /// All of its bytes.
    pub fn bytes(&self) -> &Arc<Vec<u8>> {
        &self.bytes
    }

    /// The digest of all its bytes, to be kept beside them. Reads all of them.
    pub fn digest(&self) -> Digest {
        Digest::of(&self.bytes)
    }
}

/// A pack in a snapshot's table.
#[derive(Debug, Clone)]
pub(super) struct Slot {
    pub(super) no: u32,
    /// Units of the pack that this snapshot still reaches.
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

/// The packs that a snapshot reaches into, by number. Kept short by copying forward.
#[derive(Debug, Clone, Default)]
pub(super) struct Packs(pub(super) Vec<Slot>);

impl Packs {
    pub(super) fn index(&self, no: u32) -> Option<usize> {
        // The oldest pack is the largest by far.
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
    /// Invariant: every location in a snapshot's trees lies within a pack of its table; `load` and `Writer` see to it.
    pub(super) fn tail(&self, at: Location) -> &[u8] {
        self.slot(at.pack)
            .and_then(|slot| slot.bytes.get(at.start()..))
            .unwrap_or_default()
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

/// The length field of the block that `tail` starts with.
pub(super) fn length_word(tail: &[u8]) -> u32 {
    u32::from_le_bytes([tail[32], tail[33], tail[34], tail[35]])
}

/// How many units the block that `tail` starts with takes up.
pub(super) fn units(tail: &[u8]) -> u32 {
    (length_word(tail) & !NODE).div_ceil(UNIT as u32)
}
