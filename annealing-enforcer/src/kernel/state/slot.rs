//! The state of an idle asset in 40 bytes. State that only an asset in the loop needs is in its
//! [`Attempt`](super::attempt::Attempt).

use prodspec_model::{IncarnationNo, snapshot::Location};

use super::{numbers::AttemptNo, numbers::TypeNo, pin_entry::PinNo};

/// The state that is kept for every asset.
#[derive(Debug, Clone)]
pub(in crate::kernel) struct Slot {
    /// Location of the asset in the newest incarnation. `None`: it is not there.
    pub(in crate::kernel) location: Option<Location>,
    /// Push counter: odd while a push is in flight or its outcome is unknown.
    pub(in crate::kernel) seq: u32,
    /// Number of the last call for the asset; it rises with each call.
    pub(in crate::kernel) n: u32,
    /// The newest incarnation when the asset's intent last changed.
    pub(in crate::kernel) changed: IncarnationNo,
    /// Number of its attempt, or [`AttemptNo::NONE`] while the asset is idle.
    pub(in crate::kernel) attempt: AttemptNo,
    /// Number of its type, in the order of registration.
    pub(in crate::kernel) kind: TypeNo,
    /// Place of its pin in the pin table.
    pub(in crate::kernel) pin: PinNo,
    /// The flags of the asset; see [`flag`].
    pub(in crate::kernel) flags: u16,
    /// The state of the asset in the scheduler.
    pub(in crate::kernel) state: State,
    /// The class in which it is queued, or was queued last.
    pub(in crate::kernel) class: Class,
    /// The trigger of its last or queued diff.
    pub(in crate::kernel) trigger: Trigger,
    /// The time span of its plugin's breaker in which a diff of the asset last succeeded.
    pub(in crate::kernel) counted: u8,
}

/// Bits of [`Slot::flags`].
pub(in crate::kernel) mod flag {
    /// The last diff found the asset in sync with its present intent.
    pub(crate) const IN_SYNC: u16 = 1;
    /// The asset was in sync with its present intent at least once: a difference now is drift.
    pub(crate) const REACHED: u16 = 1 << 1;
    /// The asset is an orphan.
    pub(crate) const ORPHAN: u16 = 1 << 2;
    /// Diff the asset once more as soon as this run ends.
    pub(crate) const RERUN: u16 = 1 << 3;
    /// The asset has a record of its own in the store.
    pub(crate) const RECORDED: u16 = 1 << 4;
    /// The asset settled without a push and is not recorded yet.
    pub(crate) const UNRECORDED: u16 = 1 << 5;
    /// A rollout policy governs the asset.
    pub(crate) const GOVERNED: u16 = 1 << 6;
    /// Production may have the resource: the asset was in sync or pushed before.
    pub(crate) const THERE: u16 = 1 << 7;
    /// A command requires a diff, and none that began afterwards has found anything yet.
    pub(crate) const REQUIRED: u16 = 1 << 8;
}

/// The state of a slot in the scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::kernel) enum State {
    /// The asset is idle: nothing is queued or under way.
    Idle,
    /// The asset is in a queue for a diff.
    Queued,
    /// A call is under way, or a push waits for capacity, journal or follow-up.
    Running,
    /// A timer or an event will wake it.
    Waiting,
}

/// The priority of a queued diff, highest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::kernel) enum Class {
    /// The asset goes back to an earlier incarnation.
    Rollback,
    /// The asset's intent changed, or an operator asked.
    Intent,
    /// The asset is tried again after a wait.
    Retry,
    /// The asset is diffed for drift only.
    Drift,
}

impl Class {
    pub(in crate::kernel) const ALL: [Self; 4] =
        [Self::Rollback, Self::Intent, Self::Retry, Self::Drift];
}

pub(in crate::kernel) use control_plane_store::records::Trigger;

/// Whether a trigger ends even a patient wait; see `Wait::is_patient`.
pub(in crate::kernel) fn cuts(trigger: Trigger) -> bool {
    matches!(
        trigger,
        Trigger::IntentChanged | Trigger::PinMoved | Trigger::Asked
    )
}

impl Slot {
    pub(in crate::kernel) fn new(
        kind: TypeNo,
        location: Option<Location>,
        changed: IncarnationNo,
    ) -> Self {
        Self {
            location,
            seq: 0,
            n: 0,
            changed,
            attempt: AttemptNo::NONE,
            kind,
            pin: PinNo::NEWEST,
            flags: 0,
            state: State::Idle,
            class: Class::Intent,
            trigger: Trigger::IntentChanged,
            counted: u8::MAX,
        }
    }

    /// The state of a slot that no asset uses.
    pub(in crate::kernel) fn unused() -> Self {
        Self::new(TypeNo::from_index(0), None, IncarnationNo::default())
    }

    pub(in crate::kernel) fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    pub(in crate::kernel) fn set(&mut self, flag: u16, on: bool) {
        if on {
            self.flags |= flag
        } else {
            self.flags &= !flag
        }
    }

    pub(in crate::kernel) fn in_flight(&self) -> bool {
        self.seq % 2 == 1
    }
}
