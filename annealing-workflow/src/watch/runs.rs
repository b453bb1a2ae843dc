//! The live runs of a watch, and the assets that wait for one: what both kinds of watches share.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
};

use prodspec_model::{
    AssetId,
    operation::{Concurrency, Per},
};

/// How many runs of a watch may be live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// What one run is about.
    pub per: Per,
    /// What happens when an asset changes while a run for it is live.
    pub concurrency: Concurrency,
    /// Maximum number of live runs of the watch. Other changes wait, one for each asset.
    pub at_most: usize,
}

/// Live runs with their assets, and waiting assets in the order of `K`.
#[derive(Debug, Clone)]
pub(super) struct Runs<K> {
    pub(super) limits: Limits,
    waiting: BTreeMap<K, BTreeSet<AssetId>>,
    live: BTreeMap<u64, BTreeSet<AssetId>>,
    /// Number of live runs of each asset that has any.
    busy: BTreeMap<AssetId, usize>,
    /// For each live run, up to where others waited when it started.
    left: BTreeMap<u64, Option<K>>,
}

impl<K: Ord + Copy> Runs<K> {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            waiting: BTreeMap::new(),
            live: BTreeMap::new(),
            busy: BTreeMap::new(),
            left: BTreeMap::new(),
        }
    }

    /// Lets `id` wait from `since` on, instead of from `before`. `None`: it does not wait.
    pub(super) fn wait(&mut self, id: &AssetId, before: Option<K>, since: Option<K>) {
        if before == since {
            return;
        }
        if let Some(before) = before
            && let Some(ids) = self.waiting.get_mut(&before)
        {
            ids.remove(id);
            if ids.is_empty() {
                self.waiting.remove(&before);
            }
        }
        if let Some(since) = since {
            self.waiting.entry(since).or_default().insert(id.clone());
        }
    }

    /// Lets `id` wait no more.
    pub(super) fn forget(&mut self, id: &AssetId) {
        self.waiting.retain(|_, ids| {
            ids.remove(id);
            !ids.is_empty()
        });
    }

    /// Adds a live run of `id`, beside others.
    pub(super) fn start(&mut self, run: u64, id: &AssetId) {
        // What waits already is in the next run, and no reason to replace this one.
        let last = self.waiting.keys().next_back().copied();
        self.left.insert(run, last);
        self.live.entry(run).or_default().insert(id.clone());
        *self.busy.entry(id.clone()).or_default() += 1;
    }

    /// Ends a run. Returns its assets.
    pub(super) fn end(&mut self, run: u64) -> BTreeSet<AssetId> {
        self.left.remove(&run);
        let assets = self.live.remove(&run).unwrap_or_default();
        for id in &assets {
            match self.busy.get_mut(id) {
                Some(runs) if *runs > 1 => *runs -= 1,
                _ => drop(self.busy.remove(id)),
            }
        }
        assets
    }

    /// The runs that may start now: the assets of each, of those that wait up to `until`.
    pub(super) fn ready(&self, until: K) -> Vec<Vec<AssetId>> {
        let room = self.limits.at_most.saturating_sub(self.live.len());
        let allow = self.limits.concurrency == Concurrency::Allow;
        let due = self.waiting.range(..=until).flat_map(|(_, ids)| ids);
        let ids = due
            .filter(|id| allow || !self.busy.contains_key(*id))
            .cloned();
        match self.limits.per {
            Per::Asset => ids.take(room).map(|id| vec![id]).collect(),
            Per::Watch if room > 0 && (allow || self.live.is_empty()) => {
                let all: Vec<AssetId> = ids.collect();
                (!all.is_empty()).then_some(all).into_iter().collect()
            }
            Per::Watch => Vec::new(),
        }
    }

    /// The runs to cancel under [`Concurrency::Replace`], because assets that wait up to `until` need their end. `waits`
    /// says whether an asset is one of them.
    pub(super) fn cancels(&self, until: K, waits: impl Fn(&AssetId) -> bool) -> Vec<u64> {
        let newest = self.waiting.range(..=until).next_back();
        let newest = newest.map(|(since, _)| *since);
        if self.limits.concurrency != Concurrency::Replace || newest.is_none() {
            return Vec::new();
        }
        let since = |run: &u64| newest > self.left.get(run).copied().flatten();
        let live = self.live.iter();
        live.filter(|(run, assets)| match self.limits.per {
            Per::Watch => since(run),
            Per::Asset => assets.iter().any(&waits),
        })
        .map(|(run, _)| *run)
        .collect()
    }

    /// All assets that wait, in their order.
    pub(super) fn waiting(&self) -> impl Iterator<Item = &AssetId> {
        self.waiting.values().flatten()
    }

    /// The same assets, each with its place in the order.
    pub(super) fn waiting_from(&self) -> impl Iterator<Item = (K, &AssetId)> {
        let waiting = self.waiting.iter();
        waiting.flat_map(|(from, ids)| ids.iter().map(move |id| (*from, id)))
    }

    /// The first time after `after` from which an asset waits.
    pub(super) fn next(&self, after: K) -> Option<K> {
        let mut later = self
            .waiting
            .range((Bound::Excluded(after), Bound::Unbounded));
        later.next().map(|(since, _)| *since)
    }
}
