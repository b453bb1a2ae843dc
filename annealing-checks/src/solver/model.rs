//! A small model of production that only the solver drives: random edges and intents, pushes in flight, outdated
//! verdicts.
//!
//! The model implements the enforcer's admission rules and nothing else. It judges independently of the solver: at
//! every instant, with any pushes in flight, demand <= capacity for every edge that production may have.

use std::{collections::BTreeMap, sync::Arc};

use futures::{executor::block_on, future::BoxFuture};
use jiff::Timestamp;
use plugin_sdk::{
    AssetIntent, Cause, Change, CheckPlugin, Claim, Diff, Effects, Key, Observation, Observed,
    PartitionView, Recheck, Shared, Stamp, Usage, Verdict,
    observe::{self, Link},
    testing::{self, NOW},
};
use prodspec_model::{AssetId, IncarnationNo, addons::Need};
use proptest::prelude::*;

use super::{DependencySolver, wait_cycles};

/// Number of assets in the model.
const ASSETS: usize = 6;

/// Consistent intent: each provider has at least the sum of the demand on it. An edge is a pair with a demand.
#[derive(Debug, Clone, Default, PartialEq)]
struct Intent {
    slack: [u64; ASSETS],
    /// Demand of each edge, by (consumer, provider).
    demand: BTreeMap<(usize, usize), u64>,
}

impl Intent {
    fn demand(&self, consumer: usize, provider: usize) -> u64 {
        let demand = self.demand.get(&(consumer, provider));
        demand.copied().unwrap_or_default()
    }

    fn capacity(&self, provider: usize) -> u64 {
        let consumers = (0..ASSETS).map(|consumer| self.demand(consumer, provider));
        self.slack[provider] + consumers.sum::<u64>()
    }

    /// The content of an asset: its own capacity in its own unit, and its demand in its providers' units.
    fn content(&self, asset: usize) -> BTreeMap<String, u64> {
        let mut content: BTreeMap<_, _> = (0..ASSETS)
            .filter(|provider| self.demand.contains_key(&(asset, *provider)))
            .map(|provider| (unit(provider), self.demand(asset, provider)))
            .collect();
        content.insert(unit(asset), self.capacity(asset));
        content
    }
}

fn unit(provider: usize) -> String {
    format!("qps/{provider}")
}

fn id(asset: usize) -> AssetId {
    AssetId::new(&format!("asset/{asset}")).unwrap()
}

fn number(id: &AssetId) -> usize {
    id.as_str()["asset/".len()..].parse().unwrap()
}

/// The state of one asset: the intent that production has, and the intent that is being pushed, as indexes.
#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    now: usize,
    pushing: Option<usize>,
    seq: u32,
    /// Number of admitted pushes that relied on this asset.
    relied_on: u32,
}

#[derive(Debug, Clone)]
struct World {
    intents: Vec<Intent>,
    slots: [Slot; ASSETS],
}

/// A verdict that waits for admission, and the state that it rests on.
#[derive(Debug, Clone)]
struct Checked {
    intent: usize,
    seq: u32,
    relied_on: u32,
    verdict: Verdict,
}

impl World {
    fn latest(&self) -> usize {
        self.intents.len() - 1
    }

    /// The intents that production may have of an asset.
    fn possible(&self, asset: usize) -> impl Iterator<Item = &Intent> {
        let slot = self.slots[asset];
        [Some(slot.now), slot.pushing]
            .into_iter()
            .flatten()
            .map(|at| &self.intents[at])
    }

    fn diff(&self, asset: usize, at: usize) -> Diff {
        let has = self.intents[self.slots[asset].now].content(asset);
        let wants = self.intents[at].content(asset);
        let state = |capacity: &BTreeMap<String, u64>| {
            let units = capacity.iter();
            units.fold(Observed::default(), |it, (unit, n)| it.capacity(unit, *n))
        };
        let (observed, wanted) = (state(&has), state(&wants));
        if has == wants {
            return Diff::in_sync().observed(observed);
        }
        let effects = Effects::between(&observed, &wanted);
        let change = Change::new(&testing::asset("asset/x"), "change it", vec![], effects);
        Diff::differs(change).observed(observed)
    }

    fn check(&self, asset: usize) -> Option<Checked> {
        let at = self.latest();
        let slot = self.slots[asset];
        let Diff::Differs { change, observed } = self.diff(asset, at) else {
            return None;
        };
        let mut request = testing::check_request(&testing::asset("asset/x"));
        let mut incarnation = request.incarnation().clone();
        incarnation.no = IncarnationNo(u32::try_from(at).unwrap());
        request.intent = AssetIntent::named(incarnation, id(asset));
        request.change = Arc::from(change);
        request.observed = observed;
        request.view = Some(Arc::new(self.clone()));
        let verdict = block_on(DependencySolver::capacity().check(request)).unwrap();
        Some(Checked {
            intent: at,
            seq: slot.seq,
            relied_on: slot.relied_on,
            verdict,
        })
    }

    /// The maximum use of a provider by an asset, whichever part of a push in flight has taken effect.
    fn uses(&self, consumer: usize, provider: usize) -> u64 {
        let possible = self.possible(consumer);
        let demands = possible.map(|intent| intent.demand(consumer, provider));
        demands.max().unwrap_or_default()
    }

    /// The use of a provider by all assets except `asset`.
    fn used_by_others(&self, asset: usize, provider: usize) -> u64 {
        let others = (0..ASSETS).filter(|other| *other != asset);
        others.map(|other| self.uses(other, provider)).sum()
    }

    /// Whether a claim fits beside the maximum use of all other assets.
    fn fits(&self, asset: usize, claim: &Claim) -> bool {
        let Claim::Amount { key, units, limit } = claim else {
            return true;
        };
        let provider = (0..ASSETS).find(|it| *key == Key::capacity(&id(*it), &unit(*it)));
        self.used_by_others(asset, provider.unwrap()) + units <= *limit
    }

    /// The enforcer's admission, as far as it concerns order.
    fn admit(&mut self, asset: usize, checked: &Checked) -> bool {
        let slot = self.slots[asset];
        let unchanged = |asset: usize| {
            let [then, latest] = [checked.intent, self.latest()].map(|at| &self.intents[at]);
            then.content(asset) == latest.content(asset)
        };
        let still_true = |stamp: &Stamp| {
            let other = stamp.slot as usize;
            stamp.seq.is_multiple_of(2) && stamp.seq == self.slots[other].seq && unchanged(other)
        };
        let admitted = checked.verdict.is_proceed()
            && slot.seq.is_multiple_of(2)
            && slot.seq == checked.seq
            && slot.relied_on == checked.relied_on
            && unchanged(asset)
            && checked.verdict.relies_on.iter().all(still_true)
            && checked
                .verdict
                .claims
                .iter()
                .all(|claim| self.fits(asset, claim));
        if admitted {
            self.slots[asset].seq += 1;
            self.slots[asset].pushing = Some(checked.intent);
            for stamp in &checked.verdict.relies_on {
                self.slots[stamp.slot as usize].relied_on += 1;
            }
        }
        admitted
    }

    fn finish(&mut self, asset: usize) {
        let slot = &mut self.slots[asset];
        if let Some(pushed) = slot.pushing.take() {
            slot.now = pushed;
            slot.seq += 1;
        }
    }

    /// Demand <= capacity, whichever part of each push in flight has taken effect.
    fn judge(&self) -> Result<(), TestCaseError> {
        for provider in 0..ASSETS {
            let capacity = self
                .possible(provider)
                .map(|intent| intent.capacity(provider))
                .min();
            let most = |consumer| {
                self.possible(consumer)
                    .map(|intent| intent.demand(consumer, provider))
                    .max()
            };
            let demand: u64 = (0..ASSETS).filter_map(most).sum();
            prop_assert!(
                Some(demand) <= capacity,
                "asset/{} has {:?}, {} is used",
                provider,
                capacity,
                demand
            );
        }
        Ok(())
    }

    fn in_sync(&self, asset: usize) -> bool {
        matches!(self.diff(asset, self.latest()), Diff::InSync { .. })
    }

    /// Pushes one asset at a time, in the order given, until no push is admitted any more.
    fn settle(&mut self, order: &[usize]) -> Result<(), TestCaseError> {
        (0..ASSETS).for_each(|asset| self.finish(asset));
        let mut moved = true;
        while moved {
            moved = false;
            for &asset in order {
                let checked = self.check(asset);
                if checked.is_some_and(|checked| self.admit(asset, &checked)) {
                    self.judge()?;
                    self.finish(asset);
                    self.judge()?;
                    moved = true;
                }
            }
        }
        Ok(())
    }

    /// Pairs of an asset and an asset that it waits for.
    fn waits(&self) -> Vec<(AssetId, AssetId)> {
        let mut waits = Vec::new();
        for asset in 0..ASSETS {
            for delay in self
                .check(asset)
                .into_iter()
                .flat_map(|checked| checked.verdict.delays)
            {
                if let Recheck::WhenSettled(on) = delay.recheck {
                    waits.push((id(asset), on));
                }
            }
        }
        waits
    }
}

/// The state of the model at the time of a check.
impl PartitionView for World {
    fn observe(&self, asset: &AssetId) -> BoxFuture<'static, Result<Observation, observe::Error>> {
        let asset = number(asset);
        let slot = self.slots[asset];
        let stamp = Stamp {
            slot: u32::try_from(asset).unwrap(),
            seq: slot.seq,
        };
        let diff = self.diff(asset, self.latest());
        Box::pin(async move {
            Ok(Observation {
                diff,
                stamp,
                as_of: NOW,
                cause: Some(Cause::Intent),
                not_yet: false,
            })
        })
    }

    /// Computed like the enforcer's count: nothing is observed, so the verdict relies on nothing.
    fn usage(
        &self,
        shared: &Shared,
        _at: IncarnationNo,
        but: &AssetId,
        now: Timestamp,
    ) -> BoxFuture<'static, Result<Usage, observe::Error>> {
        let (provider, but) = (number(&shared.provider), number(but));
        let latest = &self.intents[self.latest()];
        let others = || (0..ASSETS).filter(|other| *other != but);
        let named = |which: &dyn Fn(usize) -> bool| {
            let which = others().filter(|other| which(*other));
            which
                .map(|other| (id(other), self.uses(other, provider)))
                .collect()
        };
        let usage = Usage {
            used: self.used_by_others(but, provider),
            as_of: now,
            unknown: vec![],
            shrinking: named(&|other| latest.demand(other, provider) < self.uses(other, provider)),
            leaving: named(&|other| self.uses(other, provider) > 0 && !self.in_sync(other)),
            using: named(&|other| self.uses(other, provider) > 0),
            stamps: vec![],
        };
        Box::pin(async move { Ok(usage) })
    }

    fn providers(&self, asset: &AssetId, at: IncarnationNo) -> Vec<Link> {
        let asset = number(asset);
        let edges = self.intents[at.0 as usize].demand.keys();
        edges
            .filter(|(consumer, _)| *consumer == asset)
            .map(|(_, provider)| link(*provider, *provider))
            .collect()
    }

    fn consumers(&self, asset: &AssetId, at: IncarnationNo) -> Vec<Link> {
        let provider = number(asset);
        let has = |intent: &Intent, consumer| intent.demand.contains_key(&(consumer, provider));
        (0..ASSETS)
            .filter(|consumer| {
                has(&self.intents[at.0 as usize], *consumer)
                    || self
                        .possible(*consumer)
                        .any(|intent| has(intent, *consumer))
            })
            .map(|consumer| link(consumer, provider))
            .collect()
    }
}

fn link(asset: usize, provider: usize) -> Link {
    Link {
        asset: id(asset),
        need: Need::Capacity {
            unit: unit(provider),
        },
    }
}

#[derive(Debug, Clone)]
enum Step {
    Check(usize),
    Admit(usize),
    Push(usize),
    Finish(usize),
    Seal(Intent),
    Settle(Vec<usize>),
}

/// Runs `steps` in any interleaving, then lets production settle.
fn live(steps: Vec<Step>) -> Result<World, TestCaseError> {
    let mut world = World {
        intents: vec![Intent::default()],
        slots: [Slot::default(); ASSETS],
    };
    let mut checked: [Option<Checked>; ASSETS] = Default::default();
    for step in steps {
        match step {
            Step::Seal(intent) => world.intents.push(intent),
            Step::Check(asset) => checked[asset] = world.check(asset),
            Step::Finish(asset) => world.finish(asset),
            Step::Settle(order) => world.settle(&order)?,
            Step::Push(asset) => {
                if let Some(found) = world.check(asset) {
                    world.admit(asset, &found);
                }
            }
            Step::Admit(asset) => {
                if let Some(found) = checked[asset].take() {
                    world.admit(asset, &found);
                }
            }
        }
        world.judge()?;
    }
    world.settle(&[0, 1, 2, 3, 4, 5])?;
    Ok(world)
}

fn steps(intent: impl Strategy<Value = Intent> + 'static) -> impl Strategy<Value = Vec<Step>> {
    let order: Vec<usize> = (0..ASSETS).collect();
    let step = prop_oneof![
        3 => (0..ASSETS).prop_map(Step::Check),
        3 => (0..ASSETS).prop_map(Step::Admit),
        9 => (0..ASSETS).prop_map(Step::Push),
        5 => (0..ASSETS).prop_map(Step::Finish),
        2 => intent.prop_map(Step::Seal),
        1 => Just(order).prop_shuffle().prop_map(Step::Settle),
    ];
    prop::collection::vec(step, 50..250)
}

/// Intent with any edges from a lower to a higher number.
fn graph() -> impl Strategy<Value = Intent> {
    let edge = (0..ASSETS - 1, 1..ASSETS, 0..9u64);
    let edges = prop::collection::vec(edge, 4..16);
    (edges, prop::array::uniform6(prop_oneof![Just(0), 0..5u64])).prop_map(|(edges, slack)| {
        Intent {
            slack,
            demand: edges
                .into_iter()
                .filter(|(consumer, provider, _)| consumer < provider)
                .map(|(consumer, provider, demand)| ((consumer, provider), demand))
                .collect(),
        }
    })
}

/// Intent with edges of a fixed tree, each present or not: no two pushes wait for each other.
fn tree() -> impl Strategy<Value = Intent> {
    let demands = prop::array::uniform6(prop::option::weighted(0.8, 0..9u64));
    (
        demands,
        prop::array::uniform6(prop_oneof![Just(0), 0..5u64]),
    )
        .prop_map(|(demands, slack)| {
            let parents = [2, 2, 4, 4, 5];
            let edges = parents.into_iter().zip(demands).enumerate();
            Intent {
                slack,
                demand: edges
                    .filter_map(|(consumer, (provider, demand))| {
                        Some(((consumer, provider), demand?))
                    })
                    .collect(),
            }
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn r16_demand_fits_capacity_at_every_instant_and_only_cycles_are_stuck(steps in steps(graph())) {
        let world = live(steps)?;
        let stuck = !(0..ASSETS).all(|asset| world.in_sync(asset));
        prop_assert_eq!(stuck, !wait_cycles(&world.waits()).is_empty());
    }

    #[test]
    fn r16_without_cycles_everything_is_pushed_in_the_end(steps in steps(tree())) {
        let world = live(steps)?;
        prop_assert!((0..ASSETS).all(|asset| world.in_sync(asset)), "waits: {:?}", world.waits());
    }
}

/// The intent of both ends is unchanged and no push is in flight, but the finding is outdated: an edge was added since.
#[test]
fn r16_a_provider_relied_on_since_its_check_is_checked_again() {
    let (old, new, provider) = (0, 1, 5);
    let intent = |slack, demand: &[((usize, usize), u64)]| Intent {
        slack: [0, 0, 0, 0, 0, slack],
        demand: demand.iter().copied().collect(),
    };
    let mut world = World {
        intents: vec![intent(55, &[((old, provider), 45)])],
        slots: [Slot::default(); ASSETS],
    };
    world.intents.push(intent(45, &[((old, provider), 5)]));
    let shrink = world.check(provider).unwrap();
    assert!(shrink.verdict.is_proceed(), "45 fits into 50");
    world
        .intents
        .push(intent(0, &[((old, provider), 5), ((new, provider), 45)]));
    let grow = world.check(new).unwrap();
    assert!(world.admit(new, &grow), "90 fits into 100");
    world.finish(new);
    assert!(!world.admit(provider, &shrink), "90 does not fit into 50");
}
