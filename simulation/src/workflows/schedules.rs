//! Schedules in intent, and what holds of their slots by the durable rows and true time.

use std::{collections::BTreeSet, time::Duration};

use jiff::{SignedDuration, Timestamp};
use plugin_sdk::operation::{ExecutionId, StartCause};
use prodspec_model::{
    Asset, AssetId,
    operation::{Concurrency, CronOperation, History, Schedule},
};

use super::stored::Stored;
use crate::{
    executor::NodeRuntime,
    faults::Fault,
    flows::definitions::{NAMES, dump},
    world::State,
};

/// The longest time between two slots.
const PERIOD: Duration = Duration::from_secs(120);
/// Time within which an open slot starts when all faults are healed.
const SLACK: Duration = Duration::from_secs(30);
/// Time within which the run of a slot ends when all faults are healed.
const RUN: SignedDuration = SignedDuration::from_mins(15);

fn concurrency(at: usize) -> Concurrency {
    match at {
        0 => Concurrency::Allow,
        1 => Concurrency::Forbid,
        _ => Concurrency::Replace,
    }
}

/// The seconds after its instant in which a slot may start.
fn deadline(at: usize) -> Option<u64> {
    [Some(45), Some(40), None][at]
}

#[allow(clippy::expect_used, reason = "the constants form valid ids")]
fn id(at: usize) -> AssetId {
    AssetId::new(&format!("cron/{}", NAMES[at])).expect("the constant is a valid id")
}

impl State {
    /// The assets of the schedules as intent has them now.
    #[allow(clippy::expect_used, reason = "all parts are built here and valid")]
    pub fn schedules(&self) -> Vec<Asset> {
        if !self.has_schedules() {
            return Vec::new();
        }
        let asset = |at: usize| {
            let seldom = self.flows.slots.seldom[at];
            let wanted = CronOperation {
                schedule: Schedule::new(if seldom { "*/2 * * * *" } else { "* * * * *" }),
                starting_deadline_secs: deadline(at),
                concurrency: concurrency(at),
                history: History::default(),
                template: dump(),
            };
            let builder = Asset::builder(id(at)).payload(&wanted);
            let builder = builder.expect("the schedule is valid");
            builder.build().expect("the asset is complete")
        };
        (0..NAMES.len()).map(asset).collect()
    }

    fn has_schedules(&self) -> bool {
        self.scenario.schedules && self.scenario.executions > 0
    }

    /// Edits a schedule, if that happens now.
    pub fn edit_schedules(&mut self) {
        if self.has_schedules() && self.flow_strikes(Fault::ScheduleEdited) {
            let at = self.flows.random.below(NAMES.len());
            self.flows.slots.seldom[at] ^= true;
        }
    }

    /// R37: each slot starts once, in its time, and beside no other run unless that is allowed.
    pub(super) fn judge_slot(
        &mut self,
        execution: &ExecutionId,
        stored: &Stored,
    ) -> Result<(), (&'static str, String)> {
        let live = stored.live.as_ref().map(|(live, _)| live);
        let Some(live) = live.or(stored.ended.as_ref().map(|ended| &ended.live)) else {
            return Ok(());
        };
        let StartCause::Slot { schedule, at: slot } = &live.origin.cause else {
            return Ok(());
        };
        let Some(at) = (0..NAMES.len()).find(|at| id(*at) == *schedule) else {
            return Err(("R37", format!("there is no schedule {schedule}")));
        };
        self.judge.look("R37");
        let (now, slots) = (self.now, &mut self.flows.slots);
        let name = (schedule.clone(), *slot);
        let first = slots.started.entry(name);
        let first = first.or_insert_with(|| execution.clone());
        if first != execution {
            return Err(("R37", format!("{first} was the run of its slot {slot}")));
        }
        let late = live.started.duration_since(*slot).as_secs();
        let most = deadline(at).unwrap_or(u64::MAX).min(PERIOD.as_secs());
        if !u64::try_from(late).is_ok_and(|late| late < most) {
            return Err(("R37", format!("it started {late} s after its slot {slot}")));
        }
        let running = &mut slots.running[at];
        let moved = match stored.ended.is_some() {
            true => running.remove(execution) && at != 0,
            false => running.insert(execution.clone()),
        };
        if moved {
            slots.last[at] = now;
        }
        if concurrency(at) == Concurrency::Allow || running.len() < 2 {
            return Ok(());
        }
        // The end of a run may be durable although its commit was not acknowledged.
        let before = running.clone();
        let live = |it: &ExecutionId| self.stored(it).is_some_and(|it| it.live.is_some());
        let live: BTreeSet<_> = before.into_iter().filter(live).collect();
        let beside = live.len() > 1;
        let what = format!("it runs beside others: {live:?}");
        self.flows.slots.running[at] = live;
        if beside { Err(("R37", what)) } else { Ok(()) }
    }

    /// R37: whatever became of the slots before, the next one starts. Not judged if a wall clock was wrong, because slots
    /// that have started before their time do not start again.
    pub fn judge_slots_on_time(&mut self) {
        let Some(from) = self.judge.punctual_from.filter(|_| self.has_schedules()) else {
            return;
        };
        if self.judge.jumped.is_some() {
            return;
        }
        self.judge.look("slots");
        for (at, name) in NAMES.iter().enumerate() {
            let slots = &self.flows.slots;
            let waits = concurrency(at) != Concurrency::Allow && !slots.running[at].is_empty();
            let since = slots.last[at].max(from);
            if !waits && self.now.since(since) > PERIOD + SLACK {
                let what = format!("no slot of cron/{name} has started since {since:?}");
                self.violated("slots", what);
            }
        }
    }

    /// Whether an execution may be live at rest because it is the run of a slot or a watch since a short time ago.
    pub(super) fn is_recent_run(&self, cause: &StartCause, started: Timestamp) -> bool {
        let age = NodeRuntime::wall(self.now).duration_since(started);
        matches!(cause, StartCause::Slot { .. } | StartCause::Watch { .. }) && age < RUN
    }
}
