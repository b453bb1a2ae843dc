//! A preview says to the second when each target moves, if all is healthy, and if the reports of one moment are seen
//! together.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use plugin_sdk::SelectRequest;
use prodspec_model::{
    Asset, AssetId,
    addons::PhysicalCluster,
    rollout::{Amount, Canary, RolloutPolicy, Wave},
};
use proptest::prelude::*;

use super::rig::{P, Rig, config, of_group};
use crate::{kernel::Call, policy, preview::preview};

const NAMES: [&str; 7] = ["a", "b", "c", "d", "e", "f", "g"];
const SECOND: Duration = Duration::from_secs(1);
/// More seconds than any of these rollouts takes.
const LONG: u32 = 20_000;

fn policies() -> impl Strategy<Value = RolloutPolicy> {
    let bake = || prop_oneof![Just(0_u64), 1..300_u64];
    let canary = (1..4_u32, bake()).prop_map(|(count, bake_secs)| Canary { count, bake_secs });
    let wave = (1..=100_u8, bake()).prop_map(|(percent, bake_secs)| Wave {
        upto: Amount::Percent(percent),
        bake_secs,
    });
    let domains = prop_oneof![Just(vec![]), Just(vec!["us", "eu"])];
    let limit = || proptest::option::of(1..4_u32);
    let parts = (
        proptest::option::of(canary),
        prop::collection::vec(wave, 0..3),
        domains,
        bake(),
        (limit(), limit()),
    );
    parts.prop_map(
        |(canary, waves, domains, bake_secs, limits)| RolloutPolicy {
            canary,
            waves,
            domains: domains.into_iter().map(str::to_owned).collect(),
            bake_secs,
            max_in_flight: limits.0,
            max_unavailable: limits.1,
            ..RolloutPolicy::default()
        },
    )
}

fn assets(size: u64, clusters: &[u8]) -> Vec<Asset> {
    let all = NAMES.iter().zip(clusters);
    let all = all.map(|(name, cluster)| {
        let asset = of_group(Some(P), name, size);
        let asset = match cluster % 3 {
            0 => asset,
            at => asset
                .addon(&PhysicalCluster::new(["eu", "us"][usize::from(at - 1)]))
                .unwrap(),
        };
        asset.build().unwrap()
    });
    all.collect()
}

/// Begins a rollout, and returns its first question which targets may move.
fn begin(rig: &mut Rig, assets: Vec<Asset>) -> SelectRequest {
    rig.put(assets);
    loop {
        let asked = rig.calls.iter().find_map(|call| match call {
            Call::Select(_, request) => Some((**request).clone()),
            Call::Judge(..) => None,
        });
        if let Some(request) = asked {
            return request;
        }
        assert!(rig.deliver() || rig.durable());
    }
}

/// When each target moves, and when the rollout is over.
type Course = (BTreeMap<AssetId, Timestamp>, Timestamp);

fn run(rig: &mut Rig) -> Course {
    let to = rig.plane.latest.no().0;
    let mut moved = BTreeMap::new();
    rig.run();
    for _ in 0..LONG {
        let now = rig.now.wall;
        for asset in rig.at(to) {
            moved.entry(super::rig::id(asset)).or_insert(now);
        }
        if !rig.view().live {
            return (moved, now);
        }
        rig.pass(SECOND);
    }
    panic!("the rollout has not ended: {:?}", rig.view());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    #[test]
    fn preview_is_the_run_to_the_second(
        policy in policies(),
        clusters in prop::collection::vec(any::<u8>(), 1..=NAMES.len()),
        lag in 1..100_u64,
    ) {
        let lag = Duration::from_secs(lag);
        // No check comes in the very second in which a target settles: it would not count for that target.
        let only_awaited = config().validate_every(SECOND * LONG);
        let mut rig = Rig::with(only_awaited, policy, assets(1, &clusters));
        rig.pass(SECOND * LONG);
        rig.lag = Some(lag);
        rig.together = true;
        let request = begin(&mut rig, assets(2, &clusters));
        let schedule = preview(&policy::standard(), request, lag).unwrap();
        let steps = schedule.steps.iter();
        let expected = steps.flat_map(|step| step.selected.iter().map(|id| (id.clone(), step.at)));
        let expected: Course = (expected.collect(), schedule.done);
        prop_assert_eq!(run(&mut rig), expected);
    }
}

#[test]
fn r18_wave_that_is_smaller_than_the_one_before_bakes_what_that_had() {
    let wave = |percent, bake_secs| Wave {
        upto: Amount::Percent(percent),
        bake_secs,
    };
    let policy = RolloutPolicy {
        waves: vec![wave(58, 0), wave(1, 82)],
        max_in_flight: Some(1),
        ..RolloutPolicy::default()
    };
    let (lag, clusters) = (2 * SECOND, [0; 5]);
    let only_awaited = config().validate_every(SECOND * LONG);
    let mut rig = Rig::with(only_awaited, policy, assets(1, &clusters));
    rig.pass(SECOND * LONG);
    rig.lag = Some(lag);
    rig.together = true;
    begin(&mut rig, assets(2, &clusters));
    let (moved, _) = run(&mut rig);
    let moved: Vec<Timestamp> = moved.into_values().collect();
    assert_eq!(moved[3], moved[2] + lag + 82 * SECOND);
    assert_eq!(moved[4], moved[3] + lag);
}
