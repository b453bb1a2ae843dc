//! Schedules and watches beside owners that are away, edits and pauses at an awkward moment, and executions that are gone.

use prodspec_model::operation::Concurrency;

use super::{
    schedules::nightly,
    watched::{WATCH, id, on_intent},
    *,
};
use crate::cron::Wanted;

const MINUTE: Duration = Duration::from_secs(60);
const ASSET: &str = "cron/nightly";

/// A schedule with a slot each hour, seen at noon.
fn hourly(concurrency: Concurrency) -> World {
    let mut reindex = keyed("reindex");
    reindex.info = reindex.info.deadline(600 * MINUTE);
    let mut world = World::new([], [reindex]);
    world.intended(ASSET, Some(&nightly("0 * * * *", concurrency)));
    world.sync();
    world
}

/// The slots whose runs call their function, by hour and minute.
fn slots(world: &World) -> Vec<String> {
    let calls = world.calls.values();
    let slot = |cause: String| cause["slot 2026-03-04T".len()..][..5].to_owned();
    let mut slots: Vec<String> = calls.map(|call| slot(call.run.cause.to_string())).collect();
    slots.sort();
    slots
}

/// Time passes in which no owner looks.
fn no_owner_for(world: &mut World, time: Duration) {
    world.now.mono = world.now.mono + time;
    world.now.wall += time;
}

fn pass(world: &mut World, time: Duration) {
    world.pass(time);
    world.sync();
}

#[test]
fn r37_schedule_that_left_intent_while_no_process_owned_the_partition_is_an_orphan() {
    let mut world = hourly(Concurrency::Allow);
    no_owner_for(&mut world, 10 * MINUTE);
    world.intent.clear();
    world.crash();
    let orphan = world.schedules()[0].orphan.unwrap();
    assert_eq!(orphan.to_string(), "2026-03-04T12:10:00Z");
    pass(&mut world, 50 * MINUTE);
    assert_eq!(slots(&world), ["13:00"], "it goes on as last seen");
    let acknowledge = Command::Schedule(id(ASSET), ScheduleWord::Acknowledge);
    assert_eq!(world.hear(acknowledge), Reply::Taken);
}

#[test]
fn r38_watch_that_left_intent_while_no_process_owned_the_partition_is_an_orphan() {
    let mut world = World::new([], [keyed("notice")]);
    world.watch(WATCH, Some(&on_intent()));
    world.sync();
    world.watches.clear();
    world.crash();
    assert_eq!(world.all_watches()[0].orphan, Some(world.now.wall));
    world.seal(&[("job/a", "1")]);
    world.sync();
    assert_eq!(world.noticed(), ["job/a"], "it goes on as last seen");
}

#[test]
fn r37_slot_that_is_late_when_its_expression_is_edited_never_starts() {
    let edited = nightly("30 * * * *", Concurrency::Forbid);
    // Its run of 13:00 goes on at 14:10, so that of 14:00 is late.
    let mut world = hourly(Concurrency::Forbid);
    pass(&mut world, 130 * MINUTE);
    assert_eq!(slots(&world), ["13:00"]);
    world.intended(ASSET, Some(&edited));
    world.answer("reindex", done());
    pass(&mut world, 19 * MINUTE);
    assert!(slots(&world).is_empty(), "{:?}", slots(&world));
    assert_eq!(world.schedules()[0].counts.forbidden, 1);
    pass(&mut world, MINUTE);
    assert_eq!(slots(&world), ["14:30"]);
}

#[test]
fn r37_slot_that_is_late_after_an_absence_with_an_edit_never_starts() {
    let mut world = hourly(Concurrency::Forbid);
    no_owner_for(&mut world, 70 * MINUTE);
    let edited = Wanted::of(&nightly("30 * * * *", Concurrency::Forbid));
    world.intent.insert(id(ASSET), edited);
    world.crash();
    pass(&mut world, 19 * MINUTE);
    assert!(slots(&world).is_empty(), "{:?}", slots(&world));
    assert_eq!(world.schedules()[0].counts.late, 1);
    pass(&mut world, MINUTE);
    assert_eq!(slots(&world), ["13:30"]);
}

/// The word comes at the very instant at which the slot opens, before the schedule is looked at.
#[test]
fn r37_slot_at_the_instant_of_a_pause_never_starts() {
    let mut world = hourly(Concurrency::Forbid);
    pass(&mut world, 59 * MINUTE);
    no_owner_for(&mut world, MINUTE);
    let say = |word| Command::Schedule(id(ASSET), word);
    assert_eq!(world.hear(say(ScheduleWord::Pause)), Reply::Taken);
    world.sync();
    world.crash();
    pass(&mut world, 5 * MINUTE);
    assert_eq!(world.hear(say(ScheduleWord::Resume)), Reply::Taken);
    pass(&mut world, MINUTE);
    assert!(slots(&world).is_empty(), "{:?}", slots(&world));
    assert_eq!(world.schedules()[0].counts.paused, 1);
    pass(&mut world, 54 * MINUTE);
    assert_eq!(slots(&world), ["14:00"]);
}

/// Takes the live executions out of the store, as a repair by hand does.
fn executions_go(world: &mut World) {
    assert_eq!(world.stored.live.len(), 1);
    world.stored.live.clear();
    world.stored.steps.clear();
    world.crash();
}

#[test]
fn r37_run_whose_execution_is_gone_holds_up_no_slot() {
    let mut world = hourly(Concurrency::Forbid);
    pass(&mut world, 60 * MINUTE);
    executions_go(&mut world);
    assert!(slots(&world).is_empty());
    pass(&mut world, 60 * MINUTE);
    assert_eq!(slots(&world), ["14:00"]);
}

#[test]
fn r38_run_whose_execution_is_gone_holds_up_no_change() {
    let mut world = World::new([], [keyed("notice")]);
    world.watch(WATCH, Some(&on_intent()));
    world.seal(&[("job/a", "1")]);
    world.sync();
    executions_go(&mut world);
    assert!(world.noticed().is_empty());
    world.seal(&[("job/a", "2")]);
    world.sync();
    assert_eq!(world.noticed(), ["job/a"]);
}
