//! The clock of the partition's ownership: the time for which it has been owned, by whichever process.
//!
//! It goes on over takeovers and no wall clock moves it. Waits for pushes of unknown outcome end by it, and the drift
//! scan resumes by it where the owner before had come to.

use std::{collections::BTreeSet, time::Duration};

use plane_store::records::Owned;
use plugin_sdk::{Mono, Now};

use super::{
    Kernel,
    event::{Effects, Record},
    iteration::{Phase, Wait},
};

/// How many times in a drift period, and in a push deadline that is waited for, the clock is remembered.
const PARTS: u32 = 32;
/// The bounds of the time between two such notes while nothing is waited for.
const IDLE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));
/// The same while a push of unknown outcome is waited for.
const WAITING: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// See the module.
#[derive(Debug)]
pub(super) struct OwnedClock {
    /// What owners before have counted.
    before: Duration,
    since: Mono,
    /// What was remembered last.
    noted: Duration,
    /// When it is remembered next.
    note_at: Mono,
    /// Assets that wait, or did, for the deadline of a push of unknown outcome.
    waiting: BTreeSet<u32>,
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

    /// The time owned in all.
    pub(super) fn total(&self, now: Mono) -> Duration {
        self.before + now.since(self.since)
    }

    /// When the clock is remembered next.
    pub(super) fn note_at(&self) -> Mono {
        self.note_at
    }
}

impl Kernel {
    /// An asset waits for the deadline of a push: what has passed of it is remembered often.
    pub(super) fn waits_for_deadline(&mut self, now: Now, slot: u32) {
        let soon = now.mono + self.note_every(slot);
        self.owned.waiting.insert(slot);
        self.owned.note_at = self.owned.note_at.min(soon);
    }

    /// Remembers how long the partition has been owned, if it is time for it.
    pub(super) fn note_owned(&mut self, now: Now, out: &mut Effects) {
        if now.mono < self.owned.note_at {
            return;
        }
        let waits = |slot: &u32| {
            let it = self.iterations.at(self.table.slot(*slot).iteration);
            it.is_some_and(|it| matches!(it.phase, Phase::Waiting(Wait::Unknown)))
        };
        self.owned.waiting.retain(waits);
        let waiting = self.owned.waiting.iter();
        let soonest = waiting.map(|slot| self.note_every(*slot)).min();
        let idle = (self.config.drift_period / PARTS).clamp(IDLE.0, IDLE.1);
        self.owned.note_at = now.mono + soonest.unwrap_or(idle);
        self.note(now, out);
    }

    /// A push is remembered as open: what its deadline counts from is remembered with it.
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

    fn note_every(&self, slot: u32) -> Duration {
        let config = &self.kinds[self.table.slot(slot).kind as usize].config;
        (config.push_deadline / PARTS).clamp(WAITING.0, WAITING.1)
    }
}
