//! The state of one watch on status.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use prodspec_model::AssetId;

use super::{
    record::{Changed, Progress, WatchedRecord},
    runs::{Limits, Runs},
};

/// One watch on status: a run starts each time the condition of an asset has held for some time, and not again until it
/// was over. What a run starts for is stored in its commit, so that neither restarts nor takeovers repeat it.
///
/// Times are the caller's, all of one clock. Since when a condition holds is not stored: tell it again after a restart,
/// for each asset of the watch, those included whose condition does not hold. A condition that was over and came back
/// while no owner looked is the same one.
///
/// ```
/// use annealing_workflow::watch::{Limits, StatusWatch};
/// use jiff::{SignedDuration, Timestamp, ToSpan};
/// use prodspec_model::{AssetId, operation::{Concurrency, Per}};
///
/// let limits = Limits { per: Per::Asset, concurrency: Concurrency::Forbid, at_most: 4 };
/// let mut watch = StatusWatch::new(limits, SignedDuration::from_secs(60));
/// let (job, noon) = (AssetId::new("job/eu")?, "2026-01-01T12:00Z".parse::<Timestamp>()?);
///
/// watch.holds(&job, noon); // unhealthy
/// assert_eq!(watch.next_wake(noon), Some(noon + 1.minute()));
/// assert!(watch.starts(noon + 59.seconds()).is_empty());
/// assert_eq!(watch.starts(noon + 1.minute()), [[job.clone()]]);
/// let run = watch.started(&[job.clone()]);
/// watch.ended(run);
/// assert!(watch.starts(noon + 1.hour()).is_empty()); // still unhealthy: it had its run
/// watch.is_over(&job); // and armed again
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct StatusWatch {
    held_for: SignedDuration,
    progress: Progress,
    assets: BTreeMap<AssetId, WatchedRecord>,
    /// Since when the conditions hold that have not had their run.
    holding: BTreeMap<AssetId, Timestamp>,
    /// Assets by the time at which their condition has held long enough, and live runs.
    runs: Runs<Timestamp>,
    changed: BTreeSet<AssetId>,
    is_new: bool,
}

impl StatusWatch {
    /// Creates a watch that was seen for the first time. Name the assets whose condition holds already with
    /// [`had_its_run`](Self::had_its_run), unless they are to start.
    pub fn new(limits: Limits, held_for: SignedDuration) -> Self {
        let mut watch = Self::restore(limits, held_for, Progress::default(), []);
        watch.is_new = true;
        watch
    }

    /// Continues from the stored records of the last owner. Its live runs count towards `limits`.
    pub fn restore(
        limits: Limits,
        held_for: SignedDuration,
        progress: Progress,
        assets: impl IntoIterator<Item = (AssetId, WatchedRecord)>,
    ) -> Self {
        let mut runs = Runs::new(limits);
        let assets: BTreeMap<AssetId, WatchedRecord> = assets.into_iter().collect();
        for (id, watched) in &assets {
            for run in &watched.running {
                runs.start(*run, id);
            }
        }
        Self {
            held_for,
            progress,
            assets,
            holding: BTreeMap::new(),
            runs,
            changed: BTreeSet::new(),
            is_new: false,
        }
    }

    /// Notes that the condition of an asset holds since `since`. While it holds, the earliest time counts.
    pub fn holds(&mut self, asset: &AssetId, since: Timestamp) {
        if self.assets.get(asset).is_some_and(|it| it.fired) {
            return;
        }
        let earlier = self.holding.get(asset).copied();
        self.hold(asset, Some(earlier.map_or(since, |at| at.min(since))));
    }

    /// Whether the condition of an asset holds and has not had its run.
    pub fn is_holding(&self, asset: &AssetId) -> bool {
        self.holding.contains_key(asset)
    }

    /// Notes that the condition of an asset does not hold. A run that has not started for it will not.
    pub fn is_over(&mut self, asset: &AssetId) {
        self.hold(asset, None);
        if self.assets.get(asset).is_some_and(|it| it.fired) {
            self.update(asset, |watched| watched.fired = false);
        }
    }

    /// Notes that the condition of an asset holds and starts nothing until it was over: it was there before the watch,
    /// or before an edit of it.
    pub fn had_its_run(&mut self, asset: &AssetId) {
        self.hold(asset, None);
        self.update(asset, |watched| watched.fired = true);
    }

    /// The runs that may start at `now`, each with its assets, the oldest condition first. Say so with
    /// [`started`](Self::started), in the commit that starts each.
    pub fn starts(&self, now: Timestamp) -> Vec<Vec<AssetId>> {
        self.runs.ready(now)
    }

    /// The runs to cancel at `now` under [`Concurrency::Replace`](prodspec_model::operation::Concurrency::Replace). Say so with
    /// [`replaced`](Self::replaced). They are the same each time, so leave out what is being cancelled already.
    pub fn cancels(&self, now: Timestamp) -> Vec<u64> {
        let due = |id: &AssetId| self.due(self.holding.get(id)).is_some_and(|at| at <= now);
        self.runs.cancels(now, due)
    }

    /// Notes that a run is cancelled in this commit, because others wait for its end. Its assets whose condition holds are
    /// in a next run: it may have done nothing.
    pub fn replaced(&mut self, run: u64, now: Timestamp) {
        let since = now.checked_sub(self.held_for).unwrap_or(Timestamp::MIN);
        let assets = self.assets.iter();
        let of_run = assets.filter(|(_, it)| it.running.contains(&run) && it.fired);
        let ids: Vec<AssetId> = of_run.map(|(id, _)| id.clone()).collect();
        for id in ids {
            self.update(&id, |watched| watched.fired = false);
            self.hold(&id, Some(since));
        }
    }

    /// The first time after `now` at which a condition has held long enough. `None`: none is about to.
    pub fn next_wake(&self, now: Timestamp) -> Option<Timestamp> {
        self.runs.next(now)
    }

    /// Notes that a run for `assets` starts in this commit. Returns its number.
    pub fn started(&mut self, assets: &[AssetId]) -> u64 {
        let run = self.progress.start();
        for id in assets {
            self.runs.start(run, id);
            self.hold(id, None);
            self.update(id, |watched| {
                watched.fired = true;
                watched.running.push(run);
            });
        }
        run
    }

    /// Notes that a run has ended in this commit, however it ended.
    pub fn ended(&mut self, run: u64) {
        for id in self.runs.end(run) {
            self.update(&id, |watched| watched.running.retain(|it| *it != run));
        }
    }

    /// Notes that the ended run is live again, for these assets: an operator restarted a step of it.
    pub fn revived(&mut self, run: u64, assets: &[AssetId]) {
        for id in assets {
            let live = self
                .assets
                .get(id)
                .is_some_and(|it| it.running.contains(&run));
            if !live {
                self.runs.start(run, id);
                self.update(id, |watched| watched.running.push(run));
            }
        }
    }

    /// Takes edited limits and an edited time, which hold from now on.
    pub fn edited(&mut self, limits: Limits, held_for: SignedDuration) {
        self.runs.limits = limits;
        for (id, since) in std::mem::take(&mut self.holding) {
            let before = self.due(Some(&since));
            self.runs
                .wait(&id, before, since.checked_add(held_for).ok());
            self.holding.insert(id, since);
        }
        self.held_for = held_for;
    }

    /// The selection or the conditions were edited: what has held so far starts nothing.
    pub fn selects_anew(&mut self) {
        for id in std::mem::take(&mut self.holding).into_keys() {
            self.runs.forget(&id);
        }
    }

    /// The assets whose condition holds and has not had its run, the oldest first.
    pub fn waiting(&self) -> impl Iterator<Item = &AssetId> {
        self.runs.waiting()
    }

    /// The same assets, each with the time at which its condition has held long enough: its run may start then.
    pub fn holding(&self) -> impl Iterator<Item = (Timestamp, &AssetId)> {
        self.runs.waiting_from()
    }

    /// What is known of the assets.
    pub fn assets(&self) -> &BTreeMap<AssetId, WatchedRecord> {
        &self.assets
    }

    /// How far the watch has come, for readers.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// What has changed since the last call, to be stored in this commit. `None`: nothing has.
    pub fn take_changed(&mut self) -> Option<Changed<'_>> {
        let ids = std::mem::take(&mut self.changed);
        if ids.is_empty() && !std::mem::take(&mut self.is_new) {
            return None;
        }
        self.is_new = false;
        Some(Changed::new(&self.progress, ids, &self.assets))
    }

    /// Sets since when the condition of an asset without run holds.
    fn hold(&mut self, asset: &AssetId, since: Option<Timestamp>) {
        let before = match since {
            Some(since) => self.holding.insert(asset.clone(), since),
            None => self.holding.remove(asset),
        };
        let (before, due) = (self.due(before.as_ref()), self.due(since.as_ref()));
        self.runs.wait(asset, before, due);
    }

    fn due(&self, since: Option<&Timestamp>) -> Option<Timestamp> {
        since?.checked_add(self.held_for).ok()
    }

    fn update(&mut self, id: &AssetId, change: impl FnOnce(&mut WatchedRecord)) {
        let watched = self.assets.entry(id.clone()).or_default();
        change(watched);
        if watched.is_idle() {
            self.assets.remove(id);
        }
        self.changed.insert(id.clone());
    }
}
