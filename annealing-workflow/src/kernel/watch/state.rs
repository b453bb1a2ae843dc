//! The watches of a lane, and the assets that they follow.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::{SignedDuration, Timestamp};
use plugin_sdk::{Follow, Mono, Standing};
use prodspec_model::{
    AssetId, Incarnation, IncarnationNo, operation::Watch as On, snapshot::Change,
};

use super::{
    super::{
        event::{Effects, Record},
        trigger::{Touched, Triggers},
    },
    members,
    trigger::{Kind, Watch, Written},
};
use crate::{
    view,
    watch::{Made, Wanted},
};

/// Maximum number of waiting assets that are shown of a watch.
const SHOWN: usize = 100;

/// The changes from older incarnations to the newest one, each computed once.
pub(super) type Differences = BTreeMap<IncarnationNo, Arc<[(AssetId, Change)]>>;

/// All watches of a lane.
#[derive(Debug, Default)]
pub(in crate::kernel) struct Watches {
    pub(super) triggers: Triggers<Watch>,
    pub(super) newest: Option<Incarnation>,
    /// The watches that follow each asset.
    followers: BTreeMap<AssetId, BTreeSet<AssetId>>,
    /// The watches that follow assets.
    following: BTreeSet<AssetId>,
    /// The assets to follow, or not any more, from this step on.
    follow: Vec<Follow>,
}

impl Watches {
    /// A newer incarnation is in force.
    pub(in crate::kernel) fn took(&mut self, incarnation: Incarnation) {
        if let Some(older) = self.newest.replace(incarnation) {
            for (_, watch) in self.triggers.each() {
                watch.behind.get_or_insert_with(|| older.clone());
            }
        }
    }

    /// Takes the content of an asset. `run`: the number of the first run, if the watch is new.
    pub(super) fn take(&mut self, asset: AssetId, wanted: Wanted, run: u64) {
        let newest = self.newest.clone();
        self.triggers.take(asset, |known| {
            let newest = newest.ok_or_else(|| "there is no incarnation yet".to_owned())?;
            match known {
                Some(known) => known.edited(wanted, &newest).map(|()| None),
                None => Watch::new(wanted, &newest, run).map(Some),
            }
        });
    }

    /// Lets a watch take the changes up to the newest incarnation.
    pub(super) fn catch_up(&mut self, asset: &AssetId, differences: &mut Differences) {
        let (Some(newest), Some(watch)) = (&self.newest, self.triggers.change(asset)) else {
            return;
        };
        if let Kind::Status(of_status, members) = &mut watch.kind
            && !members.is_listed()
        {
            members.list(newest.snapshot(), watch.wanted.on.filter());
            // Also those that left while no process owned the partition.
            let known = of_status.assets().keys().cloned();
            let gone: Vec<AssetId> = known.filter(|id| !members.contains(id)).collect();
            let gone = gone.into_iter().chain(members.gone());
            gone.for_each(|gone| of_status.is_over(&gone));
            watch.behind = None;
        }
        if let Some(behind) = watch.behind.take() {
            let changed = differences.entry(behind.no()).or_insert_with(|| {
                let changes = behind.snapshot().diff(newest.snapshot());
                let named = changes.into_iter().map(|change| (change.id(), change));
                named.collect()
            });
            watch.take_changes(changed, newest);
        }
        self.follow_members(asset);
    }

    /// Follows the assets of a watch on status, and those of one that is none any more no longer.
    fn follow_members(&mut self, asset: &AssetId) {
        let (came, left) = match self.triggers.change(asset).map(|watch| &mut watch.kind) {
            Some(Kind::Status(_, members)) => {
                self.following.insert(asset.clone());
                members.moved()
            }
            // Only a watch that was one on status before has followed anything.
            _ if !self.following.remove(asset) => return,
            _ => (BTreeSet::new(), self.followed_by(asset)),
        };
        for id in &came {
            let watches = self.followers.entry(id.clone()).or_default();
            watches.insert(asset.clone());
        }
        if !came.is_empty() {
            // The present standing of each is reported, if it was followed before, too.
            self.follow.push(Follow::Assets(came.into_iter().collect()));
        }
        for id in left {
            self.unfollow(asset, id);
        }
    }

    /// Drops changes of assets with a live run; see [`Bug::WatchDropsForbidden`](crate::kernel::Bug::WatchDropsForbidden).
    pub(super) fn drop_beside_runs(&mut self, asset: &AssetId) {
        if let Some(Kind::Intent(watch, _)) = self.triggers.change(asset).map(|it| &mut it.kind) {
            watch.drop_beside_runs();
        }
    }

    fn followed_by(&self, watch: &AssetId) -> BTreeSet<AssetId> {
        let followed = self.followers.iter();
        let followed = followed.filter(|(_, watches)| watches.contains(watch));
        followed.map(|(asset, _)| asset.clone()).collect()
    }

    fn unfollow(&mut self, watch: &AssetId, asset: AssetId) {
        if let Some(watches) = self.followers.get_mut(&asset) {
            watches.remove(watch);
            if watches.is_empty() {
                self.followers.remove(&asset);
                self.follow.push(Follow::Not(vec![asset]));
            }
        }
    }

    /// Takes the standing of an asset. `wall`: the clock of the standing. `steady`: that of watches, which is never set.
    pub(in crate::kernel) fn stands(
        &mut self,
        asset: &AssetId,
        standing: &Standing,
        wall: Timestamp,
        steady: Timestamp,
    ) {
        for follower in self.followers.get(asset).into_iter().flatten() {
            if let Some(watch) = self.triggers.decide_about(follower)
                && let (Kind::Status(of_status, members), On::Status(on)) =
                    (&mut watch.kind, &watch.wanted.on)
            {
                let age = members::age(&on.is, standing, wall);
                let since = age.map(|age| steady.checked_sub(age).unwrap_or(steady));
                members.stands(of_status, &on.is, asset, standing, since);
            }
        }
    }

    /// An execution has changed an asset, in the step in which that is stored. `watch`: the watch whose run it is. `sealed`:
    /// the newest incarnation then, as far as is known.
    pub(super) fn made(
        &mut self,
        change: &Change,
        watch: Option<&AssetId>,
        chain: &[String],
        sealed: IncarnationNo,
    ) {
        let newest = self.newest.as_ref().map(Incarnation::no);
        let at = newest.unwrap_or_default().max(sealed);
        let selecting = self.triggers.iter().filter_map(|(asset, known)| {
            let (before, after) = known.selects(change)?;
            let made = Made {
                before,
                after,
                own: watch == Some(asset),
                chain: chain.to_vec(),
                at,
            };
            Some((asset.clone(), made))
        });
        for (asset, made) in selecting.collect::<Vec<_>>() {
            if let Some(Kind::Intent(watch, _)) =
                self.triggers.change(&asset).map(|it| &mut it.kind)
            {
                watch.made(&change.id(), made);
            }
        }
    }

    /// An edit has ended, for which watches waited before they took changes.
    pub(in crate::kernel) fn look_again(&mut self) {
        let behind = self.triggers.iter();
        let behind = behind.filter(|(_, watch)| watch.behind.is_some());
        let behind: Vec<AssetId> = behind.map(|(asset, _)| asset.clone()).collect();
        for asset in behind {
            self.triggers.decide_about(&asset);
        }
    }

    /// When the kernel needs a tick for a watch.
    pub(in crate::kernel) fn next_wake(&self) -> Option<Mono> {
        self.triggers.next_wake()
    }

    /// The run with this key has ended.
    pub(in crate::kernel) fn ended(&mut self, asset: &AssetId, key: Option<&str>) {
        let run = key.and_then(super::run_of_key);
        if let (Some(run), Some(watch)) = (run, self.triggers.decide_about(asset)) {
            watch.ended(run);
        }
    }

    /// The ended run with this key is live again.
    pub(in crate::kernel) fn revived(&mut self, asset: &AssetId, key: &str, assets: &[AssetId]) {
        let run = super::run_of_key(key);
        if let (Some(run), Some(watch), Some(newest)) =
            (run, self.triggers.change(asset), &self.newest)
        {
            watch.revived(run, assets, newest);
        }
    }

    /// The incarnations that retention spares.
    pub(in crate::kernel) fn cited(&self) -> impl Iterator<Item = IncarnationNo> {
        self.triggers.iter().flat_map(|(_, watch)| watch.cited())
    }

    /// Writes the records that have changed, and says which assets to follow.
    pub(in crate::kernel) fn write(&mut self, out: &mut Effects) {
        let mut stopped = Vec::new();
        self.triggers.written(|asset, touched| match touched {
            Touched::Trigger(watch) => {
                let Some(Written { record, assets }) = watch.take_changed() else {
                    return;
                };
                for (of, watched) in assets {
                    let watched = watched.map(Box::new);
                    out.records
                        .push(Record::Watched(asset.clone(), of, watched));
                }
                let record = Some(Box::new(record));
                out.records.push(Record::Watch(asset, record));
            }
            Touched::Stopped(watch) => {
                for of in watch.recorded() {
                    out.records
                        .push(Record::Watched(asset.clone(), of.clone(), None));
                }
                out.records.push(Record::Watch(asset.clone(), None));
                stopped.push(asset);
            }
        });
        for watch in stopped {
            for asset in self.followed_by(&watch) {
                self.unfollow(&watch, asset);
            }
        }
        out.follow.append(&mut self.follow);
    }

    /// Stops the watch of an asset. `false`: it has none.
    pub(in crate::kernel) fn stop(&mut self, asset: &AssetId) -> bool {
        self.triggers.stop(asset)
    }

    /// All watches, without their executions, each with the numbers of its runs. `ahead`: by how much the wall clock is
    /// ahead of the clock of watches.
    pub(super) fn all_shown(
        &self,
        ahead: SignedDuration,
    ) -> Vec<(view::WatchState, BTreeSet<u64>)> {
        let shown = |asset: &AssetId, watch: &Watch, trouble| {
            let waiting: Vec<AssetId> = match &watch.kind {
                Kind::Intent(watch, _) => watch.waiting().take(SHOWN).cloned().collect(),
                Kind::Status(watch, _) => watch.waiting().take(SHOWN).cloned().collect(),
            };
            let mut state = watch.shown(asset, waiting, trouble);
            state.holding = watch.holding(ahead);
            (state, watch.running())
        };
        let refused = |asset: &AssetId, why: &str| {
            let state = view::WatchState::refused(asset, why);
            (state, BTreeSet::new())
        };
        self.triggers.shown(shown, refused)
    }
}

impl Watch {
    /// The assets whose condition holds and has not had its run, with times of the wall clock.
    fn holding(&self, ahead: SignedDuration) -> Vec<view::Holding> {
        let Kind::Status(watch, _) = &self.kind else {
            return Vec::new();
        };
        let holding = watch.holding().take(SHOWN);
        let holding = holding.map(|(due, asset)| view::Holding {
            asset: asset.clone(),
            due: due.checked_add(ahead).unwrap_or(due),
        });
        holding.collect()
    }

    fn shown(
        &self,
        asset: &AssetId,
        waiting: Vec<AssetId>,
        trouble: Option<String>,
    ) -> view::WatchState {
        use super::super::trigger::Trigger as _;

        let progress = self.kind.progress();
        view::WatchState {
            asset: asset.clone(),
            on: Some(self.wanted.on.clone()),
            handled: match self.kind {
                Kind::Intent(..) => Some(progress.handled),
                Kind::Status(..) => None,
            },
            waiting,
            holding: Vec::new(),
            running: Vec::new(),
            counts: progress.counts,
            paused: self.paused().cloned(),
            orphan: self.orphan(),
            trouble,
        }
    }
}
