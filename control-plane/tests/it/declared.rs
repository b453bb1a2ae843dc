//! R101: changes that are declared as assets begin by themselves, once for each content.

use std::time::Duration;

use control_plane::{
    Asks, Error, RollOutRefused,
    prelude::YamlFile,
    strategist::{Command, Rollout, State},
};

use crate::{
    by_edits::{MANIFEST, WEEK, World, change},
    rollouts::{passes, until},
    world::{LONG, Running, ann, id, write},
};

/// The manifest with this change.
fn declaring(change: &str) -> String {
    format!("{MANIFEST}changes:\n  - {{name: dark-mode, {change}}}\n")
}

fn flag(more: &str) -> String {
    format!(
        "policy: {{$asset: slowly}}, set: {{flag: true}}, on: {{types: [world.v1.Service]{more}}}"
    )
}

/// Edits the manifest, and waits until it has been read.
async fn edit(world: &World, running: &Running, from: &str, to: &str) {
    let text = world.text();
    assert!(text.contains(from), "{text}");
    write(world.dir.path(), &text.replace(from, to));
    running.handle.generation().await.unwrap().next_run().await;
}

async fn over(running: &Running) -> Rollout {
    let key = id("rollout/dark-mode");
    let over = running.handle.wait_roll_out(&key, WEEK).await;
    over.unwrap()
}

/// The newest rollout of the change and the reasons why it waits.
async fn asks(running: &Running) -> (Option<String>, Vec<String>) {
    let key = id("rollout/dark-mode");
    let explained = running.handle.explain(&key).await.unwrap();
    match explained.asks() {
        Some(Asks::Change { rollout, waits }) => (rollout.clone(), waits.clone()),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn r101_declared_change_begins_by_itself_once_for_each_content() {
    let world = World::new();
    let running = world.start().await;
    write(world.dir.path(), &declaring(&flag("")));
    until(&running, "the canary is updated", || world.of_size(11) == 1).await;
    let (rollout, _) = asks(&running).await;
    assert_eq!(rollout.as_deref(), Some("rollout 1 running"));

    // Edited while it is live, it waits for its end.
    edit(
        &world,
        &running,
        "set: {flag: true}",
        "set: {flag: true, size: 2}",
    )
    .await;
    passes(Duration::from_secs(20)).await;
    let (_, waits) = asks(&running).await;
    let why =
        "waits for the end of number 1 of this change, which has other content and is running";
    assert_eq!(waits[0], why);
    let status = running.handle.status().await.unwrap();
    assert_eq!(status.undone[&id("rollout/dark-mode")], why);
    until(&running, "the edited change has come everywhere", || {
        world.of_size(21) == 4
    })
    .await;
    assert_eq!(over(&running).await.state, State::Completed);
    let pushes = world.production.pushes();
    assert_eq!(
        pushes, 12,
        "four turnups, and two contents of four services"
    );

    // It has ended, so a person's edit stays.
    edit(&world, &running, "a: {size: 2", "a: {size: 5").await;
    until(&running, "the edit is there", || {
        world.production.size("a") == Some(51)
    })
    .await;
    passes(LONG).await;
    assert_eq!(world.production.size("a"), Some(51));
    assert!(running.handle.status().await.unwrap().undone.is_empty());
    running.stop().await;

    let again = world.start().await;
    passes(LONG).await;
    assert_eq!(world.production.size("a"), Some(51), "nor after a restart");
    again.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r101_declared_change_that_was_taken_back_begins_again_only_by_a_person() {
    let world = World::with(&declaring(&flag("").replace("flag: true", "size: 3")));
    let running = world.start().await;
    until(&running, "the canary is updated", || world.of_size(30) == 1).await;
    let ended = over(&running).await;
    assert!(matches!(ended.state, State::RolledBack { .. }), "{ended:?}");
    passes(LONG).await;
    assert_eq!(world.of_size(10), 4);
    let (rollout, waits) = asks(&running).await;
    assert!(rollout.unwrap().starts_with("rollout 1 rolled back"));
    assert_eq!(waits, [""; 0]);
    let other = change("dark-mode", "slowly").set("flag", true);
    let refused = running.handle.roll_out(&other, ann()).await.unwrap_err();
    assert!(
        matches!(refused, Error::RollOut(RollOutRefused::Declared(_))),
        "{refused}"
    );
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r101_declared_change_that_leaves_intent_moves_nothing_more_and_takes_nothing_back() {
    for while_down in [false, true] {
        let world = World::with(&declaring(&flag("")));
        let mut running = world.start().await;
        until(&running, "the canary is updated", || world.of_size(11) == 1).await;
        let text = world.text();
        let kept = text.split_once("changes:").unwrap().0;
        if while_down {
            running.stop().await;
            write(world.dir.path(), kept);
            running = world.start_with("manifest.yaml", YamlFile::new(world.path()));
        } else {
            write(world.dir.path(), kept);
            running.handle.generation().await.unwrap().next_run().await;
        }
        passes(LONG).await;
        assert_eq!((world.of_size(11), world.of_size(10)), (1, 3));
        let ended = over(&running).await;
        let State::Stopped { why } = ended.state else {
            panic!("{ended:?}")
        };
        assert!(why.contains("it has left intent"), "{why}");
        let (key, back) = (id("rollout/dark-mode"), Command::RollBack);
        let back = running.handle.tell_rollout(&key, back, ann());
        back.await.unwrap();
        until(&running, "it is taken back", || world.of_size(10) == 4).await;
        running.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn r101_declared_change_that_cannot_begin_says_why_and_begins_when_it_can() {
    let world = World::with(&declaring(&flag(", under: nowhere")));
    let running = world.start().await;
    passes(LONG).await;
    let (rollout, waits) = asks(&running).await;
    assert_eq!(rollout, None);
    assert!(
        waits[0].contains("no asset matches the filter"),
        "{waits:?}"
    );
    edit(&world, &running, "under: nowhere", "under: a").await;
    until(&running, "it has begun", || world.of_size(11) == 1).await;
    running.stop().await;

    // A field that another change holds is waited for.
    let world = World::new();
    let running = world.start().await;
    let first = change("first", "slowly").set("flag", true);
    running.handle.roll_out(&first, ann()).await.unwrap();
    until(&running, "the canary is updated", || world.of_size(11) == 1).await;
    let last = "halves: {waves: [{upto: {count: 2}, bake_secs: 600}]}\n";
    let of_d = flag("").replace("types: [world.v1.Service]", "ids: [d]");
    let declared = format!("{last}changes:\n  - {{name: dark-mode, {of_d}}}\n");
    edit(&world, &running, last, &declared).await;
    passes(Duration::from_secs(20)).await;
    let (rollout, waits) = asks(&running).await;
    assert_eq!(rollout, None);
    assert!(waits[0].contains("rollout/first#1"), "{waits:?}");
    until(&running, "all are updated", || world.of_size(11) == 4).await;
    passes(LONG).await;
    let (rollout, waits) = asks(&running).await;
    assert_eq!(
        (rollout.as_deref(), waits.len()),
        (Some("rollout 1 completed"), 0)
    );
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r101_declared_change_that_is_malformed_is_not_sealed() {
    let world = World::new();
    let running = world.start().await;
    let bad = [
        (
            "set: {flag: true}",
            "set: {}",
            "must set at least one field",
        ),
        ("set: {flag: true}", "set: {'a b[': 1}", "is no field"),
        ("policy: {$asset: slowly}", "policy: {$asset: none}", "none"),
        (
            "name: dark-mode",
            "name: train/canary",
            "`train/canary` is not the name of a change",
        ),
    ];
    for (from, to, why) in bad {
        write(world.dir.path(), &declaring(&flag("")).replace(from, to));
        let refused = running.handle.dry_run(&[]).await.unwrap_err().to_string();
        assert!(refused.contains(why), "{refused}");
    }
    running.stop().await;
}
