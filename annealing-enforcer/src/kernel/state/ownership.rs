//! The ownership of the partition: the fencing token, the lease, and the ownership clock, which counts the total time for
//! which any process has owned the partition.
//!
//! The clock continues across takeovers, and no wall clock affects it. Waits for pushes of unknown outcome end by it, and
//! by it the drift scan resumes where the former owner stopped.

use std::{collections::BTreeSet, time::Duration};

use plugin_sdk::{FencingToken, Mono};

use super::numbers::SlotNo;

/// Time between the start of an ownership and the first record of its clock.
const FIRST_NOTE: Duration = Duration::from_secs(1);

/// The ownership of this process; see the module.
#[derive(Debug)]
pub(in crate::kernel) struct Ownership {
    token: FencingToken,
    lease_until: Mono,
    /// `true` once a shutdown has begun: no new diff, check or push starts.
    draining: bool,
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

impl Ownership {
    /// Begins an ownership under `token`, after a total time of `before` under all former owners. It has no lease yet.
    pub(in crate::kernel) fn new(token: FencingToken, before: Duration, now: Mono) -> Self {
        Self {
            token,
            lease_until: Mono(0),
            draining: false,
            before,
            since: now,
            noted: before,
            note_at: now + FIRST_NOTE,
            waiting: BTreeSet::new(),
        }
    }

    pub(in crate::kernel) fn token(&self) -> FencingToken {
        self.token
    }

    /// Notes that calls may start until `until`.
    pub(in crate::kernel) fn renewed(&mut self, until: Mono) {
        self.lease_until = until;
    }

    /// Whether the lease is held. After two thirds of a term without renewal it counts as not held.
    pub(in crate::kernel) fn has_lease(&self, now: Mono) -> bool {
        now < self.lease_until
    }

    /// Begins a shutdown.
    pub(in crate::kernel) fn drain(&mut self) {
        self.draining = true;
    }

    /// Whether a shutdown has begun.
    pub(in crate::kernel) fn is_draining(&self) -> bool {
        self.draining
    }

    /// Returns the total time for which the partition has been owned.
    pub(in crate::kernel) fn total(&self, now: Mono) -> Duration {
        self.before + now.since(self.since)
    }

    /// Returns the time that passed since the clock was recorded last.
    pub(in crate::kernel) fn not_noted(&self, now: Mono) -> Duration {
        self.total(now).saturating_sub(self.noted)
    }

    /// Notes that the clock is recorded. Returns the recorded time.
    pub(in crate::kernel) fn note(&mut self, now: Mono) -> Duration {
        self.noted = self.total(now);
        self.noted
    }

    /// Returns the time at which the clock is recorded next.
    pub(in crate::kernel) fn note_at(&self) -> Mono {
        self.note_at
    }

    pub(in crate::kernel) fn set_note_at(&mut self, at: Mono) {
        self.note_at = at;
    }

    /// Notes that an asset waits for the deadline of a push. The clock is recorded at `soon` at the latest.
    pub(in crate::kernel) fn waits_for_deadline(&mut self, slot: SlotNo, soon: Mono) {
        self.waiting.insert(slot);
        self.note_at = self.note_at.min(soon);
    }

    /// Returns the assets that wait for the deadlines of pushes. Drops those for which `waits` does not hold.
    pub(in crate::kernel) fn waiting(
        &mut self,
        waits: impl FnMut(&SlotNo) -> bool,
    ) -> &BTreeSet<SlotNo> {
        self.waiting.retain(waits);
        &self.waiting
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s5_lease_ends_at_its_time() {
        let mut ownership = Ownership::new(FencingToken(1), Duration::ZERO, Mono(0));
        assert!(!ownership.has_lease(Mono(0)), "no lease yet");
        ownership.renewed(Mono(10));
        assert!(ownership.has_lease(Mono(9)) && !ownership.has_lease(Mono(10)));
    }

    #[test]
    fn r13_clock_continues_from_the_former_owners() {
        let (before, start) = (Duration::from_secs(100), Mono(5));
        let mut ownership = Ownership::new(FencingToken(2), before, start);
        let later = start + Duration::from_secs(7);
        assert_eq!(ownership.total(later), Duration::from_secs(107));
        assert_eq!(ownership.not_noted(later), Duration::from_secs(7));
        assert_eq!(ownership.note(later), Duration::from_secs(107));
        assert_eq!(ownership.not_noted(later), Duration::ZERO);
    }

    #[test]
    fn r13_clock_is_recorded_sooner_while_an_asset_waits_for_a_deadline() {
        let mut ownership = Ownership::new(FencingToken(1), Duration::ZERO, Mono(0));
        ownership.waits_for_deadline(SlotNo::FIRST, Mono(3));
        assert_eq!(ownership.note_at(), Mono(3));
        assert_eq!(ownership.waiting(|_| true).len(), 1);
        assert_eq!(ownership.waiting(|_| false).len(), 0);
    }
}
