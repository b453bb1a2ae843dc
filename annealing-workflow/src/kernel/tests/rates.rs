//! Rates: how fast claims are taken, in which order, and over owners.

use plugin_sdk::{DispatchRequest, Quota};

use super::{claims::*, *};

#[test]
fn r32_rate_is_spent_and_the_next_one_waits_for_its_turn() {
    let quota = Quota::new(2, Duration::from_secs(10));
    let rate = |request: &DispatchRequest| of_steps(request, Claim::Rate("r".into(), quota));
    let mut world = dispatching();
    start(&mut world, 4, rate);
    let mut begun = vec![world.calls.len()];
    for _ in 0..2 {
        world.pass(Duration::from_secs(10));
        world.dispatched(rate);
        world.sync();
        begun.push(world.calls.len());
    }
    assert_eq!(begun, [2, 3, 4]);
}

#[test]
fn r32_rate_holds_over_owners() {
    let quota = Quota::new(2, Duration::from_secs(10));
    let rate = |request: &DispatchRequest| of_steps(request, Claim::Rate("r".into(), quota));
    let mut world = dispatching();
    start(&mut world, 4, rate);
    for _ in 0..2 {
        world.answer("a", done());
    }
    world.sync();
    let mut begun = Vec::new();
    for _ in 0..4 {
        world.crash();
        world.pass(Duration::from_secs(5));
        world.dispatched(rate);
        world.sync();
        begun.push(world.calls.len());
        while world.call_of("a").is_some() {
            world.answer("a", done());
            world.sync();
        }
    }
    assert_eq!(begun, [0, 1, 0, 1]);
    world.pass(Duration::from_secs(20));
    world.crash();
    world.sync();
    assert!(world.stored.rates.is_empty(), "it is free");
}

#[test]
fn r32_call_waits_until_the_rate_that_it_takes_is_durable() {
    let quota = Quota::new(2, Duration::from_millis(10));
    let rate = |request: &DispatchRequest| of_steps(request, Claim::Rate("r".into(), quota));
    let mut world = dispatching_to(function("a", Repeat::Safe, Guard::Advisory));
    for key in ["1", "2"] {
        world.start("w", key);
    }
    world.dispatched_once(DispatchRequest::go);
    world.sync();
    world.dispatched(rate);
    assert!(
        world.called().is_empty(),
        "the second rides on the row of the first"
    );
    world.sync();
    assert_eq!(world.called(), ["a", "a"]);
}

#[test]
fn r32_fast_rate_is_written_ahead_and_not_with_each_attempt() {
    let quota = Quota::new(1, Duration::from_millis(10));
    let rate = |request: &DispatchRequest| of_steps(request, Claim::Rate("r".into(), quota));
    let mut world = dispatching();
    let mut written = Vec::new();
    for n in 0..300 {
        world.start("w", &n.to_string());
        world.dispatched(rate);
        world.sync();
        world.answer("a", done());
        world.sync();
        world.pass(Duration::from_millis(10));
        written.push(world.stored.rates.values().next().cloned());
    }
    written.dedup();
    assert_eq!(written.len(), 3, "{written:?}");
}

#[test]
fn r32_wide_rate_is_written_ahead_by_a_part_of_its_burst() {
    let quota = Quota::new(161, Duration::from_secs(10));
    let rate = |request: &DispatchRequest| of_steps(request, Claim::Rate("r".into(), quota));
    let mut world = dispatching();
    let mut begun = 0;
    for owner in 0..2 {
        for n in 0..90 {
            world.start("w", &format!("{owner} {n}"));
            world.dispatched(rate);
            world.sync();
            while world.call_of("a").is_some() {
                world.answer("a", done());
                begun += 1;
            }
        }
        world.crash();
    }
    assert!((151..=161).contains(&begun), "{begun}");
}

#[test]
fn r32_turn_at_a_rate_needs_a_second_question_only_after_a_minute() {
    let quota = Quota::new(1, Duration::from_secs(40));
    let rate = |request: &DispatchRequest| of_steps(request, Claim::Rate("r".into(), quota));
    let mut world = dispatching();
    start(&mut world, 3, rate);
    world.answer("a", done());
    world.pass(Duration::from_secs(40));
    assert!(world.dispatches.is_empty(), "let go 40 s ago");
    world.sync();
    world.answer("a", done());
    world.pass(Duration::from_secs(40));
    assert_eq!(world.dispatches.len(), 1, "let go 80 s ago");
    world.dispatched(rate);
    world.sync();
    assert_eq!(world.calls.len(), 1);
}

#[test]
fn r32_turn_at_a_rate_is_asked_about_again_for_newer_intent() {
    let quota = Quota::new(1, Duration::from_secs(10));
    let rate = |request: &DispatchRequest| of_steps(request, Claim::Rate("r".into(), quota));
    let mut world = dispatching();
    start(&mut world, 2, rate);
    let newer = testing::incarnation(9, []);
    world.step(Event::Took(newer, Box::default()));
    world.pass(Duration::from_secs(10));
    assert_eq!(world.dispatches.len(), 1, "its limit may be another one");
}

#[test]
fn r32_turn_at_a_rate_goes_with_its_step() {
    let quota = Quota::new(1, Duration::from_secs(10));
    let rate = |request: &DispatchRequest| of_steps(request, Claim::Rate("r".into(), quota));
    let mut world = dispatching();
    start(&mut world, 5, rate);
    for key in 1..5 {
        let id = world.start("w", &key.to_string());
        world.say(&id, Say::Cancel);
    }
    assert_eq!(
        world.kernel.claims.rates.size(),
        1,
        "the rate, and no turns"
    );
}
