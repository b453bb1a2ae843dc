//! Answers to checks about a shared capacity: its consumers, and their use as last seen in production (R16).

use std::collections::BTreeSet;

use control_plane_runtime::claims::Sum;
use plugin_sdk::{Claim, Diff, Key, Mono, Now, Shared, Usage, Verdict};
use prodspec_model::{
    Asset, AssetId, Incarnation,
    addons::{DependsOn, Edge, Moved, Need},
};

use super::{
    Kernel,
    clock::wall_then,
    state::{numbers::AttemptNo, numbers::SlotNo, slot::flag},
};

impl Kernel {
    /// Returns the use of `shared` in production by all its consumers except `but`. The cost does not depend on the
    /// number of consumers, except for the first question after intent, pins or edges have changed.
    pub fn usage(&mut self, now: Now, shared: &Shared, but: &AssetId) -> Usage {
        if self.claims.amounts.watch(shared, now.mono) {
            self.look_up_consumers(shared);
        }
        let key = Key::capacity(&shared.provider, &shared.unit);
        // Young enough to remain valid until the checks have answered.
        let not_before = now.mono - self.config.evidence_age / 2;
        let slot = self.table.find(but.as_str()).unwrap_or(SlotNo::NONE);
        let sum = self.sum(&key, slot, not_before, Usage::NAMED);
        let named = |all: Vec<(SlotNo, u64)>| {
            let named = all.into_iter();
            let named = named.filter_map(|(slot, uses)| Some((self.table.id(slot)?, uses)));
            named.collect()
        };
        let unknown = sum.unknown.iter().filter_map(|&slot| self.table.id(slot));
        Usage {
            used: u64::try_from(sum.used).unwrap_or(u64::MAX),
            as_of: sum
                .oldest
                .map_or(now.wall, |oldest| oldest.wall.min(now.wall)),
            unknown: unknown.chain(sum.strangers).take(Usage::NAMED).collect(),
            shrinking: named(sum.shrinking),
            leaving: named(sum.leaving),
            using: named(sum.using),
            stamps: Vec::new(),
        }
    }

    /// Returns the consumers of `shared`, except `but`, without a recent finding. Consumers that enforcement does not
    /// know are left out.
    pub(super) fn unknown_consumers(
        &self,
        now: Now,
        shared: &Shared,
        but: &AssetId,
    ) -> Vec<SlotNo> {
        let key = Key::capacity(&shared.provider, &shared.unit);
        let slot = self.table.find(but.as_str()).unwrap_or(SlotNo::NONE);
        let not_before = now.mono - self.config.evidence_age / 2;
        let in_flight = |slot: &SlotNo| self.table.slot(*slot).in_flight();
        self.claims
            .amounts
            .unknown(&key, &slot, not_before, in_flight)
    }

    fn sum(&self, key: &Key, slot: SlotNo, not_before: Mono, most: usize) -> Sum<SlotNo> {
        let in_flight = |slot: &SlotNo| self.table.slot(*slot).in_flight();
        self.claims
            .amounts
            .sum(key, &slot, not_before, most, in_flight)
    }

    /// R16: checks that young findings about all other consumers exist for every shared capacity that a push claims.
    pub(super) fn amounts_are_known(&mut self, now: Now, slot: SlotNo, verdict: &Verdict) -> bool {
        let not_before = now.mono - self.config.evidence_age;
        for claim in &verdict.claims {
            let Claim::Amount { key, .. } = claim else {
                continue;
            };
            if let Some(shared) = self.claims.amounts.outdated(key) {
                self.look_up_consumers(&shared);
            }
            let sum = self.sum(key, slot, not_before, 0);
            if !sum.unknown.is_empty() || !sum.strangers.is_empty() {
                return false;
            }
        }
        true
    }

    fn look_up_consumers(&mut self, shared: &Shared) {
        let latest = self.table.latest().clone();
        let in_production = self.edges.shared();
        let declared = latest.snapshot().referrers(shared.provider.as_str());
        let mut ids: BTreeSet<AssetId> = declared.into_iter().collect();
        ids.extend(in_production.consumers(&shared.provider).cloned());
        // R49: edges of older contents may name the provider by its old id.
        let newest = latest.asset(&shared.provider);
        if let Some(old) = newest.as_ref().and_then(Moved::source_of) {
            ids.extend(in_production.consumers(&old).cloned());
        }
        let (mut slots, mut strangers) = (BTreeSet::new(), Vec::new());
        for id in ids {
            match self.table.find(id.as_str()) {
                Some(slot) => {
                    let uses = self.consumed_by(slot, &id).any(|used| used == *shared);
                    slots.extend(uses.then_some(slot));
                }
                None => {
                    let declared = latest.asset(&id).map(|asset| DependsOn::edges_of(&asset));
                    let mut uses = declared.into_iter().flatten().filter_map(capacity);
                    strangers.extend(uses.any(|used| used == *shared).then_some(id));
                }
            }
        }
        let amounts = &mut self.claims.amounts;
        amounts.set_consumers(shared, slots, strangers);
    }

    /// Returns the shared capacities that an asset may use in production: those of all contents that it was pushed with
    /// since it was in sync, and those of its intent, unless production is known not to have them yet.
    fn consumed_by(&self, slot: SlotNo, id: &AssetId) -> impl Iterator<Item = Shared> + use<> {
        let mut all: BTreeSet<Edge> = self.edges.of(id).into_iter().collect();
        let entry = self.table.slot(slot);
        match self.edges.had_by(id) {
            Some(had) => all.extend(had.iter().cloned()),
            // The asset was in sync or pushed before its intent changed, and had no edges then.
            None if entry.has(flag::THERE) && !entry.has(flag::REACHED) => {}
            None => {
                let intent = self.table.intent(slot);
                let declared = intent.map(|(asset, _)| DependsOn::edges_of(&asset));
                all.extend(declared.into_iter().flatten());
            }
        }
        let used = all.into_iter().filter_map(capacity);
        let used = used.map(|it| Shared {
            provider: self.present_id(it.provider),
            ..it
        });
        used.collect::<Vec<_>>().into_iter()
    }

    /// Updates the watched capacities of an asset whose edges may have changed.
    pub(super) fn edges_changed(&mut self, slot: SlotNo) {
        if self.claims.amounts.watches_nothing() {
            return;
        }
        let consumed = self.table.id(slot);
        let consumed: Vec<_> = consumed
            .into_iter()
            .flat_map(|id| self.consumed_by(slot, &id))
            .collect();
        let amounts = &mut self.claims.amounts;
        amounts.set_consumed(&slot, consumed.into_iter());
    }

    /// Notes the level that the diff of `slot` found, as a push starts that may make it a consumer.
    pub(super) fn level_at_push(&mut self, now: Now, slot: SlotNo, at: AttemptNo) {
        self.edges_changed(slot);
        let Some(it) = self.attempts.at(at) else {
            return;
        };
        let effects = it.change.as_ref().map(|change| &change.effects.capacity);
        let capacity = |unit: &str| {
            let now = it.observed.capacity.get(unit).copied().unwrap_or_default();
            let soon = effects.and_then(|capacity| capacity.get(unit));
            Some((now, Some(soon.map_or(now, |it| it.to))))
        };
        let (wall, mono) = (wall_then(now, it.diff_started), it.diff_started);
        let leaves = |unit: &str| match effects.and_then(|all| all.get(unit)) {
            Some(named) => Some(named.to),
            // R109: a turndown that names no effect takes all.
            None if it.turndown => Some(0),
            None => None,
        };
        self.claims.floors.pushing(&slot, leaves);
        let keeps = |shared: &Shared| uses(self.table.intent(slot), shared);
        let amounts = &mut self.claims.amounts;
        amounts.observed(&slot, capacity, Now { wall, mono }, !it.cures, keeps);
    }

    /// Notes the level that a diff of `slot` found; no push of the asset began after that diff did. Wakes assets that
    /// wait for the capacity.
    pub(super) fn level_seen(
        &mut self,
        now: Now,
        slot: SlotNo,
        diff: &Diff,
        of_intent: bool,
        started: Now,
    ) {
        let keeps = |shared: &Shared| uses(self.table.intent(slot), shared);
        let capacity = |unit: &str| diff.capacity(unit);
        let amounts = &mut self.claims.amounts;
        for key in amounts.observed(&slot, capacity, started, of_intent, keeps) {
            let next = self.claims.next_waiting(&key);
            if let Some((key, next)) = next {
                self.wake_for(now, next, key);
            }
        }
        self.floors_seen(now, slot, diff, started.mono);
    }
}

/// Whether the intent of an asset consumes `shared`.
fn uses(intent: Option<(Asset, Incarnation)>, shared: &Shared) -> bool {
    let declared = intent.map(|(asset, _)| DependsOn::edges_of(&asset));
    let mut consumed = declared.into_iter().flatten().filter_map(capacity);
    consumed.any(|used| used == *shared)
}

fn capacity(edge: Edge) -> Option<Shared> {
    match edge.need {
        Need::Capacity { unit } => Some(Shared {
            provider: edge.provider.id,
            unit,
        }),
        _ => None,
    }
}
