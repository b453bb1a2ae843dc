//! R101: changes set fields of a source for their targets, step by step, as their policy says.

use std::time::Duration;

use control_plane::{
    Error, RollOutRefused,
    model::{Filter, rollout::RollOut},
    strategist::{Command, State},
};

use crate::{
    by_edits::{MANIFEST, WEEK, World, change, dark_mode},
    rollouts::{passes, until},
    world::{LONG, Running, ann, id, write},
};

#[tokio::test(start_paused = true)]
async fn r101_flag_is_set_for_the_canary_first_and_for_all_in_the_end() {
    let world = World::new();
    let running = world.start().await;
    let rolling = running.handle.roll_out(&dark_mode(), ann()).await.unwrap();
    assert_eq!(
        (rolling.key.as_str(), rolling.targets),
        ("rollout/dark-mode", 4)
    );
    until(&running, "the canary is updated", || world.of_size(11) == 1).await;
    passes(Duration::from_secs(50)).await;
    assert_eq!((world.of_size(11), world.flags()), (1, 1), "it bakes");
    let same = running.handle.roll_out(&dark_mode(), ann()).await.unwrap();
    assert_eq!(same, rolling, "requested again, it is the same change");

    let over = running
        .handle
        .wait_roll_out(&rolling.key, WEEK)
        .await
        .unwrap();
    assert_eq!(over.state, State::Completed);
    assert_eq!(world.of_size(11), 4);
    assert_eq!(world.text(), MANIFEST.replace("flag: false", "flag: true"));
    assert_eq!(
        world.production.pushes(),
        8,
        "each target was pushed once for it"
    );
    passes(LONG).await;
    assert!(running.handle.held_fields().await.unwrap().is_empty());
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r102_bad_version_goes_back_and_leaves_the_flag_beside_it() {
    let world = World::new();
    let running = world.start().await;
    let flag = change("dark-mode", "flags").set("flag", true);
    let flag = running.handle.roll_out(&flag, ann()).await.unwrap();
    bad_version_goes_back(&running).await;
    let over = running.handle.wait_roll_out(&flag.key, WEEK).await.unwrap();
    assert_eq!(over.state, State::Completed);
    running.handle.settle(LONG).await.unwrap();
    assert_eq!(world.text(), MANIFEST.replace("flag: false", "flag: true"));
    assert_eq!(world.of_size(11), 4);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r102_evidence_from_before_the_way_back_of_another_change_does_not_count() {
    let mut world = World::new();
    world.window = Duration::from_secs(60);
    let running = world.start().await;
    let flag = change("dark-mode", "slowly").set("flag", true);
    let flag = running.handle.roll_out(&flag, ann()).await.unwrap();
    until(&running, "the flag is in the canary", || {
        world.of_size(11) == 1
    })
    .await;
    bad_version_goes_back(&running).await;
    // The next owner has it from the record.
    running.stop().await;
    let running = world.start().await;
    let over = running.handle.wait_roll_out(&flag.key, WEEK).await.unwrap();
    assert_eq!(over.state, State::Completed);
    assert_eq!(world.of_size(11), 4);
    running.stop().await;
}

async fn bad_version_goes_back(running: &Running) {
    let bad = change("version-3", "slowly").set("size", 3);
    let bad = running.handle.roll_out(&bad, ann()).await.unwrap();
    let over = running.handle.wait_roll_out(&bad.key, WEEK).await.unwrap();
    let State::RolledBack { .. } = over.state else {
        panic!("{:?}", over.state);
    };
}

#[tokio::test(start_paused = true)]
async fn r101_next_owner_continues_a_change_and_edits_no_target_twice() {
    let world = World::new();
    let running = world.start().await;
    let rolling = running.handle.roll_out(&dark_mode(), ann()).await.unwrap();
    until(&running, "the canary is updated", || world.of_size(11) == 1).await;
    running.stop().await;
    let running = world.start().await;
    assert_eq!(world.flags(), 1);
    let over = running
        .handle
        .wait_roll_out(&rolling.key, WEEK)
        .await
        .unwrap();
    assert_eq!(over.state, State::Completed);
    assert_eq!((world.of_size(11), world.production.pushes()), (4, 8));
    passes(LONG).await;
    assert!(running.handle.held_fields().await.unwrap().is_empty());
    running.stop().await;
    // The end is known under the next ownership, too.
    let running = world.start().await;
    let over = running
        .handle
        .wait_roll_out(&rolling.key, WEEK)
        .await
        .unwrap();
    assert_eq!(over.state, State::Completed);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r101_person_who_sets_a_field_takes_the_target_out_of_the_change() {
    let world = World::new();
    let running = world.start().await;
    let change = change("version-2", "slowly").set("size", 2);
    let rolling = running.handle.roll_out(&change, ann()).await.unwrap();
    until(&running, "the canary is updated", || world.of_size(20) == 1).await;
    // The second has its turn later.
    write(
        world.dir.path(),
        &world.text().replace("b: {size: 1", "b: {size: 7"),
    );
    let over = running
        .handle
        .wait_roll_out(&rolling.key, WEEK)
        .await
        .unwrap();
    assert_eq!(over.state, State::Completed);
    running.handle.settle(LONG).await.unwrap();
    let expected = MANIFEST
        .replace("size: 1", "size: 2")
        .replace("b: {size: 2", "b: {size: 7");
    assert_eq!(world.text(), expected);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r103_way_back_leaves_what_a_person_has_set_since() {
    let world = World::new();
    let running = world.start().await;
    let change = change("version-2", "halves").set("size", 2);
    let rolling = running.handle.roll_out(&change, ann()).await.unwrap();
    until(&running, "two are updated", || world.of_size(20) == 2).await;
    write(
        world.dir.path(),
        &world.text().replace("a: {size: 2", "a: {size: 7"),
    );
    running.handle.settle(LONG).await.unwrap();
    running
        .handle
        .tell_rollout(&rolling.key, Command::RollBack, ann())
        .await
        .unwrap();
    let over = running
        .handle
        .wait_roll_out(&rolling.key, WEEK)
        .await
        .unwrap();
    assert!(
        matches!(over.state, State::RolledBack { .. }),
        "{:?}",
        over.state
    );
    running.handle.settle(LONG).await.unwrap();
    assert_eq!(world.text(), MANIFEST.replace("a: {size: 1", "a: {size: 7"));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r101_targets_of_one_field_are_one_unit() {
    let manifest = MANIFEST.replace(
        "  b: {size: 1, flag: false, group: edits}",
        "  b: {size: 1, flag: false, group: edits, twin: true}",
    );
    let world = World::with(&manifest);
    let running = world.start().await;
    let one = dark_mode().on(Filter::ids([id("b")]));
    let outside = refused(&running, one).await;
    assert!(outside.contains("would change `b-twin`"), "{outside}");
    let rolling = running.handle.roll_out(&dark_mode(), ann()).await.unwrap();
    assert_eq!(rolling.targets, 5);
    let twins = || ["b", "b-twin"].map(|name| world.production.size(name));
    until(&running, "one of them is updated", || {
        twins().contains(&Some(11))
    })
    .await;
    passes(LONG).await;
    assert_eq!(twins(), [Some(11); 2], "both, by one field");
    let over = running.handle.wait_roll_out(&rolling.key, WEEK).await;
    assert_eq!(over.unwrap().state, State::Completed);
    assert_eq!(world.text(), manifest.replace("flag: false", "flag: true"));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r101_change_whose_commit_has_lost_its_answer_begins() {
    let world = World::new();
    let running = world.start().await;
    world.store.lose_answers_of("roll-out/");
    let rolling = running.handle.roll_out(&dark_mode(), ann()).await.unwrap();
    world.store.let_go();
    assert_eq!(rolling.targets, 4);
    let over = running.handle.wait_roll_out(&rolling.key, WEEK).await;
    assert_eq!(over.unwrap().state, State::Completed);
    running.stop().await;
}

async fn refused(running: &Running, change: RollOut) -> String {
    let refused = running.handle.roll_out(&change, ann()).await.unwrap_err();
    refused.to_string()
}

#[tokio::test(start_paused = true)]
async fn r101_change_that_cannot_be_made_is_refused_before_the_first_edit() {
    let world = World::new();
    let running = world.start().await;
    for (change, why) in [
        (change("x", "slowly"), "sets no field"),
        (
            change("x", "none").set("flag", true),
            "no rollout policy `none`",
        ),
        (
            dark_mode().on(Filter::ids([id("absent")])),
            "no asset matches",
        ),
        (change("x y", "slowly").set("flag", true), "x y"),
        (
            change("train/canary", "slowly").set("flag", true),
            "is not the name of a change",
        ),
        (change("x", "slowly").set("deep.flag", true), "is not there"),
        (change("x", "slowly").set("color", "red"), "does not change"),
        (
            change("x", "slowly").set("group", "pins"),
            "would leave its policy group",
        ),
        (change("x", "slowly").set("size", "big"), "refused"),
        (
            dark_mode().on(Filter::ids([id("slowly")])),
            "is of no policy group",
        ),
    ] {
        let refused = refused(&running, change.clone()).await;
        assert!(refused.contains(why), "{change:?}: {refused}");
    }
    assert_eq!(world.text(), MANIFEST);
    assert!(running.handle.held_fields().await.unwrap().is_empty());

    let first = running.handle.roll_out(&dark_mode(), ann()).await.unwrap();
    let other = dark_mode().set("flag", false);
    let used = running.handle.roll_out(&other, ann()).await.unwrap_err();
    assert!(
        matches!(used, Error::RollOut(RollOutRefused::NameUsed(_))),
        "{used}"
    );
    let second = refused(&running, change("light-mode", "slowly").set("flag", true)).await;
    assert!(second.contains("held by rollout/dark-mode#1"), "{second}");
    running
        .handle
        .wait_roll_out(&first.key, WEEK)
        .await
        .unwrap();
    running.stop().await;
}
