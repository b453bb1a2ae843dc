//! The judge's view of single commits, without processes.

use std::sync::Arc;

use control_plane_store::{Batch, memory::Point, record};
use plugin_sdk::GroupHead;
use prodspec_model::{IncarnationNo, rollout::RolloutPolicy};

use super::*;
use crate::{
    executor::NodeId,
    intent::{Group, partition, policy_id},
    scenario::Scenario,
    store::ProcessStore,
    world::{Accepted, World},
};

/// The asset of the only policy group.
const ASSET: usize = 10;

/// Latency of the store's acknowledgement.
const LATE: Duration = Duration::from_secs(5);

/// A world in which three incarnations give [`ASSET`] the marks 1, 2 and 3, and whose group has completed the first. The
/// store acknowledges commits late.
fn late_world() -> World {
    let scenario = Scenario::choose(0);
    let world = World::new(0, scenario);
    let mut state = world.state();
    state.plan.groups = vec![Group {
        policy: RolloutPolicy::default(),
        loose: true,
    }];
    for wish in &mut state.plan.wishes {
        wish.group = None;
    }
    let wish = &mut state.plan.wishes[ASSET];
    (wish.pool, wish.steady, wish.group) = (true, true, Some(0));
    let plan = Arc::new(state.plan.clone());
    for no in 1..=3 {
        let marks = BTreeMap::from([(ASSET, u64::from(no))]);
        let plan = plan.clone();
        state
            .sealed
            .accepted
            .insert(no, vec![Accepted { plan, marks }]);
    }
    state.judge.groups[0].head = Some(1);
    let executor = world.executor.clone();
    state.store.set_pause(move |point| {
        let late = if point == Point::BeforeAck {
            LATE
        } else {
            Duration::ZERO
        };
        Box::pin(executor.sleep(late))
    });
    drop(state);
    world
}

/// Commits the second incarnation as the group's head.
fn complete(world: &World) {
    let store = ProcessStore::open(world, NodeId::WORLD);
    world.spawn(async move {
        let head = GroupHead::At(IncarnationNo(2));
        let mut batch = Batch::new();
        let head = record::put(&partition(), policy_id(0).as_str(), &head);
        batch.writes.push(head.unwrap());
        store.commit(batch).await.unwrap();
    });
}

fn gets(world: &World, mark: u64) {
    let mut state = world.state();
    let now = state.now;
    state.judge.eyes[ASSET].gets(Some(mark), now);
}

fn pass(world: &World, time: Duration) {
    let now = world.executor.now();
    world.executor.run_until(now + time);
}

#[test]
fn r21_a_head_is_judged_when_its_commit_is_made_not_when_it_is_acknowledged() {
    let world = late_world();
    gets(&world, 2);
    complete(&world);
    pass(&world, LATE / 2);
    assert_eq!(world.state().judge.groups[0].head, Some(1));
    // A newer rollout moves the asset before the acknowledgement.
    gets(&world, 3);
    pass(&world, LATE);
    let state = world.state();
    assert_eq!(state.judge.violation, None);
    assert_eq!(state.judge.groups[0].head, Some(2));
}

#[test]
fn r21_a_head_that_is_committed_before_its_content_arrives_is_caught() {
    let world = late_world();
    gets(&world, 1);
    complete(&world);
    pass(&world, LATE / 2);
    gets(&world, 2);
    pass(&world, LATE);
    let state = world.state();
    let found = state.judge.violation.as_ref().map(|found| found.invariant);
    assert_eq!(found, Some("R21"));
}

#[test]
fn r21_bad_health_of_newer_content_does_not_undo_a_bake() {
    let world = late_world();
    let bake = Duration::from_secs(10);
    gets(&world, 2);
    pass(&world, bake / 2);
    let mut state = world.state();
    let seen = state.now;
    state.judge.eyes[ASSET].seen(seen, true);
    state.judge.eyes[ASSET].gets(Some(3), seen);
    state.judge.eyes[ASSET].seen(seen, false);
    assert!(
        !state.is_over(ASSET, 2, bake, seen),
        "half of the bake is left"
    );
    assert!(
        state.is_over(ASSET, 2, bake / 2, seen),
        "its own samples were healthy"
    );
    assert!(
        !state.is_over(ASSET, 3, Duration::ZERO, seen),
        "the newer content is bad"
    );
}

#[test]
fn r18_content_that_was_over_when_another_asset_was_selected_stays_over_for_it() {
    let world = late_world();
    let bake = Duration::from_secs(10);
    gets(&world, 2);
    pass(&world, bake);
    let mut state = world.state();
    let selected = state.now;
    state.judge.eyes[ASSET].seen(selected, true);
    drop(state);
    for mark in [3, 1] {
        pass(&world, bake);
        gets(&world, mark);
    }
    let state = world.state();
    assert!(state.is_over(ASSET, 2, bake, selected));
    assert!(!state.is_over(ASSET, 2, bake, state.now), "too long ago");
}
