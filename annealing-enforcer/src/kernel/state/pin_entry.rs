//! One pin of the pin table and its number. Several assets may share a pin.

use plugin_sdk::Cause;
use prodspec_model::{AssetId, Incarnation, IncarnationNo};

/// Place of a pin in the pin table. The places of pins that no asset uses are reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub(in crate::kernel) struct PinNo(u32);

impl PinNo {
    /// The place that stands for the newest incarnation.
    pub(in crate::kernel) const NEWEST: Self = Self(0);
    /// Stands for the pin of an attempt's diff after the asset's pin moved. No pin has this place.
    pub(in crate::kernel) const REPINNED: Self = Self(u32::MAX);

    pub(in crate::kernel) fn from_index(index: usize) -> Self {
        Self(index as u32)
    }

    pub(in crate::kernel) fn is_newest(self) -> bool {
        self == Self::NEWEST
    }

    pub(in crate::kernel) fn index(self) -> usize {
        self.0 as usize
    }
}

/// The identity of a pin that is not the default of a group. `None`: not pinned yet.
pub(in crate::kernel) type Name = Option<(IncarnationNo, Cause)>;

/// A pin that several slots may share.
#[derive(Debug, Clone)]
pub(in crate::kernel) struct PinEntry {
    pub(in crate::kernel) at: Option<(Incarnation, Cause)>,
    pub(in crate::kernel) slots: u32,
    /// The policy whose group has this pin as its default. `None`: it is not a default.
    pub(in crate::kernel) group: Option<AssetId>,
}

impl PinEntry {
    /// The identity of the pin if it is not the default of a group.
    pub(in crate::kernel) fn name(&self) -> Name {
        self.at
            .as_ref()
            .map(|(incarnation, cause)| (incarnation.no(), *cause))
    }
}

/// Whether no asset uses the pin and it is not the head of a group.
pub(in crate::kernel) fn is_unused(pinned: &Option<PinEntry>) -> bool {
    let unused =
        |pinned: &PinEntry| pinned.slots == 0 && (pinned.group.is_none() || pinned.at.is_none());
    pinned.as_ref().is_some_and(unused)
}
