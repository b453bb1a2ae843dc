//! Pauses and cancels: nothing starts afterwards, whatever a step waited for.

use plugin_sdk::{DispatchRequest, workflow::not};

use super::{claims, *};

fn press(request: &DispatchRequest) -> plugin_sdk::Dispatch {
    claims::of_steps(request, Claim::Exclusive("press".into()))
}

#[test]
fn r30_pause_holds_a_step_whose_claim_becomes_free_and_the_next_one_gets_it() {
    let mut world = claims::dispatching();
    claims::start(&mut world, 3, press);
    let paused = world.start("w", "1");
    world.say(&paused, Say::Pause);
    world.answer("a", done());
    world.sync();
    let call = world.answer("a", done());
    assert_eq!(call.key.execution.n, 3);
    world.sync();
    assert!(world.called().is_empty());
    world.say(&paused, Say::Resume);
    world.dispatched(press);
    world.sync();
    assert_eq!(world.called(), ["a"]);
}

#[test]
fn r30_pause_of_days_does_not_use_up_the_time_for_attempts() {
    let workflow = Workflow::new("w")
        .machine(Machine::calls("a", "a"))
        .machine(Machine::calls("b", "b").when(is("a", "done")))
        .ends_well(is("b", "done"))
        .build()
        .unwrap();
    let mut world = World::new([workflow], [keyed("a"), keyed("b")]);
    let id = world.start("w", "1");
    world.sync();
    world.say(&id, Say::Pause);
    world.answer("a", done());
    world.sync();
    world.pass(Duration::from_secs(3 * 24 * 3_600));
    world.sync();
    assert_eq!(world.outcome("w", "1"), None);
    world.say(&id, Say::Resume);
    world.sync();
    world.answer("b", done());
    assert_eq!(world.outcome("w", "1"), Some(Outcome::Succeeded));
}

#[test]
fn r30_pause_holds_a_step_whose_dispatch_is_answered() {
    let mut world = claims::dispatching();
    let id = world.start("w", "0");
    world.dispatched_once(press);
    world.say(&id, Say::Pause);
    world.dispatched(press);
    world.sync();
    assert!(world.called().is_empty());
    assert!(
        world
            .shown("w", "0")
            .waits()
            .next()
            .unwrap()
            .1
            .why
            .contains("paused by ann")
    );
}

/// A call whose attempt is durable, and which waits for a fresh lease.
fn without_lease() -> (World, plugin_sdk::operation::ExecutionId) {
    let mut world = of_season();
    let id = world.start("season", "1");
    world.lease(Duration::ZERO);
    world.sync();
    assert!(world.called().is_empty());
    (world, id)
}

#[test]
fn r30_pause_takes_back_a_call_that_waits_for_a_fresh_lease() {
    let (mut world, id) = without_lease();
    world.say(&id, Say::Pause);
    world.sync();
    world.lease(Duration::from_secs(1000));
    world.sync();
    assert!(world.called().is_empty());
    world.say(&id, Say::Resume);
    world.sync();
    assert_eq!(world.called(), ["load"]);
}

#[test]
fn r30_cancel_takes_back_a_call_that_waits_for_a_fresh_lease() {
    let (mut world, id) = without_lease();
    world.say(&id, Say::Cancel);
    world.sync();
    world.lease(Duration::from_secs(1000));
    assert!(world.called().is_empty());
    assert_eq!(world.outcome("season", "1"), Some(Outcome::Cancelled));
}

#[test]
fn r30_pause_starts_no_child() {
    let child = Workflow::new("child")
        .machine(Machine::calls("c", "c"))
        .ends_well(is("c", "done"));
    let parent = Workflow::new("parent")
        .machine(Machine::calls("before", "before"))
        .machine(Machine::starts("child", "child").when(is("before", "done")))
        .ends_well(is("child", "done"));
    let mut world = World::new(
        [child.build().unwrap(), parent.build().unwrap()],
        [keyed("c"), keyed("before")],
    );
    let id = world.start("parent", "1");
    world.sync();
    world.say(&id, Say::Pause);
    world.answer("before", done());
    world.sync();
    world.crash();
    world.sync();
    assert_eq!(world.live(), 1);
    world.say(&id, Say::Resume);
    world.sync();
    assert_eq!(world.live(), 2);
    world.answer("c", done());
    assert_eq!(world.outcome("parent", "1"), Some(Outcome::Succeeded));
}

/// One call at a time: that of `a`, and after it that of `c`, if this guard holds.
fn one_at_a_time(bound: u32, guard: plugin_sdk::workflow::Guard) -> World {
    let workflow = Workflow::new("w")
        .machine(Machine::calls("a", "a"))
        .machine(Machine::calls("c", "c").when(guard))
        .ends_well(is("a", "done"))
        .build()
        .unwrap();
    let mut settings = Settings {
        workflows: [(workflow.name().clone(), workflow)].into(),
        functions: [("a".into(), keyed("a")), ("c".into(), keyed("c"))].into(),
        ..Settings::default()
    };
    settings.config.calls = 1;
    settings.config.transitions = bound;
    let mut world = World::with_settings(settings);
    world.start("w", "1");
    world.sync();
    world
}

#[test]
fn r28_call_that_is_due_is_withdrawn_when_its_guard_does_not_hold_any_more() {
    let mut world = one_at_a_time(1000, not(is("a", "done")));
    world.answer("a", done());
    world.sync();
    assert!(world.called().is_empty());
    assert_eq!(world.outcome("w", "1"), Some(Outcome::Succeeded));
}

#[test]
fn r28_call_that_has_begun_goes_on_when_its_guard_does_not_hold_any_more() {
    let workflow = Workflow::new("w")
        .machine(Machine::calls("a", "a"))
        .machine(Machine::calls("c", "c").when(not(is("a", "done"))))
        .ends_well(is("a", "done"))
        .build()
        .unwrap();
    let mut world = World::new([workflow], [keyed("a"), keyed("c")]);
    world.start("w", "1");
    world.sync();
    world.answer("c", transient());
    world.answer("a", done());
    world.sync();
    world.crash();
    world.pass(Duration::from_secs(10));
    world.sync();
    assert_eq!(world.called(), ["c"]);
    world.answer("c", done());
    assert_eq!(world.outcome("w", "1"), Some(Outcome::Succeeded));
}

#[test]
fn r29_bound_of_transitions_holds_what_is_due() {
    let mut world = one_at_a_time(1, plugin_sdk::workflow::Guard::always());
    world.answer("a", done());
    world.sync();
    assert!(world.called().is_empty(), "it is paused");
}
