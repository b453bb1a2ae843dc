//! R18: assets of newer incarnations join a live rollout of pins, each with the content that its own incarnation says: those
//! that come, and those that are turned down.

use std::collections::BTreeSet;

use plugin_sdk::{Now, Target};
use prodspec_model::{
    Asset, AssetId, Incarnation, Message,
    addons::{Moved, Turndown},
};

use super::{
    Effects, Kernel,
    join::{edited, some},
    state::{closure::Before, live::Live},
};
use crate::policy::target_of;

impl Kernel {
    /// Takes in that a newer incarnation changes assets while a rollout is live. One that comes or is turned down becomes a
    /// target, if its turn is not over and it needs nothing else of that incarnation. Until it moves it gets the newest
    /// content.
    pub(super) fn take_in(&mut self, now: Now, changed: &[AssetId], out: &mut Effects) {
        let Some(live) = self.live.as_ref().filter(|live| self.is_open(live)) else {
            return;
        };
        let unmoved = |id: &&AssetId| {
            let place = live.targets().place(id);
            place.is_none_or(|place| live.targets().row(place).is_none())
                && !live.inherited().contains_key(*id)
        };
        let changed: Vec<&AssetId> = changed.iter().filter(unmoved).collect();
        let new: Vec<Asset> = changed
            .iter()
            .filter_map(|id| self.joins(live, id))
            .collect();
        let apart = self.needs_newer(live, &new);
        let late = !new.is_empty() && !self.admits(now);
        let (new, rest): (Vec<Asset>, Vec<Asset>) = new
            .into_iter()
            .partition(|asset| !late && !apart.contains(&asset.id()));
        let joins: BTreeSet<AssetId> = new.iter().map(Asset::id).collect();
        let gone = changed.into_iter().filter(|id| !joins.contains(*id));
        let gone: Vec<AssetId> = gone.filter(|id| self.late.contains(*id)).cloned().collect();
        if !new.is_empty() || !gone.is_empty() {
            self.renew(now, new, &gone, out);
        }
        let rest: Vec<AssetId> = rest.iter().map(Asset::id).collect();
        self.note_once(
            now,
            &rest,
            "are left to the next rollout: they need its contents, or come too late",
            out,
        );
    }

    /// Whether assets may join the rollout: a first turnup at once, and one that goes back, are followed by the next
    /// rollout.
    fn is_open(&self, live: &Live) -> bool {
        !self.is_change && !live.is_going_back() && !self.is_first(live)
    }

    /// Returns the asset with its newest content if that comes, or is turned down, after the incarnation that is rolled out.
    fn joins(&self, live: &Live, id: &AssetId) -> Option<Asset> {
        let latest = self.group.latest();
        let new = latest.asset(id)?;
        let is_down = |asset: &Asset| asset.has_addon(Turndown::TYPE);
        let is_due = match live.to().asset(id) {
            Some(was) => is_down(&new) && !is_down(&was),
            // R49: one that got another id follows the asset with the old one, which this rollout may still move.
            None => !new.has_addon(Moved::TYPE),
        };
        let is_news = self.content_in_force(id) != Some(new.digest());
        let fits = is_due && is_news && self.governs(latest, id);
        (fits && !self.quarantine.has(&new, None)).then_some(new)
    }

    /// R19: returns those of `new` that would take along, or wait for, other contents that are newer than the rollout.
    fn needs_newer(&self, live: &Live, new: &[Asset]) -> BTreeSet<AssetId> {
        let mut joins: BTreeSet<AssetId> = new.iter().map(Asset::id).collect();
        if joins.is_empty() {
            return joins;
        }
        let latest = self.group.latest();
        let differs = |id: &&AssetId| {
            let content = |of: &Incarnation| of.asset(id).map(|it| it.digest());
            content(latest) != content(live.contents())
        };
        let newer = self.pending.assets().filter(differs);
        let newer = newer.filter_map(|id| latest.asset(id));
        let newer: Vec<Target> = newer.map(|asset| target_of(&asset)).collect();
        let before = |id: &AssetId| {
            let there = live.contents().asset(id);
            there.map_or(Before::Nothing, Before::Asset)
        };
        let closure = self.closure(&newer, before, latest);
        let place = |id: &AssetId| newer.binary_search_by(|it| it.asset.cmp(id)).ok();
        let all = joins.clone();
        loop {
            let apart = |id: &&AssetId| {
                let mut along = closure.close(place(id).map(|at| at as u32)).into_iter();
                along.any(|at| !joins.contains(&newer[at as usize].asset))
            };
            let apart: Vec<AssetId> = joins.iter().filter(apart).cloned().collect();
            if apart.is_empty() {
                return all.difference(&joins).cloned().collect();
            }
            joins.retain(|id| !apart.contains(id));
        }
    }

    /// Adds targets with these contents, or gives them to targets that have not moved. `gone` have no newer content any
    /// more: they are targets only if they differ in the incarnation that is rolled out.
    fn renew(&mut self, now: Now, new: Vec<Asset>, gone: &[AssetId], out: &mut Effects) {
        let Some(live) = &self.live else { return };
        let ids: Vec<AssetId> = new.iter().map(Asset::id).collect();
        let again = gone.iter().filter_map(|id| live.to().asset(id));
        let again: Vec<Asset> = again.collect();
        let absent = gone.iter().filter(|id| live.to().asset(id).is_none());
        let absent: Vec<AssetId> = absent.cloned().collect();
        let put = new.iter().chain(&again).cloned().collect();
        let contents = edited(live.contents(), live.to().no(), put, &absent);
        self.late.extend(ids.iter().cloned());
        self.late.retain(|id| !gone.contains(id));
        let differs = |asset: &&Asset| self.content_in_force(&asset.id()) != Some(asset.digest());
        let fits = |asset: &&Asset| differs(asset) && !self.quarantine.has(asset, None);
        let targets = new.iter().chain(again.iter().filter(fits));
        let targets = targets.map(|asset| self.target(asset)).collect();
        if let Some(live) = &mut self.live {
            live.renew(contents, gone, targets);
        }
        self.close_anew();
        self.note_once(now, &ids, "came and joined", out);
    }

    /// Adds an entry about assets to the history, unless it was added before a takeover.
    fn note_once(&mut self, now: Now, assets: &[AssetId], event: &str, out: &mut Effects) {
        let at = self.clock.at(now);
        let Some(live) = self.live.as_mut().filter(|_| !assets.is_empty()) else {
            return;
        };
        let entry = format!("{} {event}", some(assets));
        let mut history = live.rollout().history.iter();
        if history.all(|other| other.what != entry) {
            live.note(at, entry, None);
            out.steps.push(live.record().into());
        }
    }
}
