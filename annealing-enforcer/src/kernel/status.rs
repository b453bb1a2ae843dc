//! Status: the state of a partition, and why assets are not as intended. The cost depends on the assets that are not as
//! intended, not on all assets.

use std::collections::{BTreeMap, BTreeSet};

use control_plane_store::records::{Approval, Override, Pause, Scope};
use jiff::Timestamp;
use plugin_sdk::{Now, standing::Reason};
use prodspec_model::{AssetId, Incarnation, IncarnationNo, Message, TypeName, addons::Turndown};
use serde::{Deserialize, Serialize};

use super::{
    Kernel,
    clock::wall_at,
    explain::OTHERS,
    state::{
        attempt::{Attempt, Phase, Wait},
        numbers::SlotNo,
        slot::{State, flag},
    },
};
use crate::bug::Bug;

/// The state of a partition: numbers, and the ids of assets that are not as intended. Long lists hold the first
/// [`OTHERS`] ids.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The newest incarnation that enforcement has taken in.
    pub incarnation: IncarnationNo,
    /// Number of assets that are enforced.
    pub assets: u32,
    /// Number of these assets that are not settled.
    pub unsettled: u32,
    /// Number of unsettled assets by reason, one reason each: the counts add up to [`unsettled`](Self::unsettled).
    pub reasons: BTreeMap<Reason, u32>,
    /// Assets that a rollout has not moved to their content in the newest incarnation yet, settled or not.
    pub behind: Named,
    /// The pauses in force, each with its scope, operator, reason and end.
    pub pauses: Vec<Pause>,
    /// The approvals that no push has used up, each with its change, operator, reason and expiry.
    pub approvals: Vec<Approval>,
    /// The overrides of checks that no push has used up, each with its change, operator, reason and expiry.
    pub overrides: Vec<Override>,
    /// Assets that wait for an operator, each with the reason. Assets that a pause holds are only counted.
    pub held: BTreeMap<AssetId, String>,
    /// Pushes of unknown outcome: they may still be under way.
    pub unknown: Vec<UnknownPush>,
    /// Orphans: assets that left intent without a turndown, or whose type has no plugin any more. They are left alone.
    pub orphans: Vec<AssetId>,
    /// Assets that the newest incarnation and production have, and that are left alone until their rollout reaches
    /// them: they came back into intent, or their rollout went back.
    pub left_running: Vec<AssetId>,
    /// Assets that were turned down and are gone from production: their entries may be removed from the source.
    pub turned_down: Vec<AssetId>,
    /// Assets that something else changes again each time that they were repaired: they may be in sync at this moment.
    /// Another control plane, a program or a person works on the same resources.
    #[serde(default)]
    pub contested: Named,
    /// Types whose diffs or pushes are held back by an open circuit breaker.
    pub open_breakers: Vec<TypeName>,
}

impl Status {
    /// Returns whether production matches the newest incarnation, as far as enforcement knows.
    pub fn is_as_intended(&self) -> bool {
        let left = self.orphans.is_empty() && self.left_running.is_empty();
        let rests = self.unsettled == 0 && self.unknown.is_empty() && self.contested.many == 0;
        rests && self.behind.many == 0 && left
    }
}

/// A number of assets, with the first ids.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Named {
    /// Number of all these assets.
    pub many: u32,
    /// The first [`OTHERS`] of these assets, by id.
    pub first: Vec<AssetId>,
}

/// A push of unknown outcome, which may still run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnknownPush {
    /// Id of the asset that was pushed.
    pub asset: AssetId,
    /// Latest time of the next diff, which may show the outcome. `None`: no time is set.
    pub next_look: Option<Timestamp>,
}

impl Kernel {
    /// Number of assets that have an intent and are not settled.
    pub fn unsettled(&self) -> u32 {
        self.census.unsettled()
    }

    /// The newest incarnation that enforcement has taken in.
    pub fn latest(&self) -> &Incarnation {
        self.table.latest()
    }

    /// Returns whether `run` is the newest call for its asset.
    pub fn is_newest(&self, run: plugin_sdk::Run) -> bool {
        let slot = SlotNo::of_run(run);
        slot.is_below(self.table.len()) && self.table.slot(slot).n == run.n
    }

    /// Number of pushes that are admitted or under way, follow-ups included.
    pub fn pushing(&self) -> usize {
        if self.planted(Bug::NoDrain) {
            return 0;
        }
        let pushing = |it: &&Attempt| {
            matches!(
                it.phase,
                Phase::Journaling(_) | Phase::Pushing | Phase::Continuing
            )
        };
        self.attempts.iter().filter(pushing).count()
    }

    /// Returns the present state of the partition.
    pub fn status(&self, now: Now) -> Status {
        let breakers = self.kinds.iter();
        let breakers =
            breakers.filter(|kind| kind.breaker.is_open() || kind.push_breaker.is_open());
        let elsewhere = self.table.elsewhere_slots();
        let idle = elsewhere.filter(|&at| !self.table.has_intent(at)).count();
        let (orphans, left_running) = self.orphans();
        let words = self.people.interventions(None, now.wall);
        Status {
            incarnation: self.table.latest().no(),
            assets: self.table.used() - idle as u32,
            unsettled: self.census.unsettled(),
            reasons: self.reasons(now),
            behind: Named {
                many: self.census.behind().len() as u32,
                first: self.first_named(self.census.behind().iter().copied()),
            },
            pauses: words.pauses,
            approvals: words.approvals,
            overrides: words.overrides,
            held: self.held_ones(now),
            unknown: self.unknown_pushes(now),
            orphans,
            left_running,
            turned_down: self.turned_down(),
            contested: self.contested(now),
            open_breakers: breakers.map(|kind| kind.config.name.clone()).collect(),
        }
    }

    /// Returns the orphans, and the assets that the newest incarnation has again and that have no intent yet.
    pub(super) fn orphans(&self) -> (Vec<AssetId>, Vec<AssetId>) {
        let (mut gone, mut back) = (Vec::new(), Vec::new());
        for slot in self.census.orphaned() {
            let Some(id) = self.table.id(*slot) else {
                continue;
            };
            match self.table.slot(*slot).location {
                Some(_) => back.push(id),
                // R49: it is about to continue under a new id.
                None if self.new_id_of(&id).is_some() => {}
                None => gone.push(id),
            }
        }
        gone.sort();
        back.sort();
        (gone, back)
    }

    /// Updates the set of orphans.
    pub(super) fn note_orphan(&mut self, slot: SlotNo) {
        let is_orphan = self.table.slot(slot).has(flag::ORPHAN);
        self.census.set_orphaned(slot, is_orphan);
    }

    fn contested(&self, now: Now) -> Named {
        let contested = &self.census.contested;
        let all = || contested.now(now.mono, self.config.drift_period);
        Named {
            many: all().count() as u32,
            first: self.first_named(all()),
        }
    }

    fn first_named(&self, slots: impl Iterator<Item = SlotNo>) -> Vec<AssetId> {
        let ids: BTreeSet<AssetId> = slots.filter_map(|at| self.table.id(at)).collect();
        ids.into_iter().take(OTHERS).collect()
    }

    fn held_ones(&self, now: Now) -> BTreeMap<AssetId, String> {
        let held = self.attempts.iter().filter_map(|it| match &it.phase {
            Phase::Waiting(Wait::Held(why)) => Some((self.table.id(it.slot)?, it, why)),
            _ => None,
        });
        let unpaused = held.filter(|(id, it, _)| !self.is_paused(now, it.slot, id));
        let named: BTreeMap<AssetId, &String> = unpaused.map(|(id, _, why)| (id, why)).collect();
        let first = named.into_iter().take(OTHERS);
        first.map(|(id, why)| (id, why.clone())).collect()
    }

    fn unknown_pushes(&self, now: Now) -> Vec<UnknownPush> {
        let unknown = self.attempts.iter().filter(|it| self.is_unknown(it));
        let named = unknown.filter_map(|it| {
            let next_look = it.wakes.filter(|_| matches!(it.phase, Phase::Waiting(_)));
            Some((self.table.id(it.slot)?, next_look))
        });
        let named: BTreeMap<AssetId, _> = named.collect();
        let first = named.into_iter().take(OTHERS);
        let push = |(asset, at): (AssetId, Option<_>)| UnknownPush {
            asset,
            next_look: at.map(|at| wall_at(now, at)),
        };
        first.map(push).collect()
    }

    /// Whether the asset has a push in flight that this process does not follow.
    pub(super) fn is_unknown(&self, it: &Attempt) -> bool {
        let followed = matches!(
            it.phase,
            Phase::Journaling(_) | Phase::Pushing | Phase::Continuing
        );
        self.table.slot(it.slot).in_flight() && !followed
    }

    /// Returns the assets that are settled with their turndown and are still in the newest incarnation.
    fn turned_down(&self) -> Vec<AssetId> {
        let newest = |slot: &SlotNo| {
            let asset = self.table.slot(*slot).location;
            let asset = asset.and_then(|at| self.table.latest().snapshot().at(at));
            asset.is_some_and(|asset| asset.has_addon(Turndown::TYPE))
        };
        let gone = self.census.turned_down().iter().copied();
        let gone = gone.filter(|slot| self.table.is_settled(*slot) && newest(slot));
        let mut ids: Vec<AssetId> = gone.filter_map(|slot| self.table.id(slot)).collect();
        ids.sort();
        ids
    }

    /// Updates the set of assets that are settled with their turndown.
    pub(super) fn note_turned_down(&mut self, slot: SlotNo) {
        let intent = self
            .table
            .intent(slot)
            .filter(|_| self.table.is_settled(slot));
        let is_gone = intent.is_some_and(|(asset, _)| asset.has_addon(Turndown::TYPE));
        self.census.set_turned_down(slot, is_gone);
    }

    /// R64: counts each unsettled asset once, by the reason why it is unsettled.
    fn reasons(&self, now: Now) -> BTreeMap<Reason, u32> {
        let mut reasons = BTreeMap::new();
        let mut left = self.census.unsettled();
        let mut add = |reason, many: u32| {
            if many > 0 {
                *reasons.entry(reason).or_default() += many;
            }
        };
        for it in self.attempts.iter() {
            if self.counts_as_unsettled(it.slot) {
                add(self.reason(now, it), 1);
                left = left.saturating_sub(1);
            }
        }
        // Assets without an attempt are queued, and were not diffed yet.
        if left > 0 && self.has_lease(now) {
            for reason in self.queued_behind(now).into_values() {
                add(reason, 1);
                left = left.saturating_sub(1);
            }
        }
        let rest = match () {
            () if !self.has_lease(now) => Reason::Ownership,
            () if self.people.pauses_all(now.wall) => Reason::Paused,
            () => Reason::Looking,
        };
        add(rest, left);
        reasons
    }

    fn reason(&self, now: Now, it: &Attempt) -> Reason {
        let kind = &self.kinds[self.table.slot(it.slot).kind.index()];
        let id = || self.table.id(it.slot);
        let paused = || id().is_some_and(|id| self.is_paused(now, it.slot, &id));
        let is_held_back = match &it.phase {
            Phase::Permit => kind.push_breaker.is_open(),
            Phase::Queued => kind.breaker.is_open(),
            _ => false,
        };
        match self.own_reason(it.slot) {
            own @ (Reason::UnknownPush | Reason::UnderWay | Reason::Ownership) => own,
            _ if !self.has_lease(now) => Reason::Ownership,
            _ if is_held_back => Reason::Breaker,
            _ if paused() => Reason::Paused,
            own => own,
        }
    }

    /// Returns the queued assets without an attempt that an open breaker or a pause of one asset or type holds back.
    /// Queues are searched only while there is such a breaker or pause.
    fn queued_behind(&self, now: Now) -> BTreeMap<SlotNo, Reason> {
        let scoped = self.people.pauses_some(now.wall);
        let mut found = BTreeMap::new();
        for kind in &self.kinds {
            if !scoped && !kind.breaker.is_open() {
                continue;
            }
            for slot in kind.ready.slots() {
                let entry = self.table.slot(slot);
                let bare =
                    entry.state == State::Queued && self.attempts.at(entry.attempt).is_none();
                if !bare || !self.counts_as_unsettled(slot) {
                    continue;
                }
                let id = self.table.id(slot);
                if self.kinds[entry.kind.index()].breaker.is_open() {
                    found.insert(slot, Reason::Breaker);
                } else if id.is_some_and(|id| self.is_paused(now, slot, &id)) {
                    found.insert(slot, Reason::Paused);
                }
            }
        }
        found
    }

    fn is_paused(&self, now: Now, slot: SlotNo, id: &AssetId) -> bool {
        let kind = &self.kinds[self.table.slot(slot).kind.index()];
        let name = kind.config.name.as_str();
        self.people.pause(id, name, now.wall).is_some()
    }
}

impl super::state::people::People {
    /// Whether a pause of the whole partition is in force.
    fn pauses_all(&self, now: Timestamp) -> bool {
        let pauses = self.interventions(None, now).pauses;
        pauses.iter().any(|pause| pause.scope == Scope::Partition)
    }

    /// Whether a pause of an asset or a type is in force.
    fn pauses_some(&self, now: Timestamp) -> bool {
        let pauses = self.interventions(None, now).pauses;
        pauses.iter().any(|pause| pause.scope != Scope::Partition)
    }
}
