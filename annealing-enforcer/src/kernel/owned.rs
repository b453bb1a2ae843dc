//! The ownership clock of the partition: the total time for which any process has owned it.
//!
//! It continues across takeovers, and no wall clock affects it. Waits for pushes of unknown outcome end by it, and by
//! it the drift scan resumes where the former owner stopped.

use std::{collections::BTreeSet, time::Duration};

use control_plane_store::records::Owned;
use plugin_sdk::{Mono, Now};

use super::{
    Kernel,
    event::{Effects, Record},
    state::{
        attempt::{Phase, Wait},
        slot::SlotNo,
    },
};

/// Number of times that the clock is recorded per drift period, and per push deadline while a push of unknown outcome
/// waits.
const PARTS: u32 = 32;
/// Bounds of the time between two records while no such push waits.
const IDLE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));
/// Bounds of the time between two records while a push of unknown outcome waits.
const WAITING: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// The ownership clock; see the module.
#[derive(Debug)]
pub(super) struct OwnedClock {
    /// Total time of all former owners.
    before: Duration,
    since: Mono,
    /// Total time in the last record.
    noted: Duration,
    /// Time of the next record.
    note_at: Mono,
    /// Assets that wait, or waited, for the deadline of a push of unknown outcome.
    waiting: BTreeSet<SlotNo>,
}

impl OwnedClock {
    pub(super) fn new(before: Duration, now: Mono) -> Self {
        Self {
            before,
            since: now,
            noted: before,
            note_at: now + IDLE.0,
            waiting: BTreeSet::new(),
        }
    }

    /// Returns the total time for which the partition has been owned.
    pub(super) fn total(&self, now: Mono) -> Duration {
        self.before + now.since(self.since)
    }

    /// Returns the time at which the clock is recorded next.
    pub(super) fn note_at(&self) -> Mono {
        self.note_at
    }
}

impl Kernel {
    /// Notes that an asset waits for the deadline of a push: the clock is recorded more often meanwhile.
    pub(super) fn waits_for_deadline(&mut self, now: Now, slot: SlotNo) {
        let soon = now.mono + self.note_every(slot);
        self.owned.waiting.insert(slot);
        self.owned.note_at = self.owned.note_at.min(soon);
    }

    /// Records the clock if that is due.
    pub(super) fn note_owned(&mut self, now: Now, out: &mut Effects) {
        if now.mono < self.owned.note_at {
            return;
        }
        let waits = |slot: &SlotNo| {
            let it = self.attempts.at(self.table.slot(*slot).attempt);
            it.is_some_and(|it| matches!(it.phase, Phase::Waiting(Wait::Unknown)))
        };
        self.owned.waiting.retain(waits);
        let waiting = self.owned.waiting.iter();
        let soonest = waiting.map(|slot| self.note_every(*slot)).min();
        let idle = (self.config.drift_period / PARTS).clamp(IDLE.0, IDLE.1);
        self.owned.note_at = now.mono + soonest.unwrap_or(idle);
        self.note(now, out);
    }

    /// Records the clock together with an open push, because the push's deadline is counted on it.
    pub(super) fn note_with_push(&mut self, now: Now, out: &mut Effects) {
        if self.owned.total(now.mono) >= self.owned.noted + WAITING.0 {
            self.note(now, out);
        }
    }

    fn note(&mut self, now: Now, out: &mut Effects) {
        let total = self.owned.total(now.mono);
        self.owned.noted = total;
        self.record(Record::Owned(Owned { total }), out);
    }

    fn note_every(&self, slot: SlotNo) -> Duration {
        let config = &self.kinds[self.table.slot(slot).kind.index()].config;
        (config.push_deadline / PARTS).clamp(WAITING.0, WAITING.1)
    }
}
