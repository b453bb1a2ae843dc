//! Schedules in a world with true time, a clock that is often wrong, crashes, pauses and edits, judged against what is
//! true.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use plugin_sdk::By;
use prodspec_model::operation::Concurrency;
use proptest::{collection::vec, prelude::*, sample::select};

use crate::cron::{Decision, Schedule, ScheduleRecord, Slots, Wanted};

const MINUTE: SignedDuration = SignedDuration::from_secs(60);

#[derive(Debug, Clone)]
enum Op {
    /// Time passes, and the owner decides whenever it has to.
    Pass(SignedDuration),
    /// Time passes without an owner.
    Away(SignedDuration),
    /// The clock is set to the true time plus this.
    Clock(SignedDuration),
    /// The owner dies after a decision, and before the commit; the next one reads the record.
    Crash,
    /// The oldest run ends.
    End,
    Pause,
    Resume,
    Edit(Wanted),
}

struct World {
    schedule: Schedule,
    wanted: Slots,
    stored: String,
    /// True time.
    time: Timestamp,
    error: SignedDuration,
    /// Executions that are live, and slots that ever started.
    live: Vec<Timestamp>,
    started: BTreeSet<Timestamp>,
    /// Slots up to this true time need not open: edits and pauses. `None`: it was done by a wrong clock.
    since: Option<Timestamp>,
    paused: Option<Timestamp>,
    /// Whether the clock was ever wrong.
    was_wrong: bool,
    /// Number of slots of expressions that are no longer in force.
    slots: u64,
    edited: Timestamp,
}

impl World {
    fn new(wanted: Wanted, time: Timestamp) -> Self {
        let slots = wanted.slots().unwrap();
        let schedule = Schedule::new(wanted, time).unwrap();
        Self {
            wanted: slots,
            stored: serde_json::to_string(schedule.record()).unwrap(),
            schedule,
            time,
            error: SignedDuration::ZERO,
            live: Vec::new(),
            started: BTreeSet::new(),
            since: Some(time),
            paused: None,
            was_wrong: false,
            slots: 0,
            edited: time,
        }
    }

    fn now(&self) -> Timestamp {
        self.time + self.error
    }

    fn is_right(&self) -> bool {
        self.error.is_zero()
    }

    fn commit(&mut self) {
        if let Some(record) = self.schedule.take_changed() {
            self.stored = serde_json::to_string(record).unwrap();
        }
    }

    fn restore(&mut self) {
        let record: ScheduleRecord = serde_json::from_str(&self.stored).unwrap();
        assert_eq!(record.running, self.live, "running");
        self.schedule = Schedule::restore(record).unwrap();
    }

    fn step(&mut self, op: Op) {
        match op {
            Op::Pass(time) => self.pass(time),
            Op::Away(time) => {
                self.time += time;
                self.restore();
            }
            Op::Clock(error) => {
                self.error = error;
                self.was_wrong |= !self.is_right();
                // When the pause began is known by that clock only.
                if self.paused.is_some() {
                    self.forget_if_wrong();
                }
                if self.is_right() && self.since.is_none() {
                    self.since = Some(self.time);
                }
            }
            Op::Crash => {
                if let Decision::Start { slot } = self.schedule.decide(self.now()) {
                    self.schedule.started(slot, self.now());
                }
                self.restore();
            }
            Op::End => {
                if let Some(slot) = (!self.live.is_empty()).then(|| self.live.remove(0)) {
                    self.schedule.ended(slot);
                }
            }
            Op::Pause => {
                self.schedule.paused(By::new("jane", "test"), self.now());
                self.paused.get_or_insert(self.time);
                self.forget_if_wrong();
            }
            Op::Resume => self.resume(),
            Op::Edit(wanted) => self.edit(wanted),
        }
        self.act();
        self.pass(SignedDuration::ZERO);
    }

    fn resume(&mut self) {
        self.schedule.resumed(self.now());
        if let Some(since) = self.paused.take() {
            if self.wanted.newest_by(self.time) >= Some(since) {
                self.since = Some(self.time);
            }
            self.forget_if_wrong();
        }
    }

    fn edit(&mut self, wanted: Wanted) {
        let open = self.open();
        self.schedule.edited(wanted.clone(), self.now()).unwrap();
        // A longer deadline opens no slot that has closed.
        if open.is_none() {
            self.since = self.since.map(|_| self.time);
        }
        let slots = wanted.slots().unwrap();
        if slots != self.wanted {
            let before = std::mem::replace(&mut self.wanted, slots);
            self.slots += before.count(self.edited, self.time);
            self.edited = self.time;
            self.since = Some(self.time);
            self.forget_if_wrong();
        }
    }

    fn forget_if_wrong(&mut self) {
        if !self.is_right() {
            self.since = None;
        }
    }

    fn pass(&mut self, time: SignedDuration) {
        let end = self.time + time;
        self.act();
        while let Some(wake) = self.schedule.next_wake(self.now()) {
            let passed = wake.duration_since(self.now());
            assert!(passed > SignedDuration::ZERO, "nothing wakes in the past");
            if self.time + passed > end {
                break;
            }
            self.time += passed;
            self.act();
        }
        self.time = end;
        self.act();
    }

    /// Does what the schedule decides, until it decides to wait.
    fn act(&mut self) {
        loop {
            let decision = self.schedule.decide(self.now());
            self.judge(&decision);
            match decision {
                Decision::Start { slot } => self.start(slot),
                Decision::Replace { cancel, .. } => {
                    assert_eq!(cancel, self.live);
                    let ended = std::mem::take(&mut self.live);
                    ended.into_iter().for_each(|slot| self.schedule.ended(slot));
                }
                _ => break,
            }
            self.commit();
        }
        self.commit();
    }

    fn start(&mut self, slot: Timestamp) {
        let wanted = &self.schedule.record().wanted;
        if wanted.concurrency != Concurrency::Allow {
            assert!(self.live.is_empty(), "{slot} starts beside {:?}", self.live);
        }
        assert!(self.started.insert(slot), "{slot} starts twice");
        let newest = self.wanted.newest_by(self.now());
        assert_eq!(newest, Some(slot), "only the newest slot starts");
        self.live.push(slot);
        self.schedule.started(slot, self.now());
    }

    /// Compares the decision with the slot that is open in truth.
    fn judge(&self, decision: &Decision) {
        let decided = match decision {
            Decision::Start { slot }
            | Decision::Blocked { slot, .. }
            | Decision::Replace { slot, .. } => Some(*slot),
            _ => None,
        };
        if self.paused.is_some() {
            assert_eq!(*decision, Decision::Paused);
            return;
        }
        let (Some(since), true) = (self.since, self.is_right()) else {
            return;
        };
        let open = self.open();
        if open.is_some() || !self.was_wrong {
            assert_eq!(
                decided, open,
                "the open slot at {}, since {since}",
                self.time
            );
        }
    }

    /// The slot that is open in truth.
    fn open(&self) -> Option<Timestamp> {
        let wanted = &self.schedule.record().wanted;
        let deadline = wanted.starting_deadline_secs.unwrap_or(u32::MAX.into());
        let deadline = SignedDuration::from_secs(deadline as i64);
        let newest = self.wanted.newest_by(self.time);
        newest.filter(|slot| {
            let counts = self.since.is_some_and(|since| *slot > since);
            counts && !self.started.contains(slot) && self.time < *slot + deadline
        })
    }

    /// Each slot has started or was counted, once.
    fn count(mut self) {
        self.step(Op::Resume);
        if self.was_wrong {
            return;
        }
        let open = !matches!(self.schedule.decide(self.now()), Decision::Wait { .. });
        let counts = self.schedule.record().counts;
        assert_eq!(counts.started, self.started.len() as u64);
        let counted = counts.started + counts.late + counts.forbidden + counts.paused;
        let all = self.slots + self.wanted.count(self.edited, self.time);
        assert_eq!(counted + u64::from(open), all, "{counts:?}");
    }
}

fn wanted() -> impl Strategy<Value = Wanted> {
    let slots = [
        ("* * * * *", "UTC"),
        ("*/7 * * * *", "Europe/London"),
        ("0 * * * *", "America/New_York"),
        ("30 1,2 * * *", "Europe/London"),
        ("15,45 1-2 * * *", "America/New_York"),
        ("*/20 1-2 * * *", "Australia/Lord_Howe"),
        ("0 12 * * 1", "UTC"),
    ];
    let concurrency = [
        Concurrency::Forbid,
        Concurrency::Allow,
        Concurrency::Replace,
    ];
    let deadline = prop_oneof![Just(None), (1..7200u64).prop_map(Some)];
    (
        select(slots.to_vec()),
        select(concurrency.to_vec()),
        deadline,
    )
        .prop_map(
            |((cron, zone), concurrency, starting_deadline_secs)| Wanted {
                zone: Some(zone.into()),
                concurrency,
                starting_deadline_secs,
                ..Wanted::new(cron)
            },
        )
}

fn op() -> impl Strategy<Value = Op> {
    let seconds = |most: i64| (0..most).prop_map(SignedDuration::from_secs);
    let hour = MINUTE * 60;
    let errors = [
        MINUTE / 30,
        -MINUTE / 30,
        hour,
        -hour,
        hour * 24 * 30,
        -hour * 24 * 30,
    ];
    let error = prop_oneof![Just(SignedDuration::ZERO), select(errors.to_vec())];
    prop_oneof![
        6 => seconds(4 * 3600).prop_map(Op::Pass),
        2 => seconds(60).prop_map(Op::Pass),
        2 => seconds(3 * 86_400).prop_map(Op::Away),
        4 => error.prop_map(Op::Clock),
        2 => Just(Op::Crash),
        4 => Just(Op::End),
        1 => Just(Op::Pause),
        2 => Just(Op::Resume),
        1 => wanted().prop_map(Op::Edit),
    ]
}

fn starts() -> impl Strategy<Value = Timestamp> {
    let starts = [
        "2026-03-28T20:17Z",
        "2026-10-24T22:40Z",
        "2026-10-31T23:05Z",
        "2026-10-03T12:00Z",
        "2027-04-03T12:00Z",
    ];
    select(starts.to_vec()).prop_map(|start| start.parse().unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn r37_each_slot_starts_once_on_time_or_is_counted(
        wanted in wanted(),
        start in starts(),
        ops in vec(op(), 1..30),
    ) {
        let mut world = World::new(wanted, start);
        let ops = ops.into_iter().filter(|op| !matches!(op, Op::Clock(_)));
        ops.for_each(|op| world.step(op));
        world.count();
    }

    #[test]
    fn r37_no_slot_starts_twice_and_the_next_opens_on_time_whatever_the_clock_does(
        wanted in wanted(),
        start in starts(),
        ops in vec(op(), 1..30),
    ) {
        let mut world = World::new(wanted, start);
        ops.into_iter().for_each(|op| world.step(op));
        world.count();
    }
}

#[test]
fn r37_clock_that_was_wrong_in_a_pause_changes_nothing_over_a_crash() {
    let wanted = Wanted {
        zone: Some("Europe/London".into()),
        concurrency: Concurrency::Forbid,
        ..Wanted::new("*/7 * * * *")
    };
    let start: Timestamp = "2026-03-28T20:17Z".parse().unwrap();
    let mut world = World::new(wanted, start);
    let ops = [
        Op::Pass(MINUTE * 11 + MINUTE / 60),
        Op::Pause,
        Op::Clock(-MINUTE / 30),
        Op::Clock(SignedDuration::ZERO),
        Op::Crash,
    ];
    ops.into_iter().for_each(|op| world.step(op));
    world.count();
}
