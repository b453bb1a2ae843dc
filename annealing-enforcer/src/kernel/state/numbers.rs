//! Numbers of slots, attempts and registered types. Each is a type of its own, so that they cannot be swapped.

use plugin_sdk::{Run, Stamp};

/// Number of the slot of an asset in the kernel's table. It is not stable across restarts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct SlotNo(u32);

impl SlotNo {
    /// Number of the first slot.
    #[cfg(test)]
    pub(in crate::kernel) const FIRST: Self = Self(0);
    /// Stands for an asset that has no slot.
    pub(in crate::kernel) const NONE: Self = Self(u32::MAX);

    pub(in crate::kernel) fn from_index(index: usize) -> Self {
        Self(index as u32)
    }

    /// Returns the slot of the asset for which a call was made.
    pub(crate) fn of_run(run: Run) -> Self {
        Self(run.slot)
    }

    /// Returns the slot that a check names. The table may not have it.
    pub(in crate::kernel) fn of_stamp(stamp: &Stamp) -> Self {
        Self(stamp.slot)
    }

    /// Returns the numbers of the first `many` slots.
    pub(in crate::kernel) fn all(many: u32) -> impl Iterator<Item = Self> {
        (0..many).map(Self)
    }

    /// Whether this is the number of one of the first `many` slots.
    pub(in crate::kernel) fn is_below(self, many: u32) -> bool {
        self.0 < many
    }

    pub(in crate::kernel) fn index(self) -> usize {
        self.0 as usize
    }

    /// Returns the number as plugins and checks see it, in [`Run`] and [`Stamp`].
    pub(in crate::kernel) fn bare(self) -> u32 {
        self.0
    }
}

/// Number of an attempt among the attempts. The numbers of ended attempts are reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub(in crate::kernel) struct AttemptNo(u32);

impl AttemptNo {
    /// Stands for no attempt.
    pub(in crate::kernel) const NONE: Self = Self(u32::MAX);

    pub(in crate::kernel) fn from_index(index: usize) -> Self {
        Self(index as u32)
    }

    pub(in crate::kernel) fn index(self) -> usize {
        self.0 as usize
    }
}

/// Number of a registered type, in the order of registration. It is valid for one kernel only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct TypeNo(u16);

impl TypeNo {
    pub(crate) fn from_index(index: usize) -> Self {
        Self(index as u16)
    }

    /// Returns the numbers of the first `many` types.
    pub(crate) fn all(many: usize) -> impl Iterator<Item = Self> {
        (0..many as u16).map(Self)
    }

    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}
