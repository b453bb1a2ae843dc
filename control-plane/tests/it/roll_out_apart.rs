//! R102: changes that bake in no failure domain together with another one.

use std::time::Duration;

use control_plane::{model::Filter, strategist::State};

use crate::{
    by_edits::{MANIFEST, WEEK, World, change},
    rollouts::{passes, until},
    world::{ann, id},
};

/// The manifest with two services in each of two clusters, and a policy that goes through them.
fn clusters() -> String {
    let mut text = MANIFEST.replace(
        "  pins: {}",
        "  pins: {}\n  domains: {domains: [eu, us], bake_secs: 60, max_in_flight: 1}",
    );
    for (name, cluster) in [("a", "eu"), ("b", "eu"), ("c", "us"), ("d", "us")] {
        let entry = format!("  {name}: {{");
        text = text.replace(&entry, &format!("{entry}cluster: {cluster}, "));
    }
    text
}

impl World {
    /// Whether production has the flag, and the new size.
    fn has(&self, name: &str) -> (bool, bool) {
        let size = self.production.size(name).unwrap();
        (size % 10 == 1, size >= 20)
    }
}

#[tokio::test(start_paused = true)]
async fn r102_change_that_keeps_apart_enters_no_domain_in_which_another_bakes() {
    for (flag_is_alone, version_is_alone) in [(true, false), (false, true), (true, true)] {
        let world = World::with(&clusters());
        let running = world.start().await;
        let mut flag = change("dark-mode", "domains").set("flag", true);
        flag.alone_while_baking = flag_is_alone;
        let mut version = change("version-2", "domains").set("size", 2);
        version.alone_while_baking = version_is_alone;
        let flag = running.handle.roll_out(&flag, ann()).await.unwrap();
        until(&running, "the flag is in the first domain", || {
            world.has("a").0
        })
        .await;
        let version = running.handle.roll_out(&version, ann()).await.unwrap();
        passes(Duration::from_secs(30)).await;
        let views = running.handle.rollouts().await.unwrap();
        let view = views.iter().find(|view| view.policy == version.key);
        let waits = format!("{:?}", view.unwrap().waits);
        assert!(waits.contains("`rollout/dark-mode` bakes in eu"), "{waits}");
        until(&running, "the version is in the first domain", || {
            world.has("a").1
        })
        .await;
        let in_us = |has: (bool, bool)| has.0;
        let entered = in_us(world.has("c")) || in_us(world.has("d"));
        assert!(entered || world.has("b").0, "the flag has left the domain");
        assert!(!world.has("c").1 && !world.has("d").1);
        let views = running.handle.rollouts().await.unwrap();
        let mut live = views.iter().filter(|view| view.live);
        assert!(live.any(|view| view.policy == flag.key), "it has not ended");
        until(&running, "the version is in the second domain", || {
            world.has("c").1
        })
        .await;
        assert!(world.has("c").0 && world.has("d").0, "the flag came first");
        for key in [flag.key, version.key] {
            let over = running.handle.wait_roll_out(&key, WEEK).await.unwrap();
            assert_eq!(over.state, State::Completed);
        }
        running.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn r102_changes_that_do_not_keep_apart_bake_together() {
    let world = World::with(&clusters());
    let running = world.start().await;
    let flag = change("dark-mode", "domains").set("flag", true);
    let flag = running.handle.roll_out(&flag, ann()).await.unwrap();
    let version = change("version-2", "domains").set("size", 2);
    running.handle.roll_out(&version, ann()).await.unwrap();
    until(&running, "both are in the first domain", || {
        world.has("a") == (true, true)
    })
    .await;
    assert!(!world.has("c").0);
    running.handle.wait_roll_out(&flag.key, WEEK).await.unwrap();
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r102_change_goes_on_when_the_one_that_keeps_apart_has_gone() {
    let world = World::with(&clusters());
    let running = world.start().await;
    let flag = change("dark-mode", "domains").set("flag", true);
    let flag = flag.alone_while_baking();
    let flag = running.handle.roll_out(&flag, ann()).await.unwrap();
    until(&running, "the flag is in the first domain", || {
        world.has("a").0
    })
    .await;
    let version = change("version-2", "domains").set("size", 2);
    let version = running.handle.roll_out(&version, ann()).await.unwrap();
    let back = control_plane::strategist::Command::RollBack;
    let told = running.handle.tell_rollout(&flag.key, back, ann()).await;
    told.unwrap();
    // The next owner finds both, too.
    running.stop().await;
    let running = world.start().await;
    let over = running.handle.wait_roll_out(&version.key, WEEK).await;
    assert_eq!(over.unwrap().state, State::Completed);
    for name in ["a", "b", "c", "d"] {
        assert_eq!(world.has(name), (false, true), "{name}");
    }
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r102_older_change_that_waits_for_a_domain_goes_first() {
    let world = World::with(&clusters());
    let running = world.start().await;
    let of = |names: &[&str]| Filter::ids(names.iter().map(|name| id(name)));
    let first = change("first", "domains").set("flag", true).on(of(&["a"]));
    running.handle.roll_out(&first, ann()).await.unwrap();
    until(&running, "it is in the first domain", || world.has("a").0).await;
    let older = change("older", "domains").set("size", 2);
    let older = older.alone_while_baking();
    let older = running.handle.roll_out(&older, ann()).await.unwrap();
    passes(Duration::from_secs(1)).await;
    let rest = of(&["b", "c", "d"]);
    let younger = change("younger", "domains").set("flag", true).on(rest);
    let younger = running.handle.roll_out(&younger, ann()).await.unwrap();
    until(&running, "one of them is there", || {
        world.has("a").1 || world.has("b").0
    })
    .await;
    assert!(world.has("a").1, "the older one was there first");
    until(&running, "the younger one is there", || world.has("b").0).await;
    assert!(world.has("b").1, "the older one had left");
    for key in [older.key, younger.key] {
        let over = running.handle.wait_roll_out(&key, WEEK).await.unwrap();
        assert_eq!(over.state, State::Completed);
    }
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r102_changes_that_bake_where_the_other_wants_to_go_do_not_wait_for_each_other() {
    let text = MANIFEST.replace(
        "policies:",
        "  e: {size: 1, flag: false, group: edits}\npolicies:",
    );
    let mut manifest = text;
    for (name, cluster) in [
        ("a", "eu"),
        ("b", "us"),
        ("c", "us"),
        ("d", "eu"),
        ("e", "us"),
    ] {
        let entry = format!("  {name}: {{");
        manifest = manifest.replace(&entry, &format!("{entry}cluster: {cluster}, "));
    }
    let world = World::with(&manifest);
    let running = world.start().await;
    let of = |names: [&str; 3]| Filter::ids(names.map(id));
    // Each selects one target at a time, in the order of their names.
    let one = change("one", "flags")
        .set("flag", true)
        .on(of(["a", "b", "d"]));
    let one = one.alone_while_baking();
    let one = running.handle.roll_out(&one, ann()).await.unwrap();
    let other = change("other", "flags")
        .set("size", 2)
        .on(of(["c", "d", "e"]));
    let other = running.handle.roll_out(&other, ann()).await.unwrap();
    for key in [one.key, other.key] {
        let over = running.handle.wait_roll_out(&key, WEEK).await.unwrap();
        assert_eq!(over.state, State::Completed);
    }
    running.stop().await;
}
