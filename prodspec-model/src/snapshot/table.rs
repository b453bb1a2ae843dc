//! The table of a snapshot's packs: finds a pack by its number, and a node or an asset by its location.

use std::sync::Arc;

use super::{
    node::Node,
    pack::{Location, Pack},
};
use crate::{
    asset::{Asset, Block},
    id::IncarnationNo,
};

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
