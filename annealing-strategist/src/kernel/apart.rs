//! R102: changes that keep apart enter no failure domain in which another one bakes.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use plugin_sdk::{Now, Selection, Tally, Target, Until};
use prodspec_model::AssetId;

use super::Kernel;
use crate::policy::{Gate, gate_of};

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
        let mut started = BTreeMap::new();
        for target in live.targets().all().iter() {
            // One that comes late opens no domain again before its turn.
            if target.late && target.is_waiting() {
                continue;
            }
            let (has_started, tally): &mut (bool, Tally) =
                started.entry(domain(target)).or_default();
            *has_started |= !target.is_waiting();
            tally.add(target);
        }
        started.retain(|_, (has_started, _)| *has_started);
        if let Ok(request) = self.request(now) {
            let bake = Duration::from_secs(request.policy.bake_secs);
            started.retain(|_, (_, tally)| gate_of(*tally, &request, bake) != Gate::Open);
        }
        // Those that an earlier rollout of the change has set are still there.
        let inherited = live.inherited().keys();
        let inherited = inherited.filter_map(|id| live.targets().get(live.targets().place(id)?));
        let inherited = inherited.filter(|target| target.is_waiting()).map(domain);
        started.into_keys().chain(inherited).collect()
    }

    /// The domains that the rollout would enter now if no other change was there.
    pub fn wants(&self) -> impl Iterator<Item = &Domain> {
        let moves = match &self.live {
            Some(live) => live.is_moving() && !live.is_going_back(),
            None => false,
        };
        self.wanted.iter().filter(move |_| moves)
    }

    /// Whether nothing moves because other changes have taken the domains of all targets that could.
    pub(super) fn waits_for_others(&self) -> bool {
        let Some(live) = self.live.as_ref().filter(|_| !self.wanted.is_empty()) else {
            return false;
        };
        !live.targets().all().iter().any(Target::is_under_way)
    }

    /// Takes in which domains other changes have taken.
    pub(super) fn others_bake(&mut self, taken: Taken) {
        self.taken = taken;
        if let Some(live) = &mut self.live {
            live.selecting.look_again(false);
        }
    }

    /// Leaves out the targets in domains that other changes have taken, and those that draw others there. The rollout may go
    /// on where it is already. Returns whether to ask again, without the targets in those domains: limits may have cut off
    /// the others.
    pub(super) fn keep_apart(&mut self, now: Now, selection: &mut Selection) -> bool {
        let is_second = std::mem::take(&mut self.asked_apart);
        let mut wanted = std::mem::take(&mut self.wanted);
        if !is_second {
            wanted.clear();
        }
        let Some(live) = self.live.as_ref().filter(|it| !it.is_going_back()) else {
            return false;
        };
        if self.taken.is_empty() {
            return false;
        }
        let here = self.bakes_in(now);
        let blocked = |place: u32| {
            let drawn = live.targets().closed(vec![place]).into_iter();
            let drawn = drawn.filter_map(|place| live.targets().get(place as usize));
            let mut domains = drawn.filter(|target| target.is_waiting()).map(domain);
            domains.find(|of| !here.contains(of) && taken_by(&self.taken, of).is_some())
        };
        let offered = selection.now.len();
        selection.now.retain(|place| {
            let into = blocked(*place);
            let is_free = into.is_none();
            wanted.extend(into);
            is_free
        });
        if selection.now.is_empty() && offered > 0 && !is_second {
            let waiting = live.targets().all().census().waiting().iter().copied();
            self.not_now = waiting.filter(|place| blocked(*place).is_some()).collect();
            self.wanted = wanted;
            return true;
        }
        for of in &wanted {
            if let Some(other) = taken_by(&self.taken, of) {
                let why = format!("`{other}` bakes in {}", named(of));
                *selection = std::mem::take(selection).waiting(why, Until::Settled);
            }
        }
        self.wanted = wanted;
        false
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
