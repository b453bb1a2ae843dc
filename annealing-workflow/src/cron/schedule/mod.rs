//! The state of one schedule: which slot is open, what started, what closed unstarted.

mod clock;
mod record;
mod started;

use jiff::{SignedDuration, Timestamp};

use plugin_sdk::By;
use prodspec_model::operation::Concurrency;

pub use self::{
    record::{Counts, ScheduleRecord, Wanted},
    started::StartedSlots,
};
use super::{error::Error, slots::Slots};
use crate::record::Paused;

/// One schedule. It has no clock: the caller hands in the wall time, and stores the [record](Self::take_changed) in the
/// commit that starts a slot.
///
/// A slot is open from its instant until its starting deadline or the next slot. An open slot starts as soon as
/// concurrency lets it. After an absence the newest slot is open; the ones before it have closed. A slot that started
/// never starts again, whatever the clock does: the record remembers it. What a clock that ran ahead has closed is open
/// again when the clock is right; [`Counts`] count it once more then.
///
/// ```
/// use annealing_workflow::cron::{Decision, Schedule, Wanted};
/// use jiff::Timestamp;
///
/// let at = |text: &str| text.parse::<Timestamp>();
/// let mut schedule = Schedule::new(Wanted::new("0 3 * * *"), at("2026-01-01T12:00Z")?)?;
/// assert_eq!(schedule.decide(at("2026-01-01T12:00Z")?), Decision::Wait { until: Some(at("2026-01-02T03:00Z")?) });
///
/// // Nothing decided for a week: the newest slot is open, the others are late.
/// let (now, slot) = (at("2026-01-09T08:00Z")?, at("2026-01-09T03:00Z")?);
/// assert_eq!(schedule.decide(now), Decision::Start { slot });
/// schedule.started(slot, now);
/// let record = schedule.take_changed().unwrap(); // in one commit with the execution that starts
/// assert_eq!((record.counts.started, record.counts.late), (1, 7));
///
/// // A new owner goes on from the record.
/// let mut schedule = Schedule::restore(record.clone())?;
/// assert_eq!(schedule.decide(now), Decision::Wait { until: Some(at("2026-01-10T03:00Z")?) });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Schedule {
    record: ScheduleRecord,
    slots: Slots,
    /// The first slot after `record.closed_to`. `None`: it is not computed.
    upcoming: Option<Timestamp>,
    changed: bool,
    /// The counts at the last call of [`take_missed`](Schedule::take_missed).
    told: Counts,
}

/// What to do about a schedule now.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decision {
    /// Start the slot, and say so with [`Schedule::started`] in the same commit.
    Start {
        /// Instant of the open slot.
        slot: Timestamp,
    },
    /// Cancel what runs, with clean-up, and decide again when it has ended. The decision is the same each time, so
    /// leave out what is being cancelled already.
    Replace {
        /// Instant of the open slot, which starts afterwards.
        slot: Timestamp,
        /// The slots whose executions are to be cancelled, each as its instant.
        cancel: Vec<Timestamp>,
        /// When the slot closes unstarted. `None`: not before the end of time.
        until: Option<Timestamp>,
    },
    /// The slot is open and waits for the end of what runs.
    Blocked {
        /// Instant of the open slot.
        slot: Timestamp,
        /// When the slot closes unstarted. `None`: not before the end of time.
        until: Option<Timestamp>,
    },
    /// No slot is open. The next one opens at a known time.
    Wait {
        /// Instant of the next slot. `None`: no more slots are left.
        until: Option<Timestamp>,
    },
    /// An operator has paused the schedule. Nothing starts, and no time needs to be waited for.
    Paused,
}

impl Schedule {
    /// Creates the schedule of an asset that was seen for the first time at `now`. Slots after `now` count.
    ///
    /// # Errors
    /// If the expression, the zone or the deadline cannot be used.
    pub fn new(wanted: Wanted, now: Timestamp) -> Result<Self, Error> {
        let mut schedule = Self::restore(ScheduleRecord::new(wanted, now))?;
        schedule.changed = true;
        Ok(schedule)
    }

    /// Continues from a stored record. Call [`ended`](Self::ended) for each of its [running](ScheduleRecord::running)
    /// slots whose execution is not live.
    ///
    /// # Errors
    /// If the expression, the zone or the deadline cannot be used.
    pub fn restore(record: ScheduleRecord) -> Result<Self, Error> {
        let slots = record.wanted.slots()?;
        Ok(Self {
            told: record.counts,
            record,
            slots,
            upcoming: None,
            changed: false,
        })
    }

    /// Decides what to do at `now`. Decide again at [`next_wake`](Self::next_wake), when a run ends, after each word of
    /// an operator, and when the wall clock was set.
    pub fn decide(&mut self, now: Timestamp) -> Decision {
        self.correct(now);
        if self.record.paused.is_some() {
            return Decision::Paused;
        }
        let Some(slot) = self.settle(now) else {
            let until = self.upcoming();
            return Decision::Wait { until };
        };
        let concurrency = self.record.wanted.concurrency;
        if self.record.running.is_empty() || concurrency == Concurrency::Allow {
            return Decision::Start { slot };
        }
        let until = self.closes(slot);
        match concurrency {
            Concurrency::Replace => Decision::Replace {
                slot,
                cancel: self.record.running.clone(),
                until,
            },
            _ => Decision::Blocked { slot, until },
        }
    }

    /// When to decide again if nothing else happens, seen from `now`, the time of the last decision. `None`: only an
    /// event or an operator changes something.
    pub fn next_wake(&mut self, now: Timestamp) -> Option<Timestamp> {
        if self.record.paused.is_some() {
            return None;
        }
        let slot = self.upcoming()?;
        match slot > now {
            true => Some(slot),
            false => self.closes(slot),
        }
    }

    /// Notes that the slot of a [`Decision`] starts in this commit. A slot that has started before changes nothing.
    pub fn started(&mut self, slot: Timestamp, now: Timestamp) {
        if !self.record.started.insert(slot, &self.slots) {
            return;
        }
        self.record.counts.started += 1;
        self.record.running.push(slot);
        self.move_to(slot.max(self.record.closed_to), now);
    }

    /// Notes that the execution of `slot` has ended in this commit, however it ended.
    pub fn ended(&mut self, slot: Timestamp) {
        let before = self.record.running.len();
        self.record.running.retain(|running| *running != slot);
        self.changed |= self.record.running.len() != before;
    }

    /// Notes that the ended execution of `slot` is live again in this commit: an operator restarted a step of it.
    pub fn revived(&mut self, slot: Timestamp) {
        if !self.record.running.contains(&slot) {
            self.record.running.push(slot);
            self.changed = true;
        }
    }

    /// Takes an edited content of the asset. An edited expression or zone counts from `now` on: an open slot closes.
    ///
    /// # Errors
    /// If the expression, the zone or the deadline cannot be used. Nothing changes then.
    pub fn edited(&mut self, wanted: Wanted, now: Timestamp) -> Result<(), Error> {
        let slots = wanted.slots()?;
        self.correct(now);
        self.settle(now);
        if slots != self.slots {
            self.close(now, now);
            self.record.started.separate(&self.slots);
            self.record.from = now;
            self.slots = slots;
            self.move_to(now, now);
        }
        self.changed |= wanted != self.record.wanted || self.record.orphan.is_some();
        self.record.wanted = wanted;
        self.record.orphan = None;
        Ok(())
    }

    /// Notes that the asset left intent. The schedule goes on as before, and says since when it is an orphan.
    pub fn left(&mut self, now: Timestamp) {
        self.changed |= self.record.orphan.is_none();
        self.record.orphan.get_or_insert(now);
    }

    /// The slot that is open at `now` and has not started, as of the last decision. For readers:
    /// [`decide`](Self::decide) says what to do.
    pub fn open_slot(&self, now: Timestamp) -> Option<Timestamp> {
        let newest = self.slots.newest_by(now)?;
        let in_time = self.deadline(newest).is_none_or(|at| at > now);
        let open = newest > self.record.closed_to && in_time && self.record.paused.is_none();
        open.then_some(newest)
    }

    /// The first slot after `now`, whether or not it is going to start. `None`: no more slots are left.
    pub fn next_slot(&self, now: Timestamp) -> Option<Timestamp> {
        self.slots.next(now)
    }

    /// Pauses the schedule: nothing starts, and slots that fall into the pause never will. While it is paused already,
    /// nothing changes.
    pub fn paused(&mut self, by: By, now: Timestamp) {
        self.correct(now);
        if self.record.paused.is_none() {
            self.settle(now);
            self.record.paused = Some(Paused { since: now, by });
            self.changed = true;
        }
    }

    /// Ends a pause. A slot from before it that is still open may start; the ones from its beginning to `now` are
    /// counted as paused.
    pub fn resumed(&mut self, now: Timestamp) {
        self.correct(now);
        let Some(since) = self.record.paused.as_ref().map(|paused| paused.since) else {
            return;
        };
        self.settle(now);
        if self.slots.newest_by(now).is_some_and(|slot| slot >= since) {
            self.record.from = now;
            self.close(now, now);
        }
        self.record.paused = None;
        self.changed = true;
    }

    /// The state as it is stored, for readers. It may have changes that are not stored yet.
    pub fn record(&self) -> &ScheduleRecord {
        &self.record
    }

    /// The state, if it has changed since the last call, to be stored in this commit.
    pub fn take_changed(&mut self) -> Option<&ScheduleRecord> {
        std::mem::take(&mut self.changed).then_some(&self.record)
    }

    /// The slots that have closed unstarted since the last call, by reason. `None`: there were none.
    pub fn take_missed(&mut self) -> Option<Counts> {
        let now = self.record.counts;
        let before = std::mem::replace(&mut self.told, now);
        // What a clock that ran ahead has closed is open again, so counts may fall.
        let missed = Counts {
            started: 0,
            late: now.late.saturating_sub(before.late),
            forbidden: now.forbidden.saturating_sub(before.forbidden),
            paused: now.paused.saturating_sub(before.paused),
        };
        (missed != Counts::default()).then_some(missed)
    }

    /// Closes all slots whose time is over. Returns the slot that is open at `now`.
    fn settle(&mut self, now: Timestamp) -> Option<Timestamp> {
        let first = self.upcoming().filter(|first| *first <= now)?;
        let newest = match self.slots.next(first) {
            Some(second) if second <= now => self.slots.newest_by(now)?,
            _ => first,
        };
        if newest > first {
            self.close(newest - SECOND, now);
        }
        if self.record.started.contains(newest) || self.deadline(newest).is_some_and(|at| at <= now)
        {
            self.close(newest, now);
            return None;
        }
        Some(newest)
    }

    /// Counts the slots up to `to` that did not start as closed, and moves the cursor there.
    fn close(&mut self, to: Timestamp, now: Timestamp) {
        let from = self.record.closed_to;
        let ran = self.record.started.count(&self.slots, from, to);
        let missed = self.slots.count(from, to).saturating_sub(ran);
        let blocked = !self.record.running.is_empty();
        let counts = &mut self.record.counts;
        let count = match self.record.wanted.concurrency {
            _ if self.record.paused.is_some() => &mut counts.paused,
            Concurrency::Forbid if blocked => &mut counts.forbidden,
            _ => &mut counts.late,
        };
        *count += missed;
        self.move_to(to.max(from), now);
    }

    fn move_to(&mut self, closed_to: Timestamp, now: Timestamp) {
        self.record.closed_to = closed_to;
        self.record.decided_at = now;
        self.upcoming = None;
        self.changed = true;
    }

    fn upcoming(&mut self) -> Option<Timestamp> {
        if self.upcoming.is_none() {
            self.upcoming = self.slots.next(self.record.closed_to);
        }
        self.upcoming
    }

    /// When `slot` closes if it does not start. `None`: not before the end of time.
    fn closes(&self, slot: Timestamp) -> Option<Timestamp> {
        let ends = [self.deadline(slot), self.slots.next(slot)];
        ends.into_iter().flatten().min()
    }

    fn deadline(&self, slot: Timestamp) -> Option<Timestamp> {
        let seconds = self.record.wanted.starting_deadline_secs?;
        let deadline = SignedDuration::from_secs(i64::try_from(seconds).ok()?);
        slot.checked_add(deadline).ok()
    }
}

/// Slots are at least a minute apart: a second before a slot, all earlier ones have closed.
const SECOND: SignedDuration = SignedDuration::from_secs(1);
