//! R101 to R103: changes over takeovers, beside a person, and requested twice.

use std::time::Duration;

use control_plane::strategist::State;

use crate::{
    roll_out::{MANIFEST, NAMES, WEEK, World, change, dark_mode},
    rollouts::{passes, until},
    world::{LONG, ann, id, write},
};

#[tokio::test(start_paused = true)]
async fn r22_takeover_during_the_way_back_rolls_nothing_out_again() {
    let world = World::new();
    let running = world.start().await;
    let bad = change("version-3", "halves").set("size", 3);
    let bad = running.handle.roll_out(&bad, ann()).await.unwrap();
    until(&running, "two are updated", || world.of_size(30) == 2).await;
    world.production.state().broken.extend(NAMES.map(id));
    let going_back = || world.text().matches("size: 3").count() == 0;
    until(&running, "the fields are restored", going_back).await;
    running.stop().await;
    world.production.state().broken.clear();
    let running = world.start().await;
    let over = running.handle.wait_roll_out(&bad.key, WEEK).await.unwrap();
    assert!(
        matches!(over.state, State::RolledBack { .. }),
        "{:?}",
        over.state
    );
    assert_eq!(over.id.0, 1, "the failed content was rolled out again");
    passes(Duration::from_secs(3600)).await;
    assert_eq!((world.text().as_str(), world.of_size(10)), (MANIFEST, 4));
    assert!(running.handle.held_fields().await.unwrap().is_empty());
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r103_person_who_mends_the_bad_target_does_not_complete_the_change() {
    let world = World::new();
    let running = world.start().await;
    let bad = change("version-3", "slowly").set("size", 3);
    let bad = running.handle.roll_out(&bad, ann()).await.unwrap();
    until(&running, "the canary is updated", || world.of_size(30) == 1).await;
    let mended = world.text().replace("size: 3", "size: 2");
    write(world.dir.path(), &mended);
    let over = running.handle.wait_roll_out(&bad.key, WEEK).await.unwrap();
    running.handle.settle(LONG).await.unwrap();
    assert!(
        matches!(over.state, State::RolledBack { .. }),
        "{:?}",
        over.state
    );
    assert_eq!(world.text(), mended);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r101_target_with_two_fields_gets_both_or_none() {
    let world = World::new();
    let running = world.start().await;
    let both = change("both", "slowly").set("size", 2).set("flag", true);
    let both = running.handle.roll_out(&both, ann()).await.unwrap();
    until(&running, "the canary is updated", || world.of_size(21) == 1).await;
    // A person decides about one of the two fields of a target that has not had its turn.
    let text = world
        .text()
        .replace("c: {size: 1, flag: false", "c: {size: 1, flag: null");
    write(world.dir.path(), &text.replace("flag: null", "flag: true"));
    write(
        world.dir.path(),
        &world.text().replace("d: {size: 1", "d: {size: 7"),
    );
    let over = running.handle.wait_roll_out(&both.key, WEEK).await.unwrap();
    assert_eq!(over.state, State::Completed);
    let lines = world.text();
    assert!(lines.contains("d: {size: 7, flag: false"), "{lines}");
    assert!(lines.contains("c: {size: 2, flag: true"), "{lines}");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r101_change_that_is_begun_twice_at_once_is_one() {
    let world = World::new();
    let running = world.start().await;
    let change = dark_mode();
    let (one, other) = tokio::join!(
        running.handle.roll_out(&change, ann()),
        running.handle.roll_out(&change, ann()),
    );
    let key = one.unwrap().key;
    match other {
        Ok(other) => assert_eq!(other.key, key),
        Err(error) => assert!(error.to_string().contains("about to begin"), "{error}"),
    }
    let over = running.handle.wait_roll_out(&key, WEEK).await.unwrap();
    assert_eq!(
        (over.state, world.production.pushes()),
        (State::Completed, 8)
    );
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r17_word_pins_waits_for_the_end_of_a_change_also_after_a_takeover() {
    let world = World::new();
    let running = world.start().await;
    let rolling = running.handle.roll_out(&dark_mode(), ann()).await.unwrap();
    until(&running, "the canary is updated", || world.of_size(11) == 1).await;
    write(
        world.dir.path(),
        &world.text().replace("{update: edits}", "{update: pins}"),
    );
    running.handle.settle(LONG).await.unwrap();
    running.stop().await;
    let running = world.start().await;
    let views = running.handle.rollouts().await.unwrap();
    let group = views
        .iter()
        .find(|view| view.policy == id("edits"))
        .unwrap();
    let waits = group.update_waits.as_deref();
    assert_eq!(
        waits,
        Some("waits for the end of the changes of its assets")
    );
    running
        .handle
        .wait_roll_out(&rolling.key, WEEK)
        .await
        .unwrap();
    passes(LONG).await;
    let views = running.handle.rollouts().await.unwrap();
    let group = views
        .iter()
        .find(|view| view.policy == id("edits"))
        .unwrap();
    assert!(group.update.is_pins() && group.update_waits.is_none());
    running.stop().await;
}
