//! Orderly ends of owners with calls in flight, and owners that stand still.

use super::*;
use crate::record::StepRecord;

/// The owner ends in order; another one takes over.
fn stop(world: &mut World) {
    world.step(Event::Drain);
    world.step(Event::HandOver);
    world.sync();
    world.crash();
    world.sync();
}

fn one(function: Function) -> World {
    let workflow = Workflow::new("w")
        .machine(Machine::calls("a", "a"))
        .ends_well(is("a", "done"))
        .build()
        .unwrap();
    World::new([workflow], [function])
}

fn state(world: &World) -> StepRecord {
    let mut steps = world.stored.steps.values();
    steps.next().unwrap().clone()
}

#[test]
fn r26_orderly_end_admits_nothing_more_and_takes_in_the_answers() {
    let mut world = of_season();
    world.start("season", "1");
    world.sync();
    // One whose attempt is not durable when the end begins.
    world.start("season", "2");
    world.step(Event::Drain);
    world.start("season", "3");
    world.sync();
    assert_eq!(world.called(), ["load"]);
    assert!(!world.kernel.is_drained());
    world.answer("load", done());
    assert!(world.kernel.is_drained());
    world.step(Event::HandOver);
    world.sync();
    world.pass(Duration::from_secs(100));
    world.sync();
    assert!(world.called().is_empty());
    let unmade = |step: &StepRecord| step.call.is_none();
    assert!(world.stored.steps.values().all(unmade));

    world.crash();
    world.sync();
    assert_eq!(world.called(), ["load", "load", "publish"]);
    assert!(world.stored.steps.values().all(|it| it.deaths.is_empty()));
}

#[test]
fn r26_handed_over_call_goes_on_at_once_and_is_no_death_however_often() {
    for guard in [Guard::Guarded, Guard::Advisory] {
        let mut world = one(function("a", Repeat::Keyed, guard));
        world.start("w", "1");
        world.sync();
        let key = world.calls.values().next().unwrap().key.clone();
        for _ in 0..5 {
            world.pass(Duration::from_secs(20));
            stop(&mut world);
            if guard == Guard::Advisory {
                assert!(world.called().is_empty(), "the old call may take effect");
                world.pass(Duration::from_secs(41));
                world.sync();
            }
            assert_eq!(world.called(), ["a"]);
            assert_eq!(world.calls.values().next().unwrap().key, key);
            assert!(state(&world).deaths.is_empty());
        }
        world.answer("a", done());
        assert_eq!(world.outcome("w", "1"), Some(Outcome::Succeeded));
    }
}

#[test]
fn r26_call_that_must_not_be_repeated_is_not_parked_by_an_orderly_end_alone() {
    let mut world = one(function("a", Repeat::Never, Guard::Advisory));
    let id = world.start("w", "1");
    world.sync();
    world.pass(Duration::from_secs(20));
    for _ in 0..3 {
        stop(&mut world);
        assert_eq!(state(&world).does, Does::Calls);
    }
    // Its own deadline says that there is no answer.
    world.pass(Duration::from_secs(41));
    world.sync();
    assert!(world.called().is_empty());
    assert_eq!(state(&world).does, Does::Unsettled);
    world.say(&id, Say::settle("a", "done"));
    assert_eq!(world.outcome("w", "1"), Some(Outcome::Succeeded));
}

#[test]
fn r26_log_says_that_a_call_was_handed_over() {
    let mut world = one(keyed("a"));
    world.start("w", "1");
    world.sync();
    stop(&mut world);
    let log = world.log("w", "1");
    let handed_over = |entry: &Entry| entry.what == What::HandedOver { attempt: 1 };
    assert!(log.iter().any(handed_over), "{log:?}");
    let interrupted = |entry: &Entry| matches!(entry.what, What::Interrupted { .. });
    assert!(!log.iter().any(interrupted), "{log:?}");
}

#[test]
fn r26_owner_that_stood_still_and_woke_is_no_death() {
    let mut world = one(keyed("a"));
    world.own_as(KeyIdentity(1));
    world.start("w", "1");
    world.sync();
    for n in 2..10 {
        // It stands still. Another owner takes over and cannot know; then the first one wakes, and notes that it lives.
        world.own_as(KeyIdentity(n));
        world.sync();
        assert_eq!(world.called(), ["a"], "at owner {n}");
        assert!(state(&world).deaths.len() <= 1);
        world.stored.survived.insert(KeyIdentity(n - 1));
    }
    world.answer("a", done());
    assert_eq!(world.outcome("w", "1"), Some(Outcome::Succeeded));
}

#[test]
fn r26_owners_that_died_are_counted_beside_those_that_stood_still() {
    let mut world = one(keyed("a"));
    world.own_as(KeyIdentity(1));
    world.start("w", "1");
    world.sync();
    for n in 2..=4 {
        world.own_as(KeyIdentity(n));
        world.sync();
        world.stored.survived = BTreeSet::from([KeyIdentity(2)]);
    }
    assert_eq!(state(&world).does, Does::Calls);
    world.own_as(KeyIdentity(5));
    world.sync();
    assert_eq!(state(&world).deaths, [1, 3, 4].map(KeyIdentity));
    assert_eq!(state(&world).does, Does::Poisoned);
}
