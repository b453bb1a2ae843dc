//! Capacity policies in intent, through the whole control plane (R109).

use std::time::Duration;

use super::{World, are_refused};
use crate::{
    rollouts::{passes, until},
    world::{LONG, id},
};

/// A policy by which the services keep the largest `busy` of a day.
const CAPACITY: &str = "capacity/all: {type: CapacityPolicy, of: {types: [world.v1.Service]}, unit: size, \
    usage: {expression: busy}, peak: {window: 1d}}";

/// A manifest with services of these sizes, and policies.
fn sizes(a: u64, b: u64, check: &str) -> String {
    format!("services: {{a: {{size: {a}}}, b: {{size: {b}}}}}\nchecks: {{{check}}}\n")
}

#[tokio::test(start_paused = true)]
async fn r109_capacity_grows_before_it_shrinks_and_stays_at_the_peak() {
    let world = World::start("").await;
    *world.server.0.busy.lock().unwrap() = 150.0;
    world.text.edit(&sizes(100, 100, CAPACITY));
    world.all_have(100).await;
    // Together they have less than the peak while only `a` has changed.
    world.text.edit(&sizes(40, 160, CAPACITY));
    let (a, b) = ("a", "b");
    let size = |name| world.production.size(name);
    until(&world.running, "both are pushed", || {
        (size(a), size(b)) == (Some(40), Some(160))
    })
    .await;
    let order = world.production.state().pushes.clone();
    assert_eq!(order[order.len() - 2..], [id("b"), id("a")]);
    // Halving both would leave too little, whichever goes first.
    world.text.edit(&sizes(20, 80, CAPACITY));
    until(&world.running, "one is pushed", || size(a) == Some(20)).await;
    passes(LONG * 10).await;
    assert_eq!(size(b), Some(160));
    let shown = world.shown("b").await;
    assert!(
        shown.contains("would leave 100 size in all, 150 are needed (peak 150"),
        "{shown}"
    );
    assert!(shown.contains("policies/capacity/all"), "{shown}");
    // Nor is drift repaired while that takes away too much.
    world.production.state().broken.insert(id("b"));
    world.production.state().sizes.insert(id("b"), 120);
    passes(Duration::from_secs(1_000)).await;
    world.production.state().sizes.insert(id("a"), 35);
    passes(Duration::from_secs(1_000)).await;
    assert_eq!((size(a), size(b)), (Some(35), Some(120)));
    world.production.state().broken.clear();
    until(&world.running, "both are repaired", || {
        (size(a), size(b)) == (Some(20), Some(160))
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn r109_push_that_waits_for_capacity_goes_through_when_the_usage_falls() {
    let world = World::start("").await;
    *world.server.0.busy.lock().unwrap() = 150.0;
    world.text.edit(&sizes(100, 100, CAPACITY));
    world.all_have(100).await;
    world.text.edit(&sizes(20, 100, CAPACITY));
    let size = || world.production.size("a");
    passes(LONG).await;
    assert_eq!(size(), Some(100));
    *world.server.0.busy.lock().unwrap() = 100.0;
    passes(Duration::from_secs(23 * 3600)).await;
    assert_eq!(size(), Some(100), "the peak is of the last day");
    passes(Duration::from_secs(2 * 3600)).await;
    assert_eq!(size(), Some(20));
}

#[tokio::test(start_paused = true)]
async fn r109_capacity_policy_that_could_not_count_is_refused_with_its_field() {
    let wrong = [
        (
            "{type: CapacityPolicy, of: {}, unit: qps, usage: {expression: bsy}}",
            "payload.usage.expression: there is no metric `bsy`",
        ),
        (
            "{type: CapacityPolicy, of: {}, unit: qps, usage: {expression: busy, field: id}}",
            "payload.usage: needs an expression",
        ),
        (
            "{type: CapacityPolicy, of: {}, unit: qps, per: id, usage: {expression: busy}}",
            "payload.usage.label: `label` names the parts",
        ),
        (
            "{type: CapacityPolicy, of: {}, unit: qps, usage: {expression: busy}, peak: {window: 1h}}",
            "payload.peak.window: must be 1d to 30d",
        ),
    ];
    are_refused(&wrong).await;
}
