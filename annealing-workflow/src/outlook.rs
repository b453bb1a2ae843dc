//! The work that is due until a time, for people who plan a maintenance or the night.

use jiff::Timestamp;
use plugin_sdk::{operation::ExecutionId, workflow::MachineName};
use prodspec_model::AssetId;
use serde::{Deserialize, Serialize};

use crate::{
    cron::Slots,
    view::{Execution, ScheduleState, WatchState},
};

/// Maximum number of entries of an outlook.
pub const MAX_ENTRIES: usize = 1_000;

/// Something that is due at a known time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Due {
    /// Time at which it is due, by the wall clock. What is late is due now.
    pub at: Timestamp,
    /// The slot, the condition or the step that is due.
    pub what: DueWork,
}

/// The kinds of work that is due at a known time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DueWork {
    /// A slot of a schedule opens, or is open and waits.
    Slot {
        /// The asset with the schedule.
        schedule: AssetId,
    },
    /// The condition of an asset has held for as long as a watch wants, if it goes on holding: a run starts. One that has held
    /// that long waits for the end of another run, or for what [`WatchState::trouble`] names.
    Held {
        /// The asset with the watch.
        watch: AssetId,
        /// The asset whose condition holds.
        asset: AssetId,
    },
    /// A step goes on by itself: its timer ends, it is tried again, or a rule is asked again.
    Step {
        /// The execution of the step.
        execution: ExecutionId,
        /// The machine. `None`: the execution itself waits to start.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        machine: Option<MachineName>,
        /// What it waits for, for people.
        why: String,
    },
}

/// The work that is due until a time, gathered from executions, schedules and watches as they are shown, in any order. It
/// keeps the earliest entries only, however much it is shown.
#[derive(Debug, Clone)]
pub struct Outlook {
    now: Timestamp,
    until: Timestamp,
    due: Vec<Due>,
}

impl Outlook {
    /// An outlook from `now` until a time, both by the wall clock.
    pub fn new(now: Timestamp, until: Timestamp) -> Self {
        let due = Vec::new();
        Self { now, until, due }
    }

    /// Adds the steps of an execution that go on by themselves.
    pub fn execution(&mut self, execution: &Execution) {
        self.add(steps(execution));
    }

    /// Adds the slots of a schedule, as many as fit.
    pub fn schedule(&mut self, schedule: &ScheduleState) {
        self.add(slots(schedule, self.now, self.until));
    }

    /// Adds the runs of a watch on status that start if conditions go on holding: of those that are shown, the first 100. A
    /// watch that is paused starts none.
    pub fn watch(&mut self, watch: &WatchState) {
        let holding = watch.holding.iter();
        let holding = holding.filter(|_| watch.paused.is_none());
        self.add(holding.map(|it| Due {
            at: it.due,
            what: DueWork::Held {
                watch: watch.asset.clone(),
                asset: it.asset.clone(),
            },
        }));
    }

    /// What is due, the earliest first. At most [`MAX_ENTRIES`] entries.
    pub fn due(mut self) -> Vec<Due> {
        self.shorten();
        self.due
    }

    fn add(&mut self, due: impl IntoIterator<Item = Due>) {
        for mut due in due {
            due.at = due.at.max(self.now);
            if due.at <= self.until {
                self.due.push(due);
            }
        }
        if self.due.len() > 4 * MAX_ENTRIES {
            self.shorten();
        }
    }

    fn shorten(&mut self) {
        self.due.sort_by_key(|due| due.at);
        self.due.truncate(MAX_ENTRIES);
    }
}

fn steps(execution: &Execution) -> impl Iterator<Item = Due> {
    let start = execution.wait.iter().map(|wait| (None, wait));
    let machines = execution.waits();
    let machines = machines.map(|(machine, wait)| (Some(machine.name.clone()), wait));
    start.chain(machines).filter_map(|(machine, wait)| {
        Some(Due {
            at: wait.next_look?,
            what: DueWork::Step {
                execution: execution.id.clone(),
                machine,
                why: wait.why.clone(),
            },
        })
    })
}

/// The slots of a schedule. One that is paused has none.
fn slots(schedule: &ScheduleState, now: Timestamp, until: Timestamp) -> Vec<Due> {
    let Ok(slots) = Slots::new(&schedule.cron, schedule.zone.as_deref()) else {
        return Vec::new();
    };
    if schedule.paused.is_some() {
        return Vec::new();
    }
    let next = std::iter::successors(slots.next(now), |slot| slots.next(*slot));
    let next = next.take_while(|slot| *slot <= until).take(MAX_ENTRIES);
    let due = |at| Due {
        at,
        what: DueWork::Slot {
            schedule: schedule.asset.clone(),
        },
    };
    schedule.open.into_iter().chain(next).map(due).collect()
}

#[cfg(test)]
mod tests {
    use plugin_sdk::By;

    use super::*;
    use crate::{cron::Counts, record::Paused, view::Holding};

    #[test]
    fn slots_are_listed_until_the_time_and_an_open_one_is_due_now() {
        let now: Timestamp = "2026-11-24T10:10:30Z".parse().unwrap();
        let until: Timestamp = "2026-11-24T10:30:00Z".parse().unwrap();
        let mut schedule = ScheduleState::refused(&AssetId::new("cron/a").unwrap(), "");
        schedule.cron = "*/10 * * * *".to_owned();
        schedule.open = Some("2026-11-24T10:10:00Z".parse().unwrap());
        schedule.counts = Counts::default();
        let due = |until| {
            let mut outlook = Outlook::new(now, until);
            outlook.schedule(&schedule);
            outlook.due()
        };
        let all = due(until);
        let times: Vec<_> = all.iter().map(|due| due.at.to_string()).collect();
        assert_eq!(
            times,
            [
                "2026-11-24T10:10:30Z",
                "2026-11-24T10:20:00Z",
                "2026-11-24T10:30:00Z"
            ]
        );
        let far = now + std::time::Duration::from_secs(400 * 24 * 3600);
        let all = due(far);
        assert_eq!(all.len(), MAX_ENTRIES);
    }

    #[test]
    fn r38_conditions_that_hold_are_due_unless_their_watch_is_paused() {
        let now: Timestamp = "2026-11-24T10:00:00Z".parse().unwrap();
        let minutes = |n: u64| now + std::time::Duration::from_secs(60 * n);
        let id = |name: &str| AssetId::new(name).unwrap();
        let mut watch = WatchState::refused(&id("watch/jobs"), "");
        for (name, due) in [("job/eu", minutes(5)), ("job/us", minutes(15))] {
            let asset = id(name);
            watch.holding.push(Holding { asset, due });
        }
        let due = |watch: &WatchState| {
            let mut outlook = Outlook::new(now, minutes(10));
            outlook.watch(watch);
            outlook.due()
        };
        let what = DueWork::Held {
            watch: id("watch/jobs"),
            asset: id("job/eu"),
        };
        let at = minutes(5);
        assert_eq!(due(&watch), [Due { at, what }]);
        let by = By::new("ann", "a maintenance");
        watch.paused = Some(Paused { since: now, by });
        assert!(due(&watch).is_empty());
    }

    #[test]
    fn outlook_of_many_schedules_keeps_the_earliest_slots() {
        let now: Timestamp = "2026-11-24T10:00:00Z".parse().unwrap();
        let month = std::time::Duration::from_secs(30 * 24 * 3600);
        let mut outlook = Outlook::new(now, now + month);
        for n in (0..8).rev() {
            let asset = AssetId::new(&format!("cron/{n}")).unwrap();
            let mut schedule = ScheduleState::refused(&asset, "");
            schedule.cron = format!("{n}-59/10 * * * *");
            outlook.schedule(&schedule);
            assert!(outlook.due.len() <= 4 * MAX_ENTRIES);
        }
        let due = outlook.due();
        assert_eq!(due.len(), MAX_ENTRIES);
        assert!(due.is_sorted_by_key(|it| it.at));
        // There are eight in ten minutes.
        let last = now + std::time::Duration::from_secs(125 * 600);
        assert!(due.iter().all(|it| it.at <= last));
    }
}
