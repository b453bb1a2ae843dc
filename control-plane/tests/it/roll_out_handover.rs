//! R18: a person hands a live change over to other values of the same fields.

use std::time::Duration;

use control_plane::{
    model::rollout::RollOut,
    strategist::{Command, State},
};

use crate::{
    by_edits::{MANIFEST, WEEK, World, change},
    rollouts::{passes, until},
    world::{LONG, Running, ann, id, write},
};

const BAKES: Duration = Duration::from_secs(50);

fn version(size: u64) -> RollOut {
    change("version", "slowly").set("size", size)
}

async fn begins(running: &Running, size: u64) {
    running
        .handle
        .roll_out(&version(size), ann())
        .await
        .unwrap();
}

async fn hand_over(running: &Running, size: u64) {
    let handed = running.handle.hand_over(&version(size), ann()).await;
    assert_eq!(handed.unwrap().targets, 4);
}

async fn over(running: &Running) -> State {
    let key = id("rollout/version");
    let over = running.handle.wait_roll_out(&key, WEEK);
    let state = over.await.unwrap().state;
    running.handle.settle(LONG).await.unwrap();
    state
}

/// A world in which the canary has version 2, and bakes.
async fn with_canary() -> (World, Running) {
    let world = World::new();
    let running = world.start().await;
    begins(&running, 2).await;
    until(&running, "the canary has 2", || world.of_size(20) == 1).await;
    (world, running)
}

#[tokio::test(start_paused = true)]
async fn r18_handed_over_change_sets_the_other_values_everywhere_and_bakes_anew() {
    let (world, running) = with_canary().await;
    passes(BAKES).await;
    hand_over(&running, 4).await;
    until(&running, "the canary has 4", || world.of_size(40) == 1).await;
    passes(BAKES).await;
    let text = MANIFEST.replace("a: {size: 1", "a: {size: 4");
    assert_eq!(world.text(), text, "it bakes anew");
    assert_eq!(over(&running).await, State::Completed);
    assert_eq!(world.text(), MANIFEST.replace("size: 1", "size: 4"));
    // Four turnups, the canary with 2, and all with 4.
    assert_eq!((world.of_size(40), world.production.pushes()), (4, 9));
    let again = running.handle.roll_out(&version(4), ann()).await.unwrap();
    assert_eq!(again.targets, 0, "it is this change now");
    passes(LONG).await;
    assert!(running.handle.held_fields().await.unwrap().is_empty());
    let key = id("rollout/version");
    let past = running.handle.past_rollouts(&key).await.unwrap();
    let states: Vec<&str> = past.iter().map(|it| it.state.word()).collect();
    assert_eq!(states, ["superseded", "completed"]);
    let handed = &past[0].history.iter().find(|it| it.what.contains("handed"));
    assert_eq!(handed.unwrap().what, "handed over to `size` = 4");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r18_way_back_of_a_handed_over_change_leads_to_before_the_first() {
    for moved_again in [false, true] {
        let (world, running) = with_canary().await;
        // Sizes 3 are sick.
        hand_over(&running, if moved_again { 3 } else { 4 }).await;
        if !moved_again {
            let key = id("rollout/version");
            let back = running.handle.tell_rollout(&key, Command::RollBack, ann());
            back.await.unwrap();
        }
        let state = over(&running).await;
        assert!(matches!(state, State::RolledBack { .. }), "{state:?}");
        assert_eq!(world.text(), MANIFEST);
        assert_eq!(world.of_size(10), 4);
        running.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn r18_next_owner_continues_a_handed_over_change() {
    for after in [0, 1, 5, 20, 70, 130] {
        let (world, running) = with_canary().await;
        hand_over(&running, 4).await;
        passes(Duration::from_secs(after)).await;
        running.stop().await;
        let running = world.start().await;
        assert_eq!(over(&running).await, State::Completed, "after {after} s");
        assert_eq!(world.text(), MANIFEST.replace("size: 1", "size: 4"));
        passes(LONG).await;
        assert!(running.handle.held_fields().await.unwrap().is_empty());
        running.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn r18_change_is_handed_over_again_and_back_to_earlier_values() {
    let (world, running) = with_canary().await;
    for (size, after) in [(4, 0), (5, 1), (2, 40), (6, 59), (7, 0), (6, 3)] {
        hand_over(&running, size).await;
        passes(Duration::from_secs(after)).await;
    }
    running.stop().await;
    let running = world.start().await;
    assert_eq!(over(&running).await, State::Completed);
    assert_eq!(world.text(), MANIFEST.replace("size: 1", "size: 6"));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r18_assets_that_had_the_values_are_handed_over_too() {
    for takeover in [false, true] {
        let world = World::with(&MANIFEST.replace("d: {size: 1", "d: {size: 2"));
        let running = world.start().await;
        let begun = running.handle.roll_out(&version(2), ann()).await;
        assert_eq!(begun.unwrap().targets, 3);
        let handed = running.handle.hand_over(&version(4), ann()).await;
        assert_eq!(handed.unwrap().targets, 3);
        let running = match takeover {
            true => {
                running.stop().await;
                world.start().await
            }
            false => running,
        };
        assert_eq!(over(&running).await, State::Completed);
        assert_eq!(world.text(), MANIFEST.replace("size: 1", "size: 4"));
        running.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn r103_person_s_values_stay_when_a_change_is_handed_over() {
    let (world, running) = with_canary().await;
    let text = world.text().replace("a: {size: 2", "a: {size: 7");
    let text = text.replace("b: {size: 1", "b: {size: 8");
    write(
        world.dir.path(),
        &text.replace("c: {size: 1", "c: {size: 4"),
    );
    // Some have left the change by then.
    running.handle.generation().await.unwrap().next_run().await;
    passes(Duration::from_secs(20)).await;
    let handed = running.handle.hand_over(&version(4), ann()).await;
    assert!(handed.unwrap().targets < 4);
    assert_eq!(over(&running).await, State::Completed);
    let expected = MANIFEST.replace("size: 1", "size: 4");
    let expected = expected.replace("a: {size: 4", "a: {size: 7");
    assert_eq!(world.text(), expected.replace("b: {size: 4", "b: {size: 8"));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r18_asset_that_comes_after_a_handover_gets_the_other_values() {
    let (world, running) = with_canary().await;
    hand_over(&running, 4).await;
    let two = "  e: {size: 2, flag: false, group: edits}\n  f: {size: 1, flag: false, group: edits}\npolicies:";
    write(world.dir.path(), &world.text().replace("policies:", two));
    assert_eq!(over(&running).await, State::Completed);
    // An entry that was copied from one with 2 is one of the change's, too.
    let ours = ["e", "f"].map(|name| world.production.size(name));
    assert_eq!((world.of_size(40), ours), (4, [Some(40); 2]));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r18_declared_change_is_handed_over_to_its_new_content_by_a_command() {
    let declared = |size| {
        let of = format!(
            "{{name: version, policy: {{$asset: slowly}}, set: {{size: {size}}}, on: {{types: [world.v1.Service]}}}}"
        );
        format!("changes:\n  - {of}\n")
    };
    let world = World::with(&format!("{MANIFEST}{}", declared(2)));
    let running = world.start().await;
    until(&running, "the canary has 2", || world.of_size(20) == 1).await;
    write(
        world.dir.path(),
        &world.text().replace(&declared(2), &declared(4)),
    );
    running.handle.generation().await.unwrap().next_run().await;
    passes(Duration::from_secs(10)).await;
    assert_eq!(world.of_size(20), 1, "it waits for its end");
    let other = running.handle.hand_over(&version(5), ann()).await;
    let other = other.unwrap_err().to_string();
    assert!(other.contains("is an asset of other content"), "{other}");
    let key = id("rollout/version");
    let handed = running.handle.tell_rollout(&key, Command::HandOver, ann());
    handed.await.unwrap();
    assert_eq!(over(&running).await, State::Completed);
    passes(LONG).await;
    let text = format!("{MANIFEST}{}", declared(4));
    assert_eq!(world.text(), text.replace("{size: 1,", "{size: 4,"));
    let past = running.handle.past_rollouts(&key).await.unwrap();
    assert_eq!(past.len(), 2, "it does not begin again");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r18_handover_that_cannot_be_made_changes_nothing() {
    let (world, running) = with_canary().await;
    let flag = change("version", "slowly").set("flag", true);
    let both = version(4).set("flag", true);
    let refusals = [
        (version(2), "`version` sets these values already"),
        (flag, "differs from `version` in more"),
        (both, "differs from `version` in more"),
        (change("version", "flags").set("size", 4), "in more"),
        (
            change("other", "slowly").set("size", 4),
            "is no live change",
        ),
        (version(4).set("size", "many"), "invalid type"),
    ];
    let text = world.text();
    for (change, why) in refusals {
        let refused = running.handle.hand_over(&change, ann()).await.unwrap_err();
        let refused = plugin_sdk::with_causes(&refused);
        assert!(refused.contains(why), "{refused}");
    }
    let key = id("rollout/version");
    let bare = running.handle.tell_rollout(&key, Command::HandOver, ann());
    let bare = bare.await.unwrap_err().to_string();
    assert!(
        bare.contains("hand it over with the other values"),
        "{bare}"
    );
    assert_eq!(world.text(), text);
    assert_eq!(over(&running).await, State::Completed);
    assert_eq!(world.text(), MANIFEST.replace("size: 1", "size: 2"));
    let late = running.handle.hand_over(&version(4), ann()).await;
    let late = late.unwrap_err().to_string();
    assert!(late.contains("is no live change"), "{late}");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r22_target_that_a_handover_leaves_out_goes_back_by_its_field() {
    let world = World::new();
    let running = world.start().await;
    let version = |size: u64| change("version", "halts").set("size", size);
    let key = id("rollout/version");
    // Sizes 3 are sick: it stops.
    running.handle.roll_out(&version(3), ann()).await.unwrap();
    let stopped = running.handle.wait_roll_out(&key, WEEK).await.unwrap();
    assert!(
        matches!(stopped.state, State::Stopped { .. }),
        "{stopped:?}"
    );
    running.handle.hand_over(&version(4), ann()).await.unwrap();
    until(&running, "the canary has 4", || world.of_size(40) == 1).await;
    let new = "  e: {size: 1, flag: false, group: edits}\npolicies:";
    write(world.dir.path(), &world.text().replace("policies:", new));
    running.handle.generation().await.unwrap().next_run().await;
    passes(Duration::from_secs(10)).await;
    // Of the five, only the one that has come has not failed with 3.
    running.handle.hand_over(&version(3), ann()).await.unwrap();
    passes(LONG).await;
    // By its field, not by a pin.
    assert!(world.text().contains("a: {size: 1,"), "{}", world.text());
    assert_eq!(world.production.size("a"), Some(10), "it has gone back");
    running.stop().await;
}
