//! What attempts count, and for how long they reach, over takeovers, restarts and replays.

use super::{claims::dispatching, *};
use plugin_sdk::workflow::Action;

const MINUTE: Duration = Duration::from_secs(60);
/// Longer than any wait before an attempt.
const LONG: Duration = Duration::from_secs(400);

/// A world in which the call of `print` by an execution of `w` is durable.
fn calling(function: Function) -> World {
    let machine = Machine::calls("print", "print").retry_limit(3);
    let workflow = Workflow::new("w").machine(machine);
    let workflow = workflow.ends_well(is("print", "done"));
    let mut world = World::new([workflow.build().unwrap()], [function]);
    world.start("w", "1");
    world.sync();
    world
}

fn pass(world: &mut World, time: Duration) {
    world.pass(time);
    world.sync();
}

#[test]
fn r26_failures_in_a_row_count_over_takeovers() {
    let mut world = calling(keyed("print"));
    for failures in 1..=3 {
        assert_eq!(world.outcome("w", "1"), None, "{failures}");
        world.answer("print", transient());
        world.sync();
        world.crash();
        pass(&mut world, LONG);
    }
    assert_eq!(world.outcome("w", "1"), Some(Outcome::Failed));
}

#[test]
fn r26_attempts_of_unknown_outcome_count_as_failures() {
    let mut world = calling(keyed("print"));
    for unknown in 1..=3 {
        assert_eq!(world.outcome("w", "1"), None, "{unknown}");
        let lost = plugin::Error::unknown("the connection broke");
        world.answer("print", Err(lost));
        for _ in 0..LONG.as_secs() {
            if world.called().is_empty() {
                pass(&mut world, Duration::from_secs(1));
            }
        }
    }
    assert_eq!(world.outcome("w", "1"), Some(Outcome::Failed));
}

#[test]
fn r24_work_under_way_is_asked_about_after_a_takeover_in_a_pause_too() {
    let go = |request: &plugin_sdk::DispatchRequest| request.go();
    let mut world = dispatching();
    let id = world.start("w", "1");
    world.dispatched(go);
    world.dispatched(go);
    world.sync();
    world.answer("a", Ok(Ran::in_progress(MINUTE)));
    world.sync();
    world.say(&id, Say::Pause);
    world.sync();
    world.crash();
    let shown = world.shown("w", "1");
    let (_, wait) = shown.waits().next().unwrap();
    assert!(wait.why.contains("under way"), "{wait:?}");
    pass(&mut world, MINUTE);
    assert!(world.dispatches.is_empty(), "nothing new starts");
    assert_eq!(world.called(), ["a"]);
    // What may have an effect is not skipped.
    world.answer("a", Ok(Ran::in_progress(MINUTE)));
    world.sync();
    world.crash();
    let skipped = world.say(&id, Say::skip("a", "done"));
    assert!(matches!(skipped, Reply::Refused(_)), "{skipped:?}");
}

#[test]
fn r24_work_that_is_to_be_asked_about_at_once_is_no_hot_loop() {
    let mut world = calling(keyed("print"));
    for _ in 0..3 {
        world.answer("print", Ok(Ran::in_progress(Duration::ZERO)));
        world.step(Event::Tick);
        pass(&mut world, Duration::from_millis(99));
        assert!(world.called().is_empty());
        pass(&mut world, Duration::from_millis(1));
        assert_eq!(world.called(), ["print"]);
    }
}

/// A function that took ten minutes, then one, and takes old calls in the last version of the program.
#[test]
fn r25_advisory_call_waits_for_the_reach_of_each_older_attempt() {
    let lasts = |guard, minutes: u32| {
        let mut print = function("print", Repeat::Keyed, guard);
        print.info = print.info.deadline(minutes * MINUTE);
        print
    };
    let mut world = calling(lasts(Guard::Guarded, 10));
    world.with(lasts(Guard::Guarded, 1));
    world.crash();
    world.sync();
    assert_eq!(
        world.called(),
        ["print"],
        "a greater fence keeps the first out"
    );
    world.with(lasts(Guard::Advisory, 1));
    world.crash();
    pass(&mut world, 9 * MINUTE);
    world.crash();
    pass(&mut world, MINUTE - Duration::from_secs(1));
    assert!(world.called().is_empty(), "the first attempt still reaches");
    pass(&mut world, Duration::from_secs(1));
    assert_eq!(world.called(), ["print"]);
}

/// A call of a new run waits for the last attempt of the old one, which has failed and was perhaps not the only one.
#[test]
fn r30_new_run_waits_for_the_reach_of_attempts_under_earlier_owners() {
    let mut world = calling(keyed("print"));
    world.pass(MINUTE / 3);
    world.crash();
    world.sync();
    world.answer("print", transient());
    world.sync();
    world.crash();
    let id = world.shown("w", "1").id;
    assert_eq!(world.say(&id, Say::restart(["print"])), Reply::Taken);
    pass(&mut world, MINUTE - Duration::from_secs(1));
    assert!(world.called().is_empty());
    pass(&mut world, Duration::from_secs(1));
    assert_eq!(world.called(), ["print"]);
}

/// Looks at most twice in a run.
fn looking() -> World {
    let looks = Action::calls("look").outcomes(["again"]);
    let looks = looks.leads("again", "pausing").at_most(2);
    let pauses = Action::waits(MINUTE).leads("done", "looking");
    let look = Machine::new("look", "looking")
        .on("looking", looks)
        .on("pausing", pauses);
    let workflow = Workflow::new("w").machine(look);
    let workflow = workflow.ends_well(is("look", "done"));
    let mut world = World::new([workflow.build().unwrap()], [keyed("look")]);
    world.start("w", "1");
    world.sync();
    world
}

/// Looks once more, under another owner.
fn look(world: &mut World) {
    world.answer("look", Ok(Answer::new().outcome("again").done()));
    world.sync();
    world.crash();
    pass(world, MINUTE);
}

#[test]
fn r29_bound_of_a_loop_counts_over_takeovers_and_anew_in_a_restarted_run() {
    let mut world = looking();
    look(&mut world);
    let id = world.shown("w", "1").id;
    assert_eq!(world.say(&id, Say::restart(["look"])), Reply::Taken);
    pass(&mut world, LONG);
    for _ in 0..2 {
        assert_eq!(world.outcome("w", "1"), None, "two looks of the new run");
        look(&mut world);
    }
    assert_eq!(world.outcome("w", "1"), Some(Outcome::Failed));
    let ended = world.ended("w", "1");
    let state = ended.states.values().next().unwrap();
    assert_eq!(state.as_str(), "expired");
}

#[test]
fn r26_replay_starts_the_count_of_deaths_over() {
    let mut world = calling(keyed("print"));
    let id = world.shown("w", "1").id;
    for _ in 0..3 {
        assert_eq!(world.called(), ["print"]);
        world.crash();
        world.sync();
    }
    assert!(world.called().is_empty(), "it is parked");
    assert_eq!(world.say(&id, Say::Replay("print".into())), Reply::Taken);
    world.sync();
    for deaths in 0..3 {
        assert_eq!(world.called(), ["print"], "{deaths} deaths since");
        world.crash();
        world.sync();
    }
    assert!(world.called().is_empty());
}

#[test]
fn r27_timer_goes_on_over_owners() {
    let workflow = Workflow::new("w")
        .machine(Machine::waits("rest", Duration::from_secs(60)))
        .ends_well(is("rest", "done"))
        .build()
        .unwrap();
    let mut world = World::new([workflow], []);
    world.start("w", "1");
    world.sync();
    world.pass(Duration::from_secs(20));
    world.crash();
    world.pass(Duration::from_secs(39));
    assert_eq!(world.outcome("w", "1"), None);
    world.pass(Duration::from_secs(1));
    assert_eq!(world.outcome("w", "1"), Some(Outcome::Succeeded));
}
