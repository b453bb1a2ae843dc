//! A preview says to the second when each target moves, if all is healthy, and if the reports of one moment are seen
//! together.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use plugin_sdk::{SelectRequest, Selection, TargetSelection, Until, service::NarrowLayer};
use prodspec_model::{
    Asset, AssetId,
    addons::{DependsOn, Edge, PhysicalCluster},
    rollout::{Amount, Canary, RolloutPolicy, Wave},
};
use proptest::prelude::*;
use tower::ServiceBuilder;

use super::rig::{P, Rig, config, of_group};
use crate::{kernel::Call, policy, preview::Schedule};

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

/// Assets in clusters. `edges`: which of them need capacity of which others.
fn assets(size: u64, clusters: &[u8], edges: &[(usize, usize)]) -> Vec<Asset> {
    let all = NAMES.iter().zip(clusters);
    let all = (0..).zip(all).map(|(at, (name, cluster))| {
        let asset = of_group(Some(P), name, size);
        let needs = edges
            .iter()
            .filter(|(from, to)| *from == at && *to < clusters.len());
        let needs = needs.map(|(_, to)| Edge::capacity(super::rig::id(NAMES[*to]), "qps"));
        let needs: Vec<Edge> = needs
            .filter(|edge| edge.provider.id.as_str() != *name)
            .collect();
        let asset = match needs.is_empty() {
            true => asset,
            false => asset.addon(&DependsOn { edges: needs }).unwrap(),
        };
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

/// Begins a rollout, up to its first question which targets may move.
fn begin(rig: &mut Rig, assets: Vec<Asset>) {
    rig.put(assets);
    while !rig
        .calls
        .iter()
        .any(|call| matches!(call, Call::Select(..)))
    {
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

/// The standard policies within the hours of a week: pins move in the first `open` seconds of every 1,000 only.
fn within_hours(open: u64) -> Arc<dyn TargetSelection> {
    let hours = move |request: &SelectRequest, beneath: Selection| {
        let into = request.now.as_second().rem_euclid(1000);
        if into < open as i64 {
            return beneath;
        }
        let opens =
            request.now - SignedDuration::from_nanos(request.now.subsec_nanosecond().into());
        let opens = opens + SignedDuration::from_secs(1000 - into);
        let closed = beneath.narrowed(|_| false);
        closed.waiting("outside of the hours", Until::Time(opens))
    };
    Arc::new(
        ServiceBuilder::new()
            .layer(NarrowLayer::new(hours))
            .service(policy::standard()),
    )
}

fn expected(schedule: Schedule) -> Course {
    let steps = schedule.steps.into_iter();
    let moves = steps.flat_map(|step| step.selected.into_iter().map(move |id| (id, step.at)));
    (moves.collect(), schedule.done)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    #[test]
    fn preview_is_the_run_to_the_second(
        policy in policies(),
        clusters in prop::collection::vec(any::<u8>(), 1..=NAMES.len()),
        edges in prop::collection::vec((0..NAMES.len(), 0..NAMES.len()), 0..4),
        lag in 1..100_u64,
        open in 100..=1000_u64,
    ) {
        let lag = Duration::from_secs(lag);
        // No check comes in the very second in which a target settles: it would not count for that target.
        let only_awaited = config().validate_every(SECOND * LONG);
        let mut rig = Rig::with(only_awaited, policy, assets(1, &clusters, &edges));
        rig.pass(SECOND * LONG);
        rig.lag = Some(lag);
        rig.together = true;
        rig.stack = within_hours(open);
        begin(&mut rig, assets(2, &clusters, &edges));
        let course = rig.kernel.course(rig.now).unwrap();
        let expected = expected(course.play(&*rig.stack, lag).unwrap());
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
    let mut rig = Rig::with(only_awaited, policy, assets(1, &clusters, &[]));
    rig.pass(SECOND * LONG);
    rig.lag = Some(lag);
    rig.together = true;
    begin(&mut rig, assets(2, &clusters, &[]));
    let (moved, _) = run(&mut rig);
    let moved: Vec<Timestamp> = moved.into_values().collect();
    assert_eq!(moved[3], moved[2] + lag + 82 * SECOND);
    assert_eq!(moved[4], moved[3] + lag);
}
