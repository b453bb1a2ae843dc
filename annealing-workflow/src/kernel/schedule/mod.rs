//! Runs of schedules: which slot starts, and what its end means.

mod state;

use jiff::Timestamp;
use plugin_sdk::{By, Now, operation::StartCause};
use prodspec_model::{AssetId, operation::Concurrency};

pub(super) use self::state::Schedules;
use super::{
    Bug, DISPATCH, ExecutionNo, Lane,
    event::{Effects, Reply},
    intended::ScheduleWord,
    refused::Refused,
    trigger::{Begun, NoStart, Run, said},
};
use crate::{
    cron::{Decision, Schedule, ScheduleRecord, Wanted},
    view,
};

impl Lane {
    /// Takes what intent says of schedules. `all`: the others have left it.
    pub(super) fn intended_schedules(
        &mut self,
        now: Now,
        all: bool,
        wanted: std::collections::BTreeMap<AssetId, Option<Wanted>>,
    ) {
        if all {
            self.schedules.told(&wanted, now.wall);
        }
        for (asset, wanted) in wanted {
            let Some(wanted) = wanted else {
                self.schedules.left(&asset, now.wall);
                continue;
            };
            let is_new = self.schedules.get(&asset).is_none();
            self.schedules.take(asset.clone(), |known| {
                let taken = match known {
                    Some(known) => known.edited(wanted, now.wall).map(|()| None),
                    None => Schedule::new(wanted, now.wall).map(Some),
                };
                taken.map_err(|error| error.to_string())
            });
            if is_new {
                self.adopt_runs(&asset);
            }
        }
    }

    /// Goes on with stored schedules. Slots whose executions are not live have ended.
    pub(super) fn restore_schedules(&mut self, stored: Vec<(AssetId, ScheduleRecord)>) {
        for (asset, record) in stored {
            let slots = record.running.iter().copied();
            let gone: Vec<Timestamp> = slots
                .filter(|slot| self.run_of_slot(&asset, *slot).is_none())
                .collect();
            let schedule = Schedule::restore(record).map(|mut schedule| {
                gone.into_iter().for_each(|slot| schedule.ended(slot));
                schedule
            });
            self.schedules
                .restore(asset, schedule.map_err(|error| error.to_string()));
        }
    }

    /// Decides about the schedules whose time has come.
    pub(super) fn run_schedules(&mut self, now: Now, out: &mut Effects) {
        if self.latest.is_none() {
            return;
        }
        if self.schedules.look(now) && self.planted(Bug::SlotFromWallOnly) {
            self.forget_slots(now.wall);
        }
        while let Some(asset) = self.schedules.next_due() {
            let again = self.run_schedule(now, &asset, out);
            self.schedules.decided(&asset, now, again);
        }
    }

    /// Starts and cancels what a schedule decides now. Returns a time after which to try again.
    fn run_schedule(
        &mut self,
        now: Now,
        asset: &AssetId,
        out: &mut Effects,
    ) -> Option<std::time::Duration> {
        loop {
            let decision = self.schedules.change(asset)?.decide(now.wall);
            match self.misled(asset, decision)? {
                Decision::Start { slot } => match self.start_slot_itself(now, asset, slot, out) {
                    Ok(over) => self.schedules.started(asset, slot, now.wall, over),
                    Err(NoStart::Full) => return Some(DISPATCH),
                    Err(NoStart::Broken(why)) => {
                        self.schedules.trouble(asset, Some(why));
                        return None;
                    }
                    Err(NoStart::Loop(refused)) => {
                        self.schedules.trouble(asset, Some(refused.to_string()));
                        return None;
                    }
                },
                Decision::Replace { cancel, .. } => {
                    for slot in cancel {
                        if let Some(no) = self.run_of_slot(asset, slot) {
                            self.replace_run(now, no, "the next slot of its schedule", out);
                        }
                    }
                    return None;
                }
                _ => return None,
            }
        }
    }

    /// What a planted bug makes of a decision. Without one: what was decided.
    fn misled(&self, asset: &AssetId, decision: Decision) -> Option<Decision> {
        let counts = self.schedules.get(asset)?.record().counts;
        let stops = counts.late > 0 && self.planted(Bug::DeadlineStopsSchedule)
            || counts.forbidden > 0 && self.planted(Bug::ForbidStopsSchedule);
        match decision {
            _ if stops => None,
            Decision::Replace { slot, .. } if self.planted(Bug::ReplaceOverlaps) => {
                Some(Decision::Start { slot })
            }
            decision => Some(decision),
        }
    }

    /// Forgets which slots have started, as a planted bug does when the wall clock is set back.
    fn forget_slots(&mut self, now: Timestamp) {
        for (_, schedule) in self.schedules.each() {
            if let Ok(new) = Schedule::new(schedule.record().wanted.clone(), now) {
                *schedule = new;
            }
        }
    }

    /// Starts the execution of a slot that is due. Returns whether it has ended already.
    fn start_slot_itself(
        &mut self,
        now: Now,
        asset: &AssetId,
        slot: Timestamp,
        out: &mut Effects,
    ) -> Result<bool, NoStart> {
        let cause = StartCause::Slot {
            schedule: asset.clone(),
            at: slot,
        };
        let by = By::new("control plane", cause.to_string());
        let begun = self.start_slot(now, asset, slot, &by, out)?;
        Ok(begun.outcome.is_some())
    }

    /// Starts the execution of a slot.
    fn start_slot(
        &mut self,
        now: Now,
        asset: &AssetId,
        slot: Timestamp,
        by: &By,
        out: &mut Effects,
    ) -> Result<Begun, NoStart> {
        let operated = self.schedules.operated(asset).map_err(NoStart::Broken)?;
        let cause = StartCause::Slot {
            schedule: asset.clone(),
            at: slot,
        };
        let mut key = key(asset, slot);
        if self.planted(Bug::SlotFromWallOnly) {
            key = format!("{key} {}", self.random());
        }
        let history = self.schedules.get(asset);
        let history = history.map(|it| it.record().wanted.history);
        let run = Run {
            operated,
            history: history.unwrap_or_default(),
            key: key.into(),
            cause,
            chain: Vec::new(),
            changed: None,
        };
        self.start_run(now, asset, run, by, out)
    }

    /// The live execution of a slot.
    fn run_of_slot(&self, asset: &AssetId, slot: Timestamp) -> Option<ExecutionNo> {
        self.run_of(asset, &key(asset, slot))
    }

    /// Takes a word for a schedule.
    pub(super) fn said_of_schedule(
        &mut self,
        now: Now,
        asset: &AssetId,
        word: ScheduleWord,
        by: &By,
        out: &mut Effects,
    ) -> Result<Reply, Refused> {
        if word == ScheduleWord::Run {
            return self.run_now(now, asset, by, out);
        }
        let asset = asset.clone();
        match self.schedules.said(&asset, word, by, now.wall) {
            None => return Err(Refused::NoSchedule(asset)),
            Some(Err(why)) => {
                let why = why.into();
                return Err(Refused::Schedule { asset, word, why });
            }
            Some(Ok(())) => out.records.push(said(&asset, now.wall, word, by)),
        }
        out.urgent = true;
        Ok(Reply::Taken)
    }

    /// Starts a run of a schedule because an operator asks for it. Its slots stay as they are; the run counts as one that is
    /// live.
    fn run_now(
        &mut self,
        now: Now,
        asset: &AssetId,
        by: &By,
        out: &mut Effects,
    ) -> Result<Reply, Refused> {
        let Some(schedule) = self.schedules.get(asset) else {
            return Err(Refused::NoSchedule(asset.clone()));
        };
        let refused = |why: &str| Refused::Schedule {
            asset: asset.clone(),
            word: ScheduleWord::Run,
            why: why.to_owned().into(),
        };
        let record = schedule.record();
        if record.paused.is_some() {
            return Err(refused("it is paused; resume it first"));
        }
        let alone = record.wanted.concurrency != Concurrency::Allow;
        if alone && !record.running.is_empty() {
            let why = "a run of it is live; wait for its end, or cancel it first";
            return Err(refused(why));
        }
        let at = now.wall;
        if self.run_of_slot(asset, at).is_some() {
            return Err(refused("the slot of this moment has just started"));
        }
        let started = match self.start_slot(now, asset, at, by, out) {
            Ok(started) => started,
            Err(NoStart::Full) => return Err(Refused::TooMany(self.live.len())),
            Err(NoStart::Loop(refused)) => return Err(refused),
            Err(NoStart::Broken(why)) => return Err(refused(&why)),
        };
        if started.outcome.is_none() {
            self.schedules.revived(asset, at);
        }
        out.records
            .push(said(asset, now.wall, ScheduleWord::Run, by));
        out.urgent = true;
        Ok(Reply::Started {
            id: started.id,
            new: true,
            outcome: started.outcome,
        })
    }

    /// All schedules, sorted by asset.
    pub(super) fn show_schedules(&self, now: Now) -> Vec<view::ScheduleState> {
        let mut all = self.schedules.all_shown(now.wall);
        for shown in &mut all {
            let slots = self.schedules.running(&shown.asset);
            let runs = slots
                .iter()
                .filter_map(|slot| self.run_of_slot(&shown.asset, *slot));
            shown.running = runs
                .filter_map(|no| Some(self.live.get(&no)?.id.clone()))
                .collect();
        }
        all
    }
}

/// The key of the execution of a slot.
fn key(asset: &AssetId, slot: Timestamp) -> String {
    format!("{asset}@{slot}")
}
