//! R109: the sum under a key is never above the capacity that production has, whatever pushes do meanwhile.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// Something that happens to an asset, or to the assets that are counted.
#[derive(Debug, Clone)]
enum Step {
    Watch(BTreeSet<u8>),
    Observe(u8),
    /// A push to this capacity begins, if none of the asset is under way.
    Push(u8, u64),
    /// The push under way changes production now.
    Lands(u8),
    /// Its outcome is known: it has landed, or it never will.
    Ends(u8),
    Takeover,
    Forget,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let asset = 0u8..4;
    let step = prop_oneof![
        2 => prop::collection::btree_set(0u8..4, 0..5).prop_map(Step::Watch),
        4 => asset.clone().prop_map(Step::Observe),
        4 => (asset.clone(), 0u64..20).prop_map(|(a, to)| Step::Push(a, to)),
        3 => asset.clone().prop_map(Step::Lands),
        3 => asset.prop_map(Step::Ends),
        1 => Just(Step::Takeover),
        1 => Just(Step::Forget),
    ];
    prop::collection::vec(step, 1..60)
}

/// A question about other assets than those before.
fn serving() -> Serving {
    Serving {
        key: World::key(),
        unit: "qps".into(),
        assets: Arc::default(),
    }
}

#[derive(Default)]
struct World {
    floors: Floors<u8>,
    production: BTreeMap<u8, u64>,
    /// The capacity after each push under way.
    pushes: BTreeMap<u8, u64>,
    counted: BTreeSet<u8>,
    now: u64,
}

impl World {
    fn key() -> Key {
        Key::from("eu")
    }

    fn has(&self, asset: u8) -> u64 {
        self.production.get(&asset).copied().unwrap_or(10)
    }

    fn step(&mut self, step: Step) {
        self.now += 1;
        let at = Mono(self.now);
        match step {
            Step::Watch(members) => {
                let serving = serving();
                self.floors
                    .watch(&Self::key(), &serving, || members.clone(), at);
                self.counted = members;
            }
            Step::Observe(asset) if !self.pushes.contains_key(&asset) => {
                let level = self.has(asset);
                self.floors
                    .observed(&asset, |unit| (unit == "qps").then_some((level, None)), at);
            }
            Step::Push(asset, to) if !self.pushes.contains_key(&asset) => {
                self.floors.pushing(&asset, |_| Some(to));
                self.pushes.insert(asset, to);
            }
            Step::Lands(asset) => {
                if let Some(to) = self.pushes.get(&asset) {
                    self.production.insert(asset, *to);
                }
            }
            Step::Ends(asset) if self.pushes.remove(&asset).is_some() => {
                self.floors.ended(&asset);
            }
            Step::Takeover => {
                self.floors = Floors::default();
                self.counted.clear();
            }
            Step::Forget => {
                self.floors.forget(at, Duration::ZERO);
                if self.floors.by_key.is_empty() {
                    self.counted.clear();
                }
            }
            _ => {}
        }
    }

    /// The least capacity that the counted assets can come to have by the pushes under way.
    fn least(&self) -> u128 {
        let least = |asset: &u8| {
            let to = self.pushes.get(asset).copied();
            u128::from(to.unwrap_or(u64::MAX).min(self.has(*asset)))
        };
        self.counted.iter().map(least).sum()
    }
}

proptest! {
    #[test]
    fn r109_sum_is_never_above_the_least_that_production_can_come_to(steps in steps()) {
        let mut world = World::default();
        for step in steps {
            let shown = format!("{step:?}");
            world.step(step);
            let all = world.floors.served(&World::key(), &u8::MAX).units;
            prop_assert!(all <= world.least(), "{all} of {} after {shown}", world.least());
            prop_assert_eq!(world.floors.recounted(), Ok(()));
        }
    }

    #[test]
    fn r109_sum_is_exact_once_all_are_observed_and_nothing_is_under_way(steps in steps()) {
        let mut world = World::default();
        for step in steps {
            world.step(step);
        }
        for asset in 0..4 {
            world.step(Step::Ends(asset));
        }
        world.step(Step::Watch([0, 1, 2, 3].into()));
        for asset in 0..4 {
            world.step(Step::Observe(asset));
        }
        let all = world.floors.served(&World::key(), &u8::MAX);
        prop_assert_eq!(all.units, world.least());
        prop_assert!(all.unknown.is_empty());
    }
}

#[test]
fn r109_others_of_one_selection_are_counted_as_if_they_had_gone_first() {
    let (mut floors, key) = (Floors::default(), Key::from("eu"));
    floors.watch(&key, &serving(), || [1, 2, 3].into(), Mono(0));
    for asset in 1..=3 {
        floors.observed(&asset, |_| Some((100, Some(0))), Mono(1));
    }
    assert!(floors.fits(&1, &key, 0, 200, &[]));
    assert!(!floors.fits(&1, &key, 0, 200, &[(&2, 0)]));
    assert!(floors.fits(&1, &key, 50, 200, &[(&2, 50)]));
}

#[test]
fn r109_more_capacity_wakes_and_an_ended_watch_is_forgotten() {
    let (mut floors, key) = (Floors::default(), Key::from("eu"));
    floors.watch(&key, &serving(), || [1].into(), Mono(0));
    let rose = floors.observed(&1, |_| Some((5, Some(9))), Mono(1));
    assert_eq!(rose.len(), 1);
    assert_eq!(floors.served(&key, &2).growing, [1]);
    assert!(floors.observed(&1, |_| Some((5, None)), Mono(2)).is_empty());
    assert!(floors.observed(&1, |_| Some((4, None)), Mono(3)).is_empty());
    let late = floors.observed(&1, |_| Some((9, None)), Mono(2));
    assert!(late.is_empty(), "a newer diff is known");
    floors.forget(Mono(10), Duration::from_nanos(1));
    assert_eq!(floors.size(), 0);
}

#[test]
fn r109_members_are_looked_up_once_for_a_set_of_assets() {
    let (mut floors, key, serving) = (Floors::default(), Key::from("eu"), serving());
    floors.watch(&key, &serving, || [1].into(), Mono(0));
    floors.watch(&key, &serving, || panic!("they are the same"), Mono(1));
    floors.gone(&1);
    floors.watch(&key, &serving, || [1, 2].into(), Mono(2));
    assert_eq!(floors.served(&key, &3).unknown, [1, 2]);
}
