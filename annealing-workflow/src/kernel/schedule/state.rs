//! The schedules of a lane.

use jiff::Timestamp;
use plugin_sdk::By;
use prodspec_model::{AssetId, operation::Operation};

use super::super::{
    event::{Effects, Record},
    trigger::{Touched, Trigger, Triggers, told},
};
use crate::{
    cron::{Schedule, Wanted},
    record::{Paused, What},
    view,
};

/// All schedules of a lane.
pub(in crate::kernel) type Schedules = Triggers<Schedule>;

impl Trigger for Schedule {
    type Wanted = Wanted;

    fn operation(&self) -> Result<Operation, serde_json::Error> {
        self.record().wanted.operation()
    }

    fn next_wake(&mut self, now: Timestamp) -> Option<Timestamp> {
        Schedule::next_wake(self, now)
    }

    fn left(&mut self, now: Timestamp) {
        Schedule::left(self, now);
    }

    fn pause(&mut self, by: By, now: Timestamp) {
        Schedule::paused(self, by, now);
    }

    fn resume(&mut self, now: Timestamp) {
        self.resumed(now);
    }

    fn paused(&self) -> Option<&Paused> {
        self.record().paused.as_ref()
    }

    fn orphan(&self) -> Option<Timestamp> {
        self.record().orphan
    }
}

impl Schedules {
    /// A slot starts in this step. `over`: its execution has ended before.
    pub(super) fn started(&mut self, asset: &AssetId, slot: Timestamp, now: Timestamp, over: bool) {
        self.trouble(asset, None);
        if let Some(schedule) = self.change(asset) {
            schedule.started(slot, now);
            if over {
                schedule.ended(slot);
            }
        }
    }

    /// The execution of a slot has ended.
    pub(in crate::kernel) fn ended(&mut self, asset: &AssetId, slot: Timestamp) {
        if let Some(schedule) = self.decide_about(asset) {
            schedule.ended(slot);
        }
    }

    /// The ended execution of a slot is live again.
    pub(in crate::kernel) fn revived(&mut self, asset: &AssetId, slot: Timestamp) {
        if let Some(schedule) = self.change(asset) {
            schedule.revived(slot);
        }
    }

    /// Writes the records that have changed.
    pub(in crate::kernel) fn write(&mut self, now: Timestamp, out: &mut Effects) {
        self.written(|asset, touched| match touched {
            Touched::Trigger(schedule) => {
                if let Some(missed) = schedule.take_missed() {
                    let what = What::Missed {
                        late: missed.late,
                        forbidden: missed.forbidden,
                        paused: missed.paused,
                    };
                    out.records.push(told(&asset, now, what));
                }
                if let Some(record) = schedule.take_changed() {
                    let record = Some(Box::new(record.clone()));
                    out.records.push(Record::Schedule(asset, record));
                }
            }
            Touched::Stopped(_) => out.records.push(Record::Schedule(asset, None)),
        });
    }

    pub(super) fn running(&self, asset: &AssetId) -> &[Timestamp] {
        let schedule = self.get(asset);
        schedule.map_or(&[], |schedule| &schedule.record().running)
    }

    /// All schedules, without their executions.
    pub(super) fn all_shown(&self, now: Timestamp) -> Vec<view::ScheduleState> {
        let shown = |asset: &AssetId, schedule: &Schedule, trouble| {
            let record = schedule.record();
            view::ScheduleState {
                asset: asset.clone(),
                cron: record.wanted.cron.clone(),
                zone: record.wanted.zone.clone(),
                open: schedule.open_slot(now),
                next: schedule.next_slot(now),
                running: Vec::new(),
                counts: record.counts,
                paused: record.paused.clone(),
                orphan: record.orphan,
                trouble,
            }
        };
        self.shown(shown, view::ScheduleState::refused)
    }
}
