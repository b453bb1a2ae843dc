//! The schedules of a lane, and when to look at each.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use control_plane_store::records::By;
use jiff::{SignedDuration, Timestamp};
use plugin_sdk::{Mono, Now};
use prodspec_model::AssetId;

use super::super::{
    event::{Effects, Record, Refused},
    intended::ScheduleWord,
};
use crate::{
    cron::{Decision, Schedule, ScheduleRecord, Wanted},
    operation::Operated,
    view,
};

/// Longest time without a look at the wall clock, which may have been set.
const LOOK: Duration = Duration::from_secs(60);

/// How much the wall clock may fall behind the monotonic one between two looks before it counts as set back.
const DRIFT: SignedDuration = SignedDuration::from_secs(1);

/// All schedules of a lane.
#[derive(Debug, Default)]
pub(in crate::kernel) struct Schedules {
    all: BTreeMap<AssetId, Scheduled>,
    /// Assets in intent whose content cannot be used, with the reason. A schedule of such an asset keeps to its last one.
    refused: BTreeMap<AssetId, String>,
    /// By wall time, when to decide.
    agenda: BTreeSet<(Timestamp, AssetId)>,
    /// Those to decide about in this step.
    due: BTreeSet<AssetId>,
    /// Those whose records may have changed in this step. One that has stopped is in it and not in `all`.
    touched: BTreeSet<AssetId>,
    /// Whether intent is known. Nothing starts before that.
    told: bool,
    /// Time of the last look.
    seen: Option<Now>,
}

/// One schedule.
#[derive(Debug)]
struct Scheduled {
    schedule: Schedule,
    /// What a slot runs. `None`: it was not needed yet.
    operated: Option<Operated>,
    /// Why a slot could not start.
    trouble: Option<String>,
    /// Its entry in the agenda.
    at: Option<Timestamp>,
}

impl Scheduled {
    fn new(schedule: Schedule) -> Self {
        Self {
            schedule,
            operated: None,
            trouble: None,
            at: None,
        }
    }
}

impl Schedules {
    pub(super) fn restore(&mut self, asset: AssetId, record: ScheduleRecord, gone: Vec<Timestamp>) {
        match Schedule::restore(record) {
            Ok(mut schedule) => {
                gone.into_iter().for_each(|slot| schedule.ended(slot));
                self.touched.insert(asset.clone());
                self.all.insert(asset, Scheduled::new(schedule));
            }
            Err(error) => drop(self.refused.insert(asset, error.to_string())),
        }
    }

    /// Intent is known. If these schedules are all there are, the others have left.
    pub(super) fn told(
        &mut self,
        all: bool,
        wanted: &BTreeMap<AssetId, Option<Wanted>>,
        now: Timestamp,
    ) {
        if all {
            self.told = true;
            self.refused.retain(|asset, _| wanted.contains_key(asset));
            let gone: Vec<AssetId> = self
                .all
                .keys()
                .filter(|asset| !wanted.contains_key(*asset))
                .cloned()
                .collect();
            gone.iter().for_each(|asset| self.left(asset, now));
            self.due.extend(self.all.keys().cloned());
        }
    }

    /// Takes the content of an asset.
    pub(super) fn take(&mut self, asset: AssetId, wanted: Wanted, now: Timestamp) {
        let taken = match self.all.get_mut(&asset) {
            Some(known) => known.schedule.edited(wanted, now).map(|()| {
                known.operated = None;
                known.trouble = None;
            }),
            None => Schedule::new(wanted, now).map(|schedule| {
                self.all.insert(asset.clone(), Scheduled::new(schedule));
            }),
        };
        match taken {
            Ok(()) => drop(self.refused.remove(&asset)),
            Err(error) => drop(self.refused.insert(asset.clone(), error.to_string())),
        }
        self.touched.insert(asset.clone());
        self.due.insert(asset);
    }

    /// An asset has left intent. Its schedule goes on as an orphan.
    pub(super) fn left(&mut self, asset: &AssetId, now: Timestamp) {
        self.refused.remove(asset);
        if let Some(known) = self.all.get_mut(asset) {
            known.schedule.left(now);
            self.touched.insert(asset.clone());
        }
    }

    /// Looks at the clocks: which schedules are due. All are if the wall clock was set back.
    pub(super) fn look(&mut self, now: Now) {
        if !self.told {
            return;
        }
        if let Some(seen) = self.seen.replace(now) {
            let passed = SignedDuration::try_from(now.mono.since(seen.mono)).unwrap_or_default();
            if now.wall.duration_since(seen.wall) + DRIFT < passed {
                self.due.extend(self.all.keys().cloned());
            }
        }
        while let Some((at, asset)) = self.agenda.first()
            && *at <= now.wall
        {
            let entry = (*at, asset.clone());
            self.agenda.remove(&entry);
            if let Some(known) = self.all.get_mut(&entry.1) {
                known.at = None;
            }
            self.due.insert(entry.1);
        }
    }

    /// The next schedule to decide about.
    pub(super) fn next_due(&mut self) -> Option<AssetId> {
        match self.told {
            true => self.due.pop_first(),
            false => None,
        }
    }

    pub(super) fn decide(&mut self, asset: &AssetId, now: Timestamp) -> Option<Decision> {
        let known = self.all.get_mut(asset)?;
        self.touched.insert(asset.clone());
        Some(known.schedule.decide(now))
    }

    /// What a slot runs.
    pub(super) fn operated(&mut self, asset: &AssetId) -> Result<Operated, String> {
        let known = self.all.get_mut(asset);
        let known = known.ok_or_else(|| "the schedule has stopped".to_owned())?;
        match &known.operated {
            Some(operated) => Ok(operated.clone()),
            None => {
                let operated = super::operated(asset, known.schedule.record())?;
                Ok(known.operated.insert(operated).clone())
            }
        }
    }

    /// A slot starts in this step. `over`: its execution has ended before.
    pub(super) fn started(&mut self, asset: &AssetId, slot: Timestamp, now: Timestamp, over: bool) {
        if let Some(known) = self.all.get_mut(asset) {
            known.trouble = None;
            known.schedule.started(slot, now);
            if over {
                known.schedule.ended(slot);
            }
        }
    }

    pub(super) fn broken(&mut self, asset: &AssetId, why: String) {
        if let Some(known) = self.all.get_mut(asset) {
            known.trouble = Some(why);
        }
    }

    /// The execution of a slot has ended.
    pub(in crate::kernel) fn ended(&mut self, asset: &AssetId, slot: Timestamp) {
        if let Some(known) = self.all.get_mut(asset) {
            known.schedule.ended(slot);
            self.touched.insert(asset.clone());
            self.due.insert(asset.clone());
        }
    }

    /// The ended execution of a slot is live again.
    pub(in crate::kernel) fn revived(&mut self, asset: &AssetId, slot: Timestamp) {
        if let Some(known) = self.all.get_mut(asset) {
            known.schedule.revived(slot);
            self.touched.insert(asset.clone());
        }
    }

    /// Enters when to decide again: when the schedule says so, or after `again` if that is sooner.
    pub(super) fn decided(&mut self, asset: &AssetId, now: Now, again: Option<Duration>) {
        let Some(known) = self.all.get_mut(asset) else {
            return;
        };
        let again = again.and_then(|time| now.wall.checked_add(time).ok());
        let wake = known.schedule.next_wake(now.wall);
        let at = wake.into_iter().chain(again).min();
        if let Some(before) = std::mem::replace(&mut known.at, at) {
            self.agenda.remove(&(before, asset.clone()));
        }
        self.agenda.extend(at.map(|at| (at, asset.clone())));
    }

    /// When the kernel needs a tick for a schedule: at its time, and once a minute to look at the wall clock.
    pub(in crate::kernel) fn next_wake(&self) -> Option<Mono> {
        let (seen, (at, _)) = (self.seen?, self.agenda.first()?);
        let wait = Duration::try_from(at.duration_since(seen.wall)).unwrap_or_default();
        Some(seen.mono + wait.min(LOOK))
    }

    /// Takes a word.
    pub(super) fn said(
        &mut self,
        asset: &AssetId,
        word: ScheduleWord,
        by: &By,
        now: Timestamp,
    ) -> Result<(), Refused> {
        let known = self.all.get_mut(asset);
        let known = known.ok_or_else(|| Refused::NoSchedule(asset.clone()))?;
        let record = known.schedule.record();
        let why = match word {
            ScheduleWord::Pause if record.paused.is_some() => Some("it is paused already"),
            ScheduleWord::Resume if record.paused.is_none() => Some("it is not paused"),
            ScheduleWord::Acknowledge if record.orphan.is_none() => {
                Some("its asset is in intent; remove it there first, or pause the schedule")
            }
            _ => None,
        };
        if let Some(why) = why {
            let asset = asset.clone();
            return Err(Refused::Schedule { asset, word, why });
        }
        match word {
            ScheduleWord::Pause => known.schedule.paused(by.clone(), now),
            ScheduleWord::Resume => known.schedule.resumed(now),
            ScheduleWord::Acknowledge => {
                if let Some(stopped) = self.all.remove(asset)
                    && let Some(at) = stopped.at
                {
                    self.agenda.remove(&(at, asset.clone()));
                }
            }
        }
        self.touched.insert(asset.clone());
        self.due.insert(asset.clone());
        Ok(())
    }

    /// Writes the records that have changed.
    pub(in crate::kernel) fn write(&mut self, out: &mut Effects) {
        for asset in std::mem::take(&mut self.touched) {
            match self.all.get_mut(&asset) {
                Some(known) => {
                    if let Some(record) = known.schedule.take_changed() {
                        let record = Some(Box::new(record.clone()));
                        out.records.push(Record::Schedule(asset, record));
                    }
                }
                None if self.refused.contains_key(&asset) => {}
                None => out.records.push(Record::Schedule(asset, None)),
            }
        }
    }

    pub(super) fn running(&self, asset: &AssetId) -> &[Timestamp] {
        let known = self.all.get(asset);
        known.map_or(&[], |known| &known.schedule.record().running)
    }

    /// All schedules, without their executions.
    pub(super) fn shown(&self, now: Timestamp) -> Vec<view::ScheduleState> {
        let known = self.all.iter().map(|(asset, known)| {
            let record = known.schedule.record();
            view::ScheduleState {
                asset: asset.clone(),
                cron: record.wanted.cron.clone(),
                zone: record.wanted.zone.clone(),
                open: known.schedule.open_slot(now),
                next: known.schedule.next_slot(now),
                running: Vec::new(),
                counts: record.counts,
                paused: record.paused.clone(),
                orphan: record.orphan,
                trouble: self.refused.get(asset).or(known.trouble.as_ref()).cloned(),
            }
        });
        let mut all: Vec<_> = known.collect();
        let others = self
            .refused
            .iter()
            .filter(|(asset, _)| !self.all.contains_key(*asset));
        all.extend(others.map(|(asset, why)| view::ScheduleState::refused(asset, why)));
        all.sort_by(|one, other| one.asset.cmp(&other.asset));
        all
    }
}
