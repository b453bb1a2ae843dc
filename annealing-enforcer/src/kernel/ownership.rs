//! The ownership of the partition: whether calls may start, and the records of the ownership clock.

use std::time::Duration;

use control_plane_store::records::Owned;
use plugin_sdk::Now;

use super::{
    Kernel,
    event::{Effects, Record},
    state::{
        attempt::{Phase, Wait},
        numbers::SlotNo,
        numbers::TypeNo,
    },
};
use crate::bug::Bug;

/// Number of times that the clock is recorded per drift period, and per push deadline while a push of unknown outcome
/// waits.
const PARTS: u32 = 32;
/// Bounds of the time between two records while no such push waits.
const IDLE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));
/// Bounds of the time between two records while a push of unknown outcome waits.
const WAITING: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

impl Kernel {
    /// Whether this process still holds the lease. After two thirds of a term without renewal it counts as not held.
    pub(super) fn has_lease(&self, now: Now) -> bool {
        self.ownership.has_lease(now.mono) || self.planted(Bug::DropFence)
    }

    /// Whether a new call may start: the lease is held and no shutdown has begun.
    pub(super) fn may_start(&self, now: Now) -> bool {
        self.has_lease(now) && !self.ownership.is_draining()
    }

    pub(super) fn may_diff(&self, now: Now, kind: TypeNo) -> bool {
        let kind = &self.kinds[kind.index()];
        kind.diffs < kind.config.diffs && kind.breaker.allows(now.mono) && self.may_start(now)
    }

    /// Begins a shutdown: no new diff, check or push starts.
    pub(super) fn drain(&mut self) {
        if !self.planted(Bug::StartWhileDraining) {
            self.ownership.drain();
        }
    }

    /// Notes that an asset waits for the deadline of a push: the clock is recorded more often meanwhile.
    pub(super) fn waits_for_deadline(&mut self, now: Now, slot: SlotNo) {
        let soon = now.mono + self.note_every(slot);
        self.ownership.waits_for_deadline(slot, soon);
    }

    /// Records the clock if that is due.
    pub(super) fn note_owned(&mut self, now: Now, out: &mut Effects) {
        if now.mono < self.ownership.note_at() {
            return;
        }
        let (attempts, table) = (&self.attempts, &self.table);
        let waits = |slot: &SlotNo| {
            let it = attempts.at(table.slot(*slot).attempt);
            it.is_some_and(|it| matches!(it.phase, Phase::Waiting(Wait::Unknown)))
        };
        let waiting: Vec<SlotNo> = self.ownership.waiting(waits).iter().copied().collect();
        let soonest = waiting.into_iter().map(|slot| self.note_every(slot)).min();
        let idle = (self.config.drift_period / PARTS).clamp(IDLE.0, IDLE.1);
        let next = now.mono + soonest.unwrap_or(idle);
        self.ownership.set_note_at(next);
        self.note(now, out);
    }

    /// Records the clock together with an open push, because the push's deadline is counted on it.
    pub(super) fn note_with_push(&mut self, now: Now, out: &mut Effects) {
        if self.ownership.not_noted(now.mono) >= WAITING.0 {
            self.note(now, out);
        }
    }

    fn note(&mut self, now: Now, out: &mut Effects) {
        let total = self.ownership.note(now.mono);
        self.record(Record::Owned(Owned { total }), out);
    }

    fn note_every(&self, slot: SlotNo) -> Duration {
        let config = &self.kinds[self.table.slot(slot).kind.index()].config;
        (config.push_deadline / PARTS).clamp(WAITING.0, WAITING.1)
    }
}
