//! Starts of executions that the dispatch stack decides.

use plugin_sdk::{Dispatch, DispatchRequest};

use super::{claims::dispatching, *};

/// One execution at a time, by a claim of its start.
fn one(request: &DispatchRequest) -> Dispatch {
    match request.is_start() {
        true => request.go().claim(Claim::Exclusive("stage".into())),
        false => request.go(),
    }
}

fn first(world: &World) -> u64 {
    world.calls.values().next().unwrap().key.execution.n
}

#[test]
fn r32_claims_of_a_start_are_held_until_the_execution_ends_and_over_owners() {
    let mut world = dispatching();
    for key in ["1", "2", "3"] {
        world.start("w", key);
    }
    world.dispatched(one);
    world.sync();
    assert_eq!(world.calls.len(), 1);
    let shown = world.shown("w", "2");
    let wait = shown.wait.unwrap();
    let WaitFor::Claim { key, held_by } = wait.what else {
        panic!("{wait:?}");
    };
    assert_eq!((&*key, held_by.len()), ("stage", 1));
    assert_eq!(held_by[0].to_string(), "w-0000000001");
    // A retry of its step gives nothing back, and the next owner knows the holder.
    world.answer("a", transient());
    world.sync();
    world.crash();
    world.dispatched(one);
    world.pass(Duration::from_secs(10));
    world.dispatched(one);
    world.sync();
    assert_eq!(world.calls.len(), 1);
    for n in 1..=3 {
        assert_eq!(first(&world), n);
        world.answer("a", done());
        world.sync();
        world.dispatched(one);
        world.sync();
    }
    assert_eq!(world.live(), 0);
}

#[test]
fn r32_delays_hold_a_start_and_are_shown() {
    let mut world = dispatching();
    let id = world.start("w", "1");
    let closed = |request: &DispatchRequest| match request.is_start() {
        true => request
            .delay("at night only")
            .recheck_after(Duration::from_secs(600)),
        false => request.go(),
    };
    world.dispatched(closed);
    world.sync();
    for _ in 0..2 {
        let wait = world.shown("w", "1").wait.unwrap();
        assert_eq!(wait.what, WaitFor::Rule(Vec::new()));
        assert_eq!(wait.next_look, Some(wait.since + Duration::from_secs(600)));
        world.crash();
        world.dispatched(closed);
    }
    let Reply::Refused(refused) = world.say(&id, Say::skip("a", "done")) else {
        panic!("it has not begun");
    };
    assert!(refused.to_string().contains("its start waits"), "{refused}");
    world.say(&id, Say::Pause);
    world.pass(Duration::from_secs(600));
    assert!(world.dispatches.is_empty());
    world.say(&id, Say::Resume);
    world.dispatched(DispatchRequest::go);
    world.sync();
    assert_eq!(world.called(), ["a"]);
    assert!(world.shown("w", "1").wait.is_none());
}

#[test]
fn r30_cancel_of_an_execution_that_waits_for_its_start_ends_it() {
    let mut world = dispatching();
    let ids: Vec<_> = (1..=3).map(|n| world.start("w", &n.to_string())).collect();
    world.say(&ids[2], Say::Cancel);
    assert_eq!(world.outcome("w", "3"), Some(Outcome::Cancelled));
    world.dispatched(one);
    world.say(&ids[1], Say::Cancel);
    assert_eq!(world.outcome("w", "2"), Some(Outcome::Cancelled));
    world.sync();
    world.answer("a", done());
    assert_eq!(world.outcome("w", "1"), Some(Outcome::Succeeded));
    assert!(world.kernel.claims.held().is_empty());
}

#[test]
fn r32_step_does_not_wait_for_what_its_execution_took_at_the_start() {
    let all = |request: &DispatchRequest| request.go().claim(Claim::Exclusive("press".into()));
    let mut world = dispatching();
    world.start("w", "1");
    world.start("w", "2");
    world.dispatched(all);
    world.sync();
    assert_eq!(first(&world), 1);
    world.answer("a", done());
    world.dispatched(all);
    world.sync();
    assert_eq!(first(&world), 2);
}

#[test]
fn r32_start_that_the_stack_does_not_answer_is_asked_for_again() {
    let mut world = dispatching();
    world.start("w", "1");
    world.sync();
    world.pass(Duration::from_secs(10));
    assert!(world.dispatches.is_empty());
    assert_eq!(
        world.shown("w", "1").wait.unwrap().what,
        WaitFor::Rule(Vec::new())
    );
    world.pass(Duration::from_secs(10));
    world.dispatched(DispatchRequest::go);
    world.sync();
    assert_eq!(world.called(), ["a"]);
}
