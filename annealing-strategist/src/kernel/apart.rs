//! R102: changes that keep apart enter no failure domain in which another one bakes.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use plugin_sdk::{Now, Selection, Target, Until};
use prodspec_model::AssetId;

use super::Kernel;
use crate::policy::{Gate, gate};

/// A failure domain. `None`: that of targets that name none, which may be in any.
pub type Domain = Option<Arc<str>>;

/// The domains that a change must not enter, each with the key of the change that is there or goes first.
pub type Taken = BTreeMap<Domain, AssetId>;

impl Kernel {
    /// The domains in which the live rollout bakes: it has started there, and their gates are not open, or not all is back.
    pub fn bakes_in(&self, now: Now) -> BTreeSet<Domain> {
        let Some(live) = &self.live else {
            return BTreeSet::new();
        };
        if live.is_going_back() {
            let back = |target: &&Target| live.targets().is_back(&target.asset);
            let moved = live.targets().with_rows().filter(|(_, row)| row.is_some());
            let moved = moved.map(|(target, _)| target);
            return moved.filter(|it| !back(it)).map(domain).collect();
        }
        let started = live.targets().all().iter();
        let started = started.filter(|target| !target.is_waiting());
        let mut domains: BTreeSet<Domain> = started.map(domain).collect();
        let Ok(request) = self.request(now) else {
            return domains;
        };
        let bake = Duration::from_secs(request.policy.bake_secs);
        domains.retain(|of| {
            let all = (0..).zip(request.targets.iter());
            let there = all.filter(|(_, target)| domain(target) == *of);
            gate(&request, there.map(|(place, _)| place), bake) != Gate::Open
        });
        domains
    }

    /// The domains that the rollout would have entered if no other change was there.
    pub fn wants(&self) -> &BTreeSet<Domain> {
        &self.wanted
    }

    /// Takes in which domains other changes have taken.
    pub(super) fn others_bake(&mut self, taken: Taken) {
        self.taken = taken;
        if let Some(live) = &mut self.live {
            live.selecting.look_again(false);
        }
    }

    /// Leaves out the targets in domains that other changes have taken. The rollout may go on where it is already.
    pub(super) fn keep_apart(&mut self, now: Now, selection: &mut Selection) {
        self.wanted.clear();
        let Some(live) = self.live.as_ref().filter(|it| !it.is_going_back()) else {
            return;
        };
        if self.taken.is_empty() {
            return;
        }
        let here = self.bakes_in(now);
        let mut waits = BTreeSet::new();
        let mut wanted = BTreeSet::new();
        selection.now.retain(|place| {
            let Some(of) = live.targets().get(*place as usize).map(domain) else {
                return true;
            };
            let other = taken_by(&self.taken, &of).filter(|_| !here.contains(&of));
            if let Some(other) = other {
                waits.insert(format!("`{other}` bakes in {}", named(&of)));
                wanted.insert(of);
            }
            other.is_none()
        });
        self.wanted = wanted;
        for why in waits {
            *selection = std::mem::take(selection).waiting(why, Until::Settled);
        }
    }
}

/// The change that has taken a domain. Targets without a domain may be in any.
fn taken_by<'a>(taken: &'a Taken, of: &Domain) -> Option<&'a AssetId> {
    let any = || taken.values().next().filter(|_| of.is_none());
    taken.get(of).or_else(|| taken.get(&None)).or_else(any)
}

fn domain(target: &Target) -> Domain {
    target.domains.first().cloned()
}

fn named(domain: &Domain) -> &str {
    domain.as_deref().unwrap_or("no domain of its own")
}
