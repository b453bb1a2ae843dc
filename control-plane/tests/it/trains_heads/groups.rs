//! Groups that come, go and change while they are stages of a train of heads.

use std::time::Duration;

use control_plane::strategist::train::{Command, Idle};
use serde_json::json;

use super::{MANIFEST, Train, of_size};
use crate::{by_edits::World, rollouts::passes, world::LONG};

/// The manifest with all services of this size, and one more stage at the end, which has this service.
fn wider(size: u64, service: &str) -> String {
    let services = of_size(size).replace("policies:", &format!("{service}policies:\n  jp: {{}}"));
    format!("{services}      - {{name: jp, policy: {{$asset: jp}}}}\n")
}

#[tokio::test(start_paused = true)]
async fn r104_group_that_is_new_waits_for_its_turn() {
    let train = Train::new().await;
    train.tell(Command::HoldStage("us".into())).await.unwrap();
    train.edit(&wider(2, "  e: {size: 7, group: jp}\n")).await;
    let e = |train: &Train| train.world.production.size("e");
    train.tell(Command::HoldStage("jp".into())).await.unwrap();
    train.until([20, 20, 10, 10]).await;
    assert_eq!(e(&train), None);
    let train = train.restart().await;
    passes(Duration::from_secs(60)).await;
    assert_eq!(e(&train), None, "the versions before it are not ripe");
    for stage in ["us", "jp"] {
        let release = Command::ReleaseStage(stage.into());
        train.tell(release).await.unwrap();
    }
    train.settles("the second incarnation is ripe").await;
    assert_eq!((train.sizes(), e(&train)), ([20; 4], Some(70)));
    train.running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r104_stage_without_assets_holds_up_nothing() {
    let train = Train::new().await;
    train.edit(&wider(2, "")).await;
    train.settles("the second incarnation is ripe").await;
    assert_eq!(train.has().await, vec![json!("world@2"); 4]);
    train.edit(&wider(4, "  e: {size: 7, group: jp}\n")).await;
    train.until([40, 40, 20, 20]).await;
    assert_eq!(train.world.production.size("e"), None);
    train.settles("the third incarnation is ripe").await;
    assert_eq!(train.world.production.size("e"), Some(70));
    train.running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r104_asset_that_moves_to_an_earlier_group_leaves_the_later_one() {
    let train = Train::new().await;
    // The last group updates `c`, and `d` much later.
    let slow =
        |size: u64| of_size(size).replace("max_in_flight: 1", "canary: {count: 1, bake_secs: 900}");
    train.edit(&slow(2)).await;
    train.until([20, 20, 20, 10]).await;
    let moved = slow(4).replace("d: {size: 4, group: us}", "d: {size: 4, group: canary}");
    train.edit(&moved).await;
    train.until([40, 20, 20, 40]).await;
    for _ in 0..500 {
        passes(Duration::from_secs(3)).await;
        assert_eq!(train.sizes()[3], 40, "it goes back to no older content");
    }
    train.settles("the last incarnation is ripe").await;
    assert_eq!(train.sizes(), [40; 4]);
    train.running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r104_group_that_is_split_keeps_its_content() {
    let train = Train::new().await;
    train.edit(&of_size(2)).await;
    train.until([20, 20, 10, 10]).await;
    let split = wider(2, "").replace("d: {size: 2, group: us}", "d: {size: 2, group: jp}");
    train.edit(&split).await;
    passes(Duration::from_secs(60)).await;
    assert_eq!(
        train.sizes(),
        [20, 20, 10, 10],
        "the version is not ripe before it"
    );
    let train = train.restart().await;
    passes(Duration::from_secs(60)).await;
    assert_eq!(train.sizes(), [20, 20, 10, 10]);
    train.settles("the last incarnation is ripe").await;
    assert_eq!(train.sizes(), [20; 4]);
    train.running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r104_group_of_two_trains_takes_no_version_and_says_why() {
    let train = Train::new().await;
    let stages = "    carries: head\n    stages:\n      - {name: one, policy: {$asset: us}}\n";
    train
        .edit(&format!("{}  second:\n{stages}", of_size(2)))
        .await;
    train.until([20, 20, 10, 10]).await;
    passes(Duration::from_secs(600)).await;
    assert_eq!(train.sizes(), [20, 20, 10, 10]);
    for view in train.running.handle.trains().all().await.unwrap() {
        let last = view.stages.last().unwrap();
        let Err(Idle::Refused(why, _)) = &last.next else {
            panic!("{last:?}");
        };
        assert!(why.contains("is a stage of another train"), "{why}");
    }
    train.running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r104_groups_of_edits_become_stages_when_they_are_updated_by_pins() {
    let (without, _) = MANIFEST.split_once("trains:").unwrap();
    let mut edits = without.to_owned();
    for group in ["eu", "us"] {
        edits = edits.replace(
            &format!("  {group}: {{"),
            &format!("  {group}: {{update: edits, "),
        );
    }
    let world = World::with(&edits);
    let running = world.start().await;
    let train = Train { world, running };
    train.edit(&of_size(2)).await;
    train.until([20; 4]).await;
    train.edit(&of_size(4)).await;
    passes(Duration::from_secs(60)).await;
    assert_eq!(train.sizes(), [20; 4], "the first group bakes");
    train.settles("the last incarnation is ripe").await;
    assert_eq!(train.sizes(), [40; 4]);
    train.running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r104_groups_that_come_with_their_train_wait_for_their_turns() {
    let world = World::with("services:\n  x: {size: 1, group: other}\npolicies:\n  other: {}\n");
    let running = world.start().await;
    let train = Train { world, running };
    let other = "  x: {size: 1, group: other}\npolicies:\n  other: {}";
    let gradual = MANIFEST.replace("canary: {", "canary: {first_turnup: gradual, ");
    train.edit(&gradual.replace("policies:", other)).await;
    train.until([10, 0, 0, 0]).await;
    passes(Duration::from_secs(20)).await;
    let train = train.restart().await;
    passes(Duration::from_secs(20)).await;
    assert_eq!(train.sizes(), [10, 0, 0, 0]);
    train.settles("the incarnation is ripe").await;
    assert_eq!(train.sizes(), [10; 4]);
    train.running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r104_groups_follow_the_newest_incarnation_without_the_train() {
    let train = Train::new().await;
    train.edit(&of_size(2)).await;
    train.until([20, 10, 10, 10]).await;
    let (without, _) = MANIFEST.split_once("trains:").unwrap();
    train.edit(&without.replace("size: 1", "size: 2")).await;
    train.until([20; 4]).await;
    train.running.handle.settle(LONG).await.unwrap();
    train.running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r104_policy_of_the_newest_incarnation_holds_at_once() {
    let train = Train::new().await;
    let held = of_size(2).replace("canary: {", "canary: {hold: the show is on, ");
    train.edit(&held).await;
    passes(Duration::from_secs(600)).await;
    assert_eq!(train.sizes(), [10; 4]);
    // The group is not free for the incarnation that lifts the hold.
    train.edit(&of_size(4)).await;
    train.until([20, 10, 10, 10]).await;
    train.settles("the incarnation is ripe").await;
    assert_eq!(train.sizes(), [40; 4]);
    train.running.stop().await;
}
