//! Goals: how far production is from values that it should have by a time.

use std::time::Duration;

use control_plane::{Asks, GoalView};
use serde_json::json;

use crate::{
    by_edits::{MANIFEST, World, dark_mode},
    rollouts::{passes, until},
    world::{LONG, Running, ann, id, write},
};

fn wanting(goal: &str) -> String {
    format!("{MANIFEST}goals:\n  dark: {{targets: {{types: [world.v1.Service]}}, {goal}}}\n")
}

async fn goal(running: &Running) -> GoalView {
    running.handle.goals().await.unwrap().remove(0)
}

fn missing(view: &GoalView) -> Vec<&str> {
    let missing = view.missing.iter();
    missing.map(|it| it.asset.as_str()).collect()
}

#[tokio::test(start_paused = true)]
async fn goal_shows_which_assets_are_not_there_and_why() {
    let world = World::with(&wanting(
        "field: flag, value: true, by: 2099-01-01T00:00:00Z",
    ));
    let running = world.start().await;
    let view = goal(&running).await;
    assert_eq!((view.asset.clone(), view.targets), (id("dark"), 4));
    assert_eq!(missing(&view), ["a", "b", "c", "d"]);
    assert!(!view.is_late && !view.is_reached());
    let first = &view.missing[0];
    assert_eq!(first.has, Some(json!(false)));
    assert_eq!(first.why, "no live change and no program has set it");

    let rolling = running.handle.roll_out(&dark_mode(), ann()).await.unwrap();
    until(&running, "the canary is updated", || world.of_size(11) == 1).await;
    passes(Duration::from_secs(5)).await;
    let view = goal(&running).await;
    assert_eq!(missing(&view), ["b", "c", "d"]);
    let status = running.handle.status().await.unwrap();
    assert_eq!(
        status.goals[&id("dark")],
        "1 of 4 have flag = true, due 2099-01-01T00:00:00Z"
    );
    let explained = running.handle.explain(&id("dark")).await.unwrap();
    let asks = explained.asks().cloned();
    assert_eq!(asks, Some(Asks::Goal(view.clone())));
    let why = &view.missing[0].why;
    assert!(
        why.contains("`rollout/dark-mode#1` has it in hand, and waits: "),
        "{why}"
    );

    running
        .handle
        .wait_roll_out(&rolling.key, LONG)
        .await
        .unwrap();
    assert!(goal(&running).await.is_reached());
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn goal_is_late_after_its_time_and_waits_for_production() {
    let world = World::with(&wanting("field: size, value: 2, by: 2020-01-01T00:00:00Z"));
    let running = world.start().await;
    assert!(goal(&running).await.is_late);
    let scope = control_plane::PauseScope::Asset(id("b"));
    running.handle.pause(scope, ann(), None).await.unwrap();
    write(
        world.dir.path(),
        &world.text().replace("size: 1", "size: 2"),
    );
    until(&running, "the others are updated", || {
        world.of_size(20) == 3
    })
    .await;
    let view = goal(&running).await;
    assert_eq!(missing(&view), ["b"]);
    let first = &view.missing[0];
    assert!(
        first.why.contains("the source has the value") && first.why.contains("paused"),
        "{}",
        first.why
    );
    assert!(view.is_late);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn goal_for_no_asset_is_not_reached_and_one_without_a_field_is_refused() {
    let named = wanting("field: flag, value: true, by: 2099-01-01T00:00:00Z");
    let world = World::with(&named.replace("types: [world.v1.Service]", "under: nowhere"));
    let running = world.start().await;
    let view = goal(&running).await;
    assert_eq!((view.targets, view.is_reached()), (0, false));
    write(
        world.dir.path(),
        &wanting("field: \"\", value: true, by: 2099-01-01T00:00:00Z"),
    );
    let refused = running.handle.dry_run(&[]).await.unwrap_err().to_string();
    assert!(
        refused.contains("payload.field") && refused.contains("must be a field"),
        "{refused}"
    );
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn goal_is_not_reached_by_an_edit_that_no_incarnation_has_or_that_a_rollout_has_not_brought()
{
    let goal_of = "field: size, value: 2, by: 2099-01-01T00:00:00Z";
    let of_pins = wanting(goal_of).replace("group: edits", "group: slowly");
    let world = World::with(&of_pins);
    let running = world.start().await;
    let bad = world
        .text()
        .replace("size: 1", "size: 2")
        .replace("pins: {}", "pins: {bake: x}");
    write(world.dir.path(), &bad);
    passes(LONG).await;
    let view = goal(&running).await;
    assert_eq!(missing(&view).len(), 4);
    let first = &view.missing[0];
    assert_eq!(first.has, Some(json!(1)), "as of the last good run");

    write(world.dir.path(), &of_pins.replace("size: 1", "size: 2"));
    until(&running, "the canary is updated", || world.of_size(20) == 1).await;
    passes(Duration::from_secs(5)).await;
    let view = goal(&running).await;
    assert_eq!(missing(&view), ["b", "c", "d"]);
    let why = &view.missing[0].why;
    assert!(why.contains("its rollout has not reached it"), "{why}");
    running.stop().await;
}
