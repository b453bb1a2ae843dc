//! Packs: the buffers that hold the nodes and assets of a snapshot.
//!
//! Each incarnation writes one pack. A pack never changes, is shared by all snapshots that use a part of it, and has
//! one reference count, whatever the number of entries that point into it. A block in a pack starts at a multiple of 8
//! bytes with a digest (32 bytes) and its length (`u32`, little-endian); the highest bit of the length marks a node.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{digest::Digest, id::IncarnationNo};

/// Blocks start at multiples of this many bytes, so that 32 bits reach 32 GiB into a pack.
pub(super) const UNIT: usize = 8;
/// The bit in the length of a block that marks a node.
pub(super) const NODE: u32 = 1 << 31;

/// The position of an asset's bytes in the packs of a snapshot, in 8 bytes. It is valid for its snapshot, and for newer
/// snapshots until one of them moves the asset. See [`Snapshot::at`](super::Snapshot::at).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
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
    pub(super) no: IncarnationNo,
    pub(super) bytes: Arc<Vec<u8>>,
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

/// The length field of the block at the start of `tail`.
pub(super) fn length_word(tail: &[u8]) -> u32 {
    u32::from_le_bytes([tail[32], tail[33], tail[34], tail[35]])
}

/// The size, in units of 8 bytes, of the block at the start of `tail`.
pub(super) fn units(tail: &[u8]) -> u32 {
    (length_word(tail) & !NODE).div_ceil(UNIT as u32)
}
