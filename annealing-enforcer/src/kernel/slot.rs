//! One asset, idle: 40 bytes. Whatever only a restless asset needs is in its [`Iteration`](super::iteration::Iteration).

use prodspec_model::{IncarnationNo, snapshot::Location};

/// No iteration.
pub(super) const NONE: u32 = u32::MAX;

/// What is always known of an asset.
#[derive(Debug, Clone)]
pub(super) struct Slot {
    /// Where its asset lies in the newest incarnation; `None` when it is not there.
    pub(super) location: Option<Location>,
    /// Push counter: odd while a push is in flight or its outcome unknown.
    pub(super) seq: u32,
    /// Counts calls.
    pub(super) n: u32,
    /// The incarnation in which its intent last changed.
    pub(super) changed: IncarnationNo,
    /// Its iteration while it is restless, or [`NONE`].
    pub(super) iteration: u32,
    /// Its type, by order of registration.
    pub(super) kind: u16,
    /// Its pin, by place in the pin table. 0: the newest incarnation.
    pub(super) pin: u32,
    /// See [`flag`].
    pub(super) flags: u8,
    /// What it is doing.
    pub(super) state: State,
    /// The class it is queued in, or was last.
    pub(super) class: Class,
    /// Why it was last looked at.
    pub(super) trigger: Trigger,
    /// The span of its plugin's breaker in which a diff of it succeeded last.
    pub(super) counted: u8,
}

/// Bits of [`Slot::flags`].
pub(super) mod flag {
    /// The last diff said in sync, at the present intent.
    pub(crate) const IN_SYNC: u8 = 1;
    /// The present intent has been in sync at least once: what differs now is drift.
    pub(crate) const REACHED: u8 = 1 << 1;
    /// It left intent.
    pub(crate) const ORPHAN: u8 = 1 << 2;
    /// Look at it once more as soon as this run ends.
    pub(crate) const RERUN: u8 = 1 << 3;
    /// It has a record of its own in the store.
    pub(crate) const RECORDED: u8 = 1 << 4;
    /// Settled without a push; not yet remembered.
    pub(crate) const UNRECORDED: u8 = 1 << 5;
    /// A rollout policy governs it.
    pub(crate) const GOVERNED: u8 = 1 << 6;
    /// Production may have it: it was in sync or pushed before.
    pub(crate) const THERE: u8 = 1 << 7;
}

/// What a slot is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Nothing.
    Idle,
    /// In a queue for a diff.
    Queued,
    /// A call is under way, or a push waits for capacity, journal or follow-up.
    Running,
    /// A timer or an event will wake it.
    Waiting,
}

/// Which work goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    /// Going back.
    Rollback,
    /// Intent changed.
    Intent,
    /// Another try.
    Retry,
    /// Just looking.
    Drift,
}

impl Class {
    pub(super) const ALL: [Self; 4] = [Self::Rollback, Self::Intent, Self::Retry, Self::Drift];
}

pub(super) use plane_store::records::Trigger;

/// Whether a trigger cuts even a patient wait short.
pub(super) fn cuts(trigger: Trigger) -> bool {
    matches!(
        trigger,
        Trigger::IntentChanged | Trigger::PinMoved | Trigger::Asked
    )
}

impl Slot {
    pub(super) fn new(kind: u16, location: Option<Location>, changed: IncarnationNo) -> Self {
        Self {
            location,
            seq: 0,
            n: 0,
            changed,
            iteration: NONE,
            kind,
            pin: 0,
            flags: 0,
            state: State::Idle,
            class: Class::Intent,
            trigger: Trigger::IntentChanged,
            counted: u8::MAX,
        }
    }

    pub(super) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    pub(super) fn set(&mut self, flag: u8, on: bool) {
        if on {
            self.flags |= flag
        } else {
            self.flags &= !flag
        }
    }

    pub(super) fn in_flight(&self) -> bool {
        self.seq % 2 == 1
    }
}
