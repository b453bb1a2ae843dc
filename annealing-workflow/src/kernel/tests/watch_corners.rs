//! Corners of watches: illness that is looked at, replaced runs with others waiting, assets that leave unseen.

use plugin_sdk::{SyncState, standing::Reason};
use prodspec_model::operation::{Concurrency, Per, StatusIs, Watch as On};

use super::{
    watched::{WATCH, id, job, jobs, on, on_intent, on_status, standing},
    *,
};

const MINUTE: Duration = Duration::from_secs(60);

fn ill() -> SyncState {
    SyncState::Unhealthy {
        why: "it crashes".to_owned(),
    }
}

#[test]
fn r38_illness_that_is_looked_at_and_pushed_again_is_one_condition() {
    let mut world = World::new([], [keyed("notice")]);
    world.seal(&[("job/a", "1")]);
    world.is_in_sync("job/a");
    let watch = on(On::status([StatusIs::Unhealthy])
        .held_for(10 * MINUTE)
        .of(jobs()));
    world.watch(WATCH, Some(&watch));
    world.stands("job/a", ill());
    for reason in [Reason::Looking, Reason::UnderWay, Reason::UnknownPush] {
        world.pass(4 * MINUTE);
        let mut found = standing(SyncState::out_of_sync(world.now.wall));
        found.reason = Some(reason);
        world.told("job/a", found);
        world.stands("job/a", ill());
    }
    world.sync();
    assert_eq!(world.noticed(), ["job/a"], "it was ill all the time");
    world.answer("notice", done());
    world.sync();
    world.pass(30 * MINUTE);
    world.sync();
    assert!(world.noticed().is_empty(), "one run for one illness");
}

#[test]
fn r38_watch_on_status_shows_when_a_condition_will_have_held_long_enough() {
    let mut world = World::new([], [keyed("notice")]);
    world.seal(&[("job/a", "1"), ("job/b", "1")]);
    world.is_in_sync("job/a");
    world.is_in_sync("job/b");
    world.watch(WATCH, Some(&on_status()));
    world.is_out("job/a");
    world.pass(MINUTE / 2);
    world.is_out("job/b");
    // The wall clock is set; the conditions have to hold for as long as before.
    world.now.wall += 60 * MINUTE;
    world.step(Event::Tick);
    let holding = |world: &mut World| {
        let shown = world.all_watches().remove(0);
        let holding = shown.holding.into_iter().map(|it| (it.asset, it.due));
        holding.collect::<Vec<_>>()
    };
    let (a, b) = (world.now.wall + MINUTE / 2, world.now.wall + MINUTE);
    assert_eq!(holding(&mut world), [(id("job/a"), a), (id("job/b"), b)]);
    world.pass(MINUTE / 2);
    world.sync();
    assert_eq!(world.noticed(), ["job/a"]);
    assert_eq!(holding(&mut world), [(id("job/b"), b)]);
    world.is_in_sync("job/b");
    assert!(holding(&mut world).is_empty());
}

#[test]
fn r38_assets_that_wait_already_are_no_reason_to_replace_the_run_before_them() {
    let mut watch = on_intent();
    (watch.per, watch.concurrency) = (Per::Watch, Concurrency::Replace);
    let mut world = World::new([], [keyed("notice")]);
    world.seal(&[("job/0", "0")]);
    world.watch(WATCH, Some(&watch));
    let names: Vec<String> = (0..1_001).map(|n| format!("job/{n:04}")).collect();
    let jobs: Vec<(&str, &str)> = names.iter().map(|name| (&**name, "1")).collect();
    world.seal(&jobs);
    world.sync();
    assert_eq!(world.noticed().len(), 1_000);
    // An incarnation that does not concern the watch.
    world.seal(&[("other", "1")]);
    world.sync();
    assert_eq!(world.noticed().len(), 1_000, "the run goes on");
    world.crash();
    world.sync();
    world.seal(&[("other", "2")]);
    world.sync();
    assert_eq!(world.noticed().len(), 1_000, "also with the next owner");
    world.answer("notice", done());
    world.sync();
    assert_eq!(world.noticed(), ["job/1000"]);
}

#[test]
fn r38_condition_of_an_asset_that_left_unseen_is_over() {
    let mut world = World::new([], [keyed("notice")]);
    world.seal(&[("job/a", "1")]);
    world.is_in_sync("job/a");
    world.watch(WATCH, Some(&on_status()));
    world.is_out("job/a");
    world.pass(MINUTE);
    world.sync();
    world.answer("notice", done());
    world.sync();
    // It leaves, and comes back, while no process owns the partition.
    let sealed = world.sealed.last().cloned();
    let without = plugin_sdk::testing::seal(sealed.as_ref(), Vec::new(), &["job/a"]);
    world.sealed.push(without);
    world.crash();
    world.sync();
    world.seal(&[("job/a", "2")]);
    world.is_out("job/a");
    world.pass(MINUTE);
    world.sync();
    assert_eq!(world.noticed(), ["job/a"]);
}

#[test]
fn r38_edited_condition_starts_nothing_for_the_one_before() {
    let mut watch = on_status();
    let mut world = World::new([], [keyed("notice")]);
    world.seal(&[("job/a", "1"), ("job/b", "1")]);
    for name in ["job/a", "job/b"] {
        world.is_in_sync(name);
    }
    world.watch(WATCH, Some(&watch));
    for name in ["job/a", "job/b"] {
        world.is_out(name);
    }
    watch.on = On::status([StatusIs::Unhealthy]).of(jobs());
    world.watch(WATCH, Some(&watch));
    world.pass(10 * MINUTE);
    world.sync();
    assert!(world.noticed().is_empty());
}

#[test]
fn r38_run_of_the_watch_has_no_more_content_than_a_function_may_get() {
    let mut watch = on_intent();
    watch.per = Per::Watch;
    let mut world = World::new([], [keyed("notice")]);
    world.seal(&[("job/0", "0")]);
    world.watch(WATCH, Some(&watch));
    let content = "x".repeat(100_000);
    let names: Vec<String> = (0..60).map(|n| format!("job/{n:04}")).collect();
    let jobs: Vec<(&str, &str)> = names.iter().map(|name| (&**name, &*content)).collect();
    world.seal(&jobs);
    world.sync();
    let first = world.noticed().len();
    assert!(
        (10..=21).contains(&first),
        "{first} of 100 kB, before and after, in 4 MiB"
    );
    let size = job("job/0000", &content).canonical().len() * 2 * first;
    assert!(size <= plugin_sdk::operation::Limit::REQUIRED_SIZE.max());
    let mut seen = first;
    while seen < 60 {
        world.answer("notice", done());
        world.sync();
        seen += world.noticed().len();
    }
    assert_eq!(seen, 60);
}

#[test]
fn r38_condition_is_measured_by_a_clock_that_is_never_set() {
    for days in [-30, 30] {
        let mut world = World::new([], [keyed("notice")]);
        world.seal(&[("job/a", "1"), ("job/b", "1")]);
        world.is_in_sync("job/a");
        world.is_in_sync("job/b");
        world.watch(WATCH, Some(&on_status()));
        let since = world.now.wall;
        world.is_out("job/a");
        world.pass(MINUTE / 2);
        world.now.wall += jiff::SignedDuration::from_hours(24 * days);
        world.stands("job/a", SyncState::out_of_sync(since));
        world.is_out("job/b");
        world.pass(MINUTE / 4);
        world.sync();
        assert!(world.noticed().is_empty(), "{days}");
        world.pass(MINUTE / 4);
        world.sync();
        assert_eq!(world.noticed(), ["job/a"], "{days}");
        world.answer("notice", done());
        world.sync();
        world.pass(MINUTE / 2);
        world.sync();
        assert_eq!(world.noticed(), ["job/b"], "{days}");
    }
}

#[test]
fn r38_asset_that_the_next_owner_cannot_look_at_is_in_its_condition_still() {
    let in_sync = on(On::status([StatusIs::InSync]).of(jobs()));
    let held_up = [Reason::Looking, Reason::Failed, Reason::Ownership];
    for reason in held_up {
        let mut world = World::new([], [keyed("notice")]);
        world.seal(&[("job/a", "1")]);
        world.watch(WATCH, Some(&in_sync));
        world.is_out("job/a");
        world.is_in_sync("job/a");
        world.sync();
        world.answer("notice", done());
        world.sync();
        let mut found = standing(SyncState::out_of_sync(world.now.wall));
        found.reason = Some(reason);
        world.told("job/a", found);
        world.is_in_sync("job/a");
        world.sync();
        assert_eq!(world.noticed(), ["job/a"], "it was over under one owner");
        world.answer("notice", done());
        world.sync();
        // An illness that the stored record tells of may have been over since.
        for state in [SyncState::out_of_sync(world.now.wall), ill()] {
            let mut found = standing(state);
            found.reason = Some(reason);
            world.standings.insert(id("job/a"), found);
            world.crash();
            world.is_in_sync("job/a");
            world.sync();
            assert!(world.noticed().is_empty(), "{reason:?}");
        }
    }
}

#[test]
fn r38_asset_that_can_never_be_looked_at_is_noticed() {
    let mut world = World::new([], [keyed("notice")]);
    world.seal(&[("job/a", "1")]);
    world.is_in_sync("job/a");
    world.watch(WATCH, Some(&on_status()));
    world.seal(&[("job/new", "1")]);
    let since = world.now.wall;
    for _ in 0..7 {
        for reason in [Reason::Looking, Reason::Failed] {
            let mut found = standing(SyncState::out_of_sync(since));
            found.reason = Some(reason);
            world.told("job/new", found);
        }
        world.pass(MINUTE / 6);
    }
    world.sync();
    assert_eq!(world.noticed(), ["job/new"]);
}
