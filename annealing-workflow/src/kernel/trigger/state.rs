//! The triggers of one kind, and when to look at each.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use plugin_sdk::{By, Mono, Now};
use prodspec_model::{AssetId, operation::Operation};

use super::super::intended::ScheduleWord;
use crate::{operation::Operated, record::Paused};

/// Longest time without a look at the wall clock, which may have been set.
const LOOK: Duration = Duration::from_secs(60);

/// How much the wall clock may fall behind the monotonic one between two looks before it counts as set back.
const DRIFT: SignedDuration = SignedDuration::from_secs(1);

/// A schedule or a watch.
pub(in crate::kernel) trait Trigger {
    /// What its asset wants.
    type Wanted;

    /// What a run performs.
    fn operation(&self) -> Result<Operation, serde_json::Error>;

    /// When to decide again if nothing else happens, seen from the time of the last decision.
    fn next_wake(&mut self, now: Timestamp) -> Option<Timestamp>;

    /// The asset has left intent.
    fn left(&mut self, now: Timestamp);

    fn pause(&mut self, by: By, now: Timestamp);

    fn resume(&mut self, now: Timestamp);

    fn paused(&self) -> Option<&Paused>;

    /// Time at which the asset left intent.
    fn orphan(&self) -> Option<Timestamp>;
}

/// All triggers of one kind, by the assets that have them.
#[derive(Debug)]
pub(in crate::kernel) struct Triggers<T> {
    all: BTreeMap<AssetId, Entry<T>>,
    /// Assets in intent whose content cannot be used, with the reason. A trigger of such an asset keeps to its last one.
    refused: BTreeMap<AssetId, String>,
    /// By wall time, when to decide.
    agenda: BTreeSet<(Timestamp, AssetId)>,
    /// Those to decide about in this step.
    due: BTreeSet<AssetId>,
    /// Those whose records may have changed in this step.
    touched: BTreeSet<AssetId>,
    /// Those that have stopped in this step.
    stopped: BTreeMap<AssetId, T>,
    /// Whether intent is known. Nothing starts before that.
    told: bool,
    /// Time of the last look.
    seen: Option<Now>,
}

#[derive(Debug)]
struct Entry<T> {
    trigger: T,
    /// What a run performs. `None`: it was not needed yet.
    operated: Option<Operated>,
    /// Why a run could not start.
    trouble: Option<String>,
    /// Its entry in the agenda.
    at: Option<Timestamp>,
}

impl<T> Default for Triggers<T> {
    fn default() -> Self {
        Self {
            all: BTreeMap::new(),
            refused: BTreeMap::new(),
            agenda: BTreeSet::new(),
            due: BTreeSet::new(),
            touched: BTreeSet::new(),
            stopped: BTreeMap::new(),
            told: false,
            seen: None,
        }
    }
}

/// What is to be written of a trigger.
pub(in crate::kernel) enum Touched<'t, T> {
    /// It may have changed.
    Trigger(&'t mut T),
    /// It has stopped.
    Stopped(T),
}

impl<T: Trigger> Triggers<T> {
    /// Goes on with a stored trigger. `Err`: its record cannot be used.
    pub(in crate::kernel) fn restore(&mut self, asset: AssetId, trigger: Result<T, String>) {
        match trigger {
            Ok(trigger) => self.insert(asset, trigger),
            Err(why) => drop(self.refused.insert(asset, why)),
        }
    }

    fn insert(&mut self, asset: AssetId, trigger: T) {
        self.touched.insert(asset.clone());
        let entry = Entry {
            trigger,
            operated: None,
            trouble: None,
            at: None,
        };
        self.all.insert(asset, entry);
    }

    /// All triggers of intent are `wanted`: the others have left it.
    pub(in crate::kernel) fn told(
        &mut self,
        wanted: &BTreeMap<AssetId, Option<T::Wanted>>,
        now: Timestamp,
    ) {
        self.told = true;
        self.refused.retain(|asset, _| wanted.contains_key(asset));
        let known = self.all.keys();
        let gone = known.filter(|asset| !wanted.contains_key(*asset));
        let gone: Vec<AssetId> = gone.cloned().collect();
        gone.iter().for_each(|asset| self.left(asset, now));
        self.due.extend(self.all.keys().cloned());
    }

    /// Takes the content of an asset: makes a trigger of it, or edits the one that is there.
    pub(in crate::kernel) fn take(
        &mut self,
        asset: AssetId,
        make: impl FnOnce(Option<&mut T>) -> Result<Option<T>, String>,
    ) {
        let known = self.all.get_mut(&asset);
        match make(known.map(|known| &mut known.trigger)) {
            Ok(new) => {
                self.refused.remove(&asset);
                if let Some(new) = new {
                    self.insert(asset.clone(), new);
                }
                if let Some(known) = self.all.get_mut(&asset) {
                    known.operated = None;
                    known.trouble = None;
                }
            }
            Err(why) => drop(self.refused.insert(asset.clone(), why)),
        }
        self.touched.insert(asset.clone());
        self.due.insert(asset);
    }

    /// An asset has left intent. Its trigger goes on as an orphan.
    pub(in crate::kernel) fn left(&mut self, asset: &AssetId, now: Timestamp) {
        self.refused.remove(asset);
        if let Some(trigger) = self.change(asset) {
            trigger.left(now);
        }
    }

    /// Looks at the clocks: which triggers are due. All are if the wall clock was set back. Returns whether it was.
    pub(in crate::kernel) fn look(&mut self, now: Now) -> bool {
        if !self.told {
            return false;
        }
        let mut set_back = false;
        if let Some(seen) = self.seen.replace(now) {
            let passed = SignedDuration::try_from(now.mono.since(seen.mono)).unwrap_or_default();
            if now.wall.duration_since(seen.wall) + DRIFT < passed {
                self.due.extend(self.all.keys().cloned());
                set_back = true;
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
        set_back
    }

    /// The next trigger to decide about.
    pub(in crate::kernel) fn next_due(&mut self) -> Option<AssetId> {
        match self.told {
            true => self.due.pop_first(),
            false => None,
        }
    }

    /// The trigger of an asset.
    pub(in crate::kernel) fn get(&self, asset: &AssetId) -> Option<&T> {
        self.all.get(asset).map(|known| &known.trigger)
    }

    /// The trigger of an asset, to change it: its record is looked at in this step.
    pub(in crate::kernel) fn change(&mut self, asset: &AssetId) -> Option<&mut T> {
        let known = self.all.get_mut(asset)?;
        self.touched.insert(asset.clone());
        Some(&mut known.trigger)
    }

    /// The trigger of an asset, to change it in a way that asks for a decision.
    pub(in crate::kernel) fn decide_about(&mut self, asset: &AssetId) -> Option<&mut T> {
        if self.all.contains_key(asset) {
            self.due.insert(asset.clone());
        }
        self.change(asset)
    }

    /// All triggers, each to be decided about.
    pub(in crate::kernel) fn each(&mut self) -> impl Iterator<Item = (&AssetId, &mut T)> {
        let all = self.all.iter_mut();
        all.map(|(asset, known)| {
            self.touched.insert(asset.clone());
            self.due.insert(asset.clone());
            (asset, &mut known.trigger)
        })
    }

    /// All triggers.
    pub(in crate::kernel) fn iter(&self) -> impl Iterator<Item = (&AssetId, &T)> {
        let all = self.all.iter();
        all.map(|(asset, known)| (asset, &known.trigger))
    }

    /// What a run performs.
    pub(in crate::kernel) fn operated(&mut self, asset: &AssetId) -> Result<Operated, String> {
        let known = self.all.get_mut(asset);
        let known = known.ok_or_else(|| "its asset is not there any more".to_owned())?;
        match &known.operated {
            Some(operated) => Ok(operated.clone()),
            None => {
                let operated = super::operated(asset, known.trigger.operation())?;
                Ok(known.operated.insert(operated).clone())
            }
        }
    }

    /// Why runs of an asset cannot start, or that they can.
    pub(in crate::kernel) fn trouble(&mut self, asset: &AssetId, why: Option<String>) {
        if let Some(known) = self.all.get_mut(asset) {
            known.trouble = why;
        }
    }

    /// Enters when to decide again: when the trigger says so, or after `again` if that is sooner.
    pub(in crate::kernel) fn decided(
        &mut self,
        asset: &AssetId,
        now: Now,
        again: Option<Duration>,
    ) {
        let Some(known) = self.all.get_mut(asset) else {
            return;
        };
        let again = again.and_then(|time| now.wall.checked_add(time).ok());
        let wake = known.trigger.next_wake(now.wall);
        let at = wake.into_iter().chain(again).min();
        if let Some(before) = std::mem::replace(&mut known.at, at) {
            self.agenda.remove(&(before, asset.clone()));
        }
        self.agenda.extend(at.map(|at| (at, asset.clone())));
    }

    /// When the kernel needs a tick for a trigger: at its time, and once a minute to look at the wall clock.
    pub(in crate::kernel) fn next_wake(&self) -> Option<Mono> {
        let (seen, (at, _)) = (self.seen?, self.agenda.first()?);
        let wait = Duration::try_from(at.duration_since(seen.wall)).unwrap_or_default();
        Some(seen.mono + wait.min(LOOK))
    }

    /// Takes a word. `Err`: it does not fit, and why. `None`: the asset has no such trigger.
    pub(in crate::kernel) fn said(
        &mut self,
        asset: &AssetId,
        word: ScheduleWord,
        by: &By,
        now: Timestamp,
    ) -> Option<Result<(), &'static str>> {
        let known = &mut self.all.get_mut(asset)?.trigger;
        let why = match word {
            ScheduleWord::Pause if known.paused().is_some() => Some("it is paused already"),
            ScheduleWord::Resume if known.paused().is_none() => Some("it is not paused"),
            ScheduleWord::Run => Some("it runs when assets change; start its operation instead"),
            ScheduleWord::Acknowledge if known.orphan().is_none() => {
                Some("its asset is in intent; remove it there first, or pause it")
            }
            _ => None,
        };
        if let Some(why) = why {
            return Some(Err(why));
        }
        match word {
            ScheduleWord::Pause => known.pause(by.clone(), now),
            ScheduleWord::Resume => known.resume(now),
            // Refused before.
            ScheduleWord::Run => {}
            ScheduleWord::Acknowledge => {
                self.stop(asset);
                return Some(Ok(()));
            }
        }
        self.touched.insert(asset.clone());
        self.due.insert(asset.clone());
        Some(Ok(()))
    }

    /// Stops the trigger of an asset. What runs goes on until it ends. `false`: it has none.
    pub(in crate::kernel) fn stop(&mut self, asset: &AssetId) -> bool {
        self.refused.remove(asset);
        let Some(stopped) = self.all.remove(asset) else {
            return false;
        };
        let at = stopped.at.map(|at| (at, asset.clone()));
        at.map(|at| self.agenda.remove(&at));
        self.due.remove(asset);
        self.stopped.insert(asset.clone(), stopped.trigger);
        true
    }

    /// Hands out the triggers whose records may have changed since the last call.
    pub(in crate::kernel) fn written(&mut self, mut write: impl FnMut(AssetId, Touched<'_, T>)) {
        for (asset, stopped) in std::mem::take(&mut self.stopped) {
            write(asset, Touched::Stopped(stopped));
        }
        for asset in std::mem::take(&mut self.touched) {
            if let Some(known) = self.all.get_mut(&asset) {
                write(asset, Touched::Trigger(&mut known.trigger));
            }
        }
    }

    /// All triggers, with the reason why their runs cannot start, and the assets whose content cannot be used at all.
    pub(in crate::kernel) fn shown<V>(
        &self,
        of: impl Fn(&AssetId, &T, Option<String>) -> V,
        refused: impl Fn(&AssetId, &str) -> V,
    ) -> Vec<V> {
        let known = self.all.iter().map(|(asset, known)| {
            let trouble = self.refused.get(asset).or(known.trouble.as_ref()).cloned();
            (asset, of(asset, &known.trigger, trouble))
        });
        let others = self.refused.iter();
        let others = others.filter(|(asset, _)| !self.all.contains_key(*asset));
        let others = others.map(|(asset, why)| (asset, refused(asset, why)));
        let mut all: Vec<_> = known.chain(others).collect();
        all.sort_by_key(|(asset, _)| *asset);
        all.into_iter().map(|(_, shown)| shown).collect()
    }
}
