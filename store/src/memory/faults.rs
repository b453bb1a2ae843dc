//! Faults of a memory store, and how often they occur.

use std::collections::BTreeMap;

use crate::{Batch, Topic};

/// An operation of the store that a fault can hit.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Op<'a> {
    /// A commit of this batch.
    Commit(&'a Batch),
    /// A read of keys or of a range.
    Read,
    /// A hint to a watcher of this topic.
    Hint(&'a Topic),
}

/// One kind of fault. A fault that does not fit the operation has no effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// A read or commit is refused; nothing is written.
    Unavailable,
    /// A commit happens, but the caller is told that its outcome is unknown.
    UnknownApplied,
    /// A commit does not happen, and the caller is told that its outcome is unknown.
    UnknownLost,
    /// A sync fails: all operations fail until the store is opened again.
    Poison {
        /// Whether the written data is found after the store is opened again.
        kept: bool,
    },
    /// A read returns the state of this many commits ago, 1 to 5, but sees all that was acknowledged to its handle.
    Stale(u64),
    /// The reads of a handle are left behind, as by connections that stay with a server when another one becomes the
    /// primary: from this read on they return the state of now. The first read that would lack a commit that was
    /// acknowledged to the handle is refused, and so is the next one that this fault hits; then reads see everything again.
    LeftBehind,
    /// A hint is lost on its way.
    DropHint,
    /// A hint is sent twice.
    RepeatHint,
}

impl Fault {
    pub(super) fn fits(self, op: Op<'_>) -> bool {
        match self {
            Self::Unavailable => matches!(op, Op::Commit(_) | Op::Read),
            Self::UnknownApplied | Self::UnknownLost | Self::Poison { .. } => {
                matches!(op, Op::Commit(_))
            }
            Self::Stale(_) | Self::LeftBehind => matches!(op, Op::Read),
            Self::DropHint | Self::RepeatHint => matches!(op, Op::Hint(_)),
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Unavailable => "unavailable",
            Self::UnknownApplied => "unknown_applied",
            Self::UnknownLost => "unknown_lost",
            Self::Poison { kept: true } => "poisoned_kept",
            Self::Poison { kept: false } => "poisoned_lost",
            Self::Stale(_) => "stale_read",
            Self::LeftBehind => "left_behind",
            Self::DropHint => "hint_dropped",
            Self::RepeatHint => "hint_repeated",
        }
    }
}

/// Number of times that each fault occurred, by name. Faults that did not occur are listed with zero.
pub type Counts = BTreeMap<&'static str, u64>;

/// All names that [`Counts`] contains.
pub(super) const NAMES: [&str; 12] = [
    "unavailable",
    "unknown_applied",
    "unknown_lost",
    "poisoned_kept",
    "poisoned_lost",
    "stale_read",
    "left_behind",
    "hint_dropped",
    "hint_repeated",
    "unreachable",
    "crash",
    "commit_lost_in_crash",
];

/// Frequencies of faults, as occurrences per million operations that the fault can hit. The default is zero for all.
///
/// ```
/// use control_plane_store::memory::{MemoryStore, Rates};
/// let store = MemoryStore::new();
/// store.set_faults(Rates { unknown: 10_000, stale: 100_000, ..Rates::default() }.seeded(42));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rates {
    /// Rate of [`Fault::Unavailable`], for reads and for commits.
    pub unavailable: u32,
    /// Rate of [`Fault::UnknownApplied`] and [`Fault::UnknownLost`] together, in equal parts.
    pub unknown: u32,
    /// Rate of [`Fault::Poison`], with the data kept and lost in equal parts.
    pub poison: u32,
    /// Rate of [`Fault::Stale`], by 1 to 5 commits in equal parts.
    pub stale: u32,
    /// Rate of [`Fault::LeftBehind`], per read of a handle.
    pub left_behind: u32,
    /// Rate of [`Fault::DropHint`] per hint.
    pub drop_hint: u32,
    /// Rate of [`Fault::RepeatHint`] per hint.
    pub repeat_hint: u32,
}

impl Rates {
    /// Returns a function that draws faults at these rates. The same seed draws the same faults for the same
    /// operations.
    pub fn seeded(self, seed: u64) -> impl FnMut(Op<'_>) -> Option<Fault> + Send + 'static {
        let mut state = seed;
        move |op| {
            let drawn = split_mix(&mut state);
            let (lot, which) = ((drawn >> 32) % 1_000_000, drawn & 0xffff_ffff);
            let faults: &[(u32, Fault)] = match op {
                Op::Commit(_) => &[
                    (self.unavailable, Fault::Unavailable),
                    (
                        self.unknown,
                        [Fault::UnknownApplied, Fault::UnknownLost][which as usize % 2],
                    ),
                    (
                        self.poison,
                        Fault::Poison {
                            kept: which % 2 == 0,
                        },
                    ),
                ],
                Op::Read => &[
                    (self.unavailable, Fault::Unavailable),
                    (self.stale, Fault::Stale(1 + which % super::log::HISTORY)),
                    (self.left_behind, Fault::LeftBehind),
                ],
                Op::Hint(_) => &[
                    (self.drop_hint, Fault::DropHint),
                    (self.repeat_hint, Fault::RepeatHint),
                ],
            };
            let mut upto = 0;
            let hit = faults.iter().find(|(rate, _)| {
                upto += u64::from(*rate);
                lot < upto
            });
            hit.map(|(_, fault)| *fault)
        }
    }
}

/// One step of SplitMix64 (Steele, Lea and Flood, 2014).
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
