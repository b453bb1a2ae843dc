//! Dispatch: classes, delays and claims.

use plugin_sdk::{Class, DispatchRequest, workflow::not};

use super::*;

pub(super) fn dispatching() -> World {
    dispatching_to(keyed("a"))
}

/// A world with a dispatch stack and a workflow that calls this function.
pub(super) fn dispatching_to(function: Function) -> World {
    let workflow = Workflow::new("w")
        .machine(Machine::calls("a", "a"))
        .ends_well(is("a", "done"))
        .build()
        .unwrap();
    let settings = Settings {
        workflows: [(workflow.name().clone(), workflow)].into(),
        functions: [(function.info.name.clone(), function)].into(),
        dispatches: true,
        ..Settings::default()
    };
    World::with_settings(settings)
}

/// Claims for steps, and not for the start of an execution.
pub(super) fn of_steps(request: &DispatchRequest, claim: Claim) -> plugin_sdk::Dispatch {
    match request.is_start() {
        true => request.go(),
        false => request.go().claim(claim),
    }
}

pub(super) fn start(
    world: &mut World,
    n: u32,
    answer: impl Fn(&DispatchRequest) -> plugin_sdk::Dispatch,
) {
    for key in 0..n {
        world.start("w", &key.to_string());
    }
    world.dispatched(answer);
    world.sync();
}

#[test]
fn r32_claims_are_counted_by_the_kernel_and_restored_at_takeover() {
    let two = |request: &DispatchRequest| of_steps(request, Claim::AtMost("app".into(), 2));
    let mut world = dispatching();
    start(&mut world, 5, two);
    assert_eq!(world.calls.len(), 2);
    // Work that is under way keeps its claim.
    world.answer("a", Ok(Ran::in_progress(Duration::from_secs(3600))));
    world.sync();
    assert_eq!(world.calls.len(), 1);
    world.crash();
    world.dispatched(two);
    world.sync();
    world.pass(Duration::from_secs(20));
    world.dispatched(two);
    world.sync();
    assert_eq!(world.calls.len(), 1, "one is under way, one is called");
    for _ in 0..4 {
        assert_eq!(world.calls.len(), 1);
        world.answer("a", done());
        world.sync();
        world.pass(Duration::from_secs(10));
        world.dispatched(two);
        world.sync();
    }
    assert_eq!(world.live(), 1);
}

#[test]
fn r32_delays_hold_and_are_looked_at_again() {
    let mut world = dispatching();
    start(&mut world, 1, |request| match request.is_start() {
        true => request.go(),
        false => request
            .delay("at night only")
            .recheck_after(Duration::from_secs(600)),
    });
    assert!(world.called().is_empty());
    let shown = world.shown("w", "0");
    let wait = shown.waits().next().unwrap().1;
    assert_eq!(wait.what, WaitFor::Rule(Vec::new()));
    assert_eq!(wait.next_look, Some(wait.since + Duration::from_secs(600)));
    world.pass(Duration::from_secs(600));
    world.dispatched(DispatchRequest::go);
    world.sync();
    assert_eq!(world.called(), ["a"]);
}

#[test]
fn r28_action_whose_guard_stops_to_hold_is_withdrawn_if_it_is_only_due_and_goes_on_if_it_was_called()
 {
    let workflow = Workflow::new("w")
        .machine(Machine::asks("open", "Still open?", ["no"]))
        .machine(Machine::calls("due", "a").when(is("open", "waiting")))
        .machine(Machine::calls("failed", "b").when(is("open", "waiting")))
        .ends_well(is("open", "no"))
        .build()
        .unwrap();
    let settings = Settings {
        workflows: [(workflow.name().clone(), workflow)].into(),
        functions: [("a".into(), keyed("a")), ("b".into(), keyed("b"))].into(),
        dispatches: true,
        ..Settings::default()
    };
    let mut world = World::with_settings(settings);
    let id = world.start("w", "1");
    let step = |request: &DispatchRequest| request.step.as_ref().map(ToString::to_string);
    world.dispatched(|request| match step(request).as_deref() {
        Some("due") => request.delay("not now"),
        _ => request.go(),
    });
    world.sync();
    world.answer("b", transient());
    world.say(&id, Say::answer("open", "no"));
    world.sync();
    let shown = world.shown("w", "1");
    let waits: Vec<_> = shown
        .waits()
        .map(|(machine, _)| machine.name.as_str())
        .collect();
    assert_eq!(waits, ["failed"]);
    world.pass(Duration::from_secs(2));
    world.dispatched(DispatchRequest::go);
    world.sync();
    world.answer("b", done());
    assert_eq!(world.outcome("w", "1"), Some(Outcome::Succeeded));
}

#[test]
fn r32_better_class_goes_first_and_age_raises_it() {
    let press = Claim::Exclusive("press".into());
    let class = |request: &DispatchRequest| {
        let urgent = request.labels.contains_key("urgent");
        let class = if urgent { Class::Urgent } else { request.class };
        of_steps(request, press.clone()).at_least(class)
    };
    let mut world = dispatching();
    start(&mut world, 1, class);
    let of = |label: Option<&str>, key: &str| {
        let start = plugin_sdk::operation::Start::of("w").key(key);
        match label {
            Some(label) => start.label(label, "yes"),
            None => start,
        }
    };
    world.start_with(of(None, "old"));
    world.dispatched(class);
    world.pass(Duration::from_secs(30));
    world.dispatched(class);
    world.start_with(of(Some("urgent"), "urgent"));
    world.dispatched(class);
    world.sync();
    world.answer("a", done());
    world.sync();
    let key = |world: &World| world.calls.values().next().unwrap().key.execution.n;
    assert_eq!(key(&world), 3, "the urgent one is before the older one");
    world.answer("a", done());
    world.sync();
    assert_eq!(key(&world), 2);
}

#[test]
fn r32_age_of_a_step_counts_over_all_its_questions_to_the_stack() {
    let class = |request: &DispatchRequest| {
        let urgent = request.labels.contains_key("urgent");
        let class = if urgent { Class::Urgent } else { request.class };
        of_steps(request, Claim::Exclusive("press".into())).at_least(class)
    };
    let mut world = dispatching();
    start(&mut world, 1, class);
    world.answer("a", Ok(Ran::in_progress(Duration::from_secs(100_000))));
    start(&mut world, 2, class);
    for _ in 0..190 {
        world.pass(Duration::from_secs(1));
        world.dispatched(class);
    }
    let urgent = plugin_sdk::operation::Start::of("w").key("urgent");
    world.start_with(urgent.label("urgent", "yes"));
    world.dispatched(class);
    let first = world.start("w", "0");
    world.say(&first, Say::restart(["a"]));
    world.dispatched(class);
    world.sync();
    let next = world.calls.values().next().unwrap();
    assert_eq!(
        next.key.execution.n, 2,
        "it waits for more than three minutes"
    );
}

#[test]
fn r32_all_for_which_there_is_room_go_on_when_several_claims_are_given_back_at_once() {
    let workflow = Workflow::new("two")
        .machine(Machine::calls("one", "a"))
        .machine(Machine::calls("other", "a"))
        .ends_well(all([is("one", "done"), is("other", "done")]))
        .build()
        .unwrap();
    let settings = Settings {
        workflows: [(workflow.name().clone(), workflow)].into(),
        functions: [("a".into(), keyed("a"))].into(),
        dispatches: true,
        ..Settings::default()
    };
    let two = |request: &DispatchRequest| of_steps(request, Claim::AtMost("app".into(), 2));
    let mut world = World::with_settings(settings);
    let first = world.start("two", "1");
    world.start("two", "2");
    world.dispatched(two);
    for _ in 0..2 {
        world.sync();
        world.answer("a", Ok(Ran::in_progress(Duration::from_secs(3600))));
    }
    world.say(&first, Say::restart(["one", "other"]));
    world.sync();
    assert_eq!(world.calls.len(), 2);
}

#[test]
fn r32_lowered_limit_lets_its_holders_go_on() {
    let at_most =
        |n| move |request: &DispatchRequest| of_steps(request, Claim::AtMost("app".into(), n));
    let mut world = dispatching();
    start(&mut world, 3, at_most(2));
    for _ in 0..2 {
        world.answer("a", transient());
    }
    world.sync();
    // Both wait for their next attempts and hold their claims.
    world.pass(Duration::from_secs(5));
    world.dispatched(at_most(1));
    world.sync();
    assert_eq!(world.calls.len(), 2);
    for _ in 0..2 {
        world.answer("a", done());
    }
    world.dispatched(at_most(1));
    world.sync();
    assert_eq!(world.calls.len(), 1);
}

/// The place of a step that is new among the calls of `a`, while an urgent step comes every 20 s. `None`: it is
/// not called within 20 min.
#[cfg(feature = "planted-bugs")]
fn place_of_a_new_step(settings: Settings) -> Option<usize> {
    let mut world = World::with_settings(settings);
    let one = |request: &DispatchRequest| {
        let class = match request.execution.n {
            2 => request.class,
            _ => Class::Urgent,
        };
        of_steps(request, Claim::Exclusive("press".into())).at_least(class)
    };
    start(&mut world, 2, one);
    (0..60).find(|n| {
        world.start("w", &format!("urgent {n}"));
        world.pass(Duration::from_secs(20));
        world.dispatched(one);
        world.sync();
        let called = world.answer("a", done()).key.execution.n;
        world.sync();
        world.dispatched(one);
        world.sync();
        called == 2
    })
}

/// The simulation has no lane that is full for hours: this is the place where a step that starves is seen.
#[cfg(feature = "planted-bugs")]
#[test]
fn r32_step_that_does_not_rise_with_its_age_starves() {
    let settings = |bug: Option<Bug>| {
        let mut settings = dispatching().settings().clone();
        settings.config.planted = bug;
        settings
    };
    let place = place_of_a_new_step(settings(None));
    assert!(place.is_some_and(|place| place <= 8), "{place:?}");
    assert_eq!(place_of_a_new_step(settings(Some(Bug::NoAging))), None);
}

#[test]
fn r32_clean_up_keeps_its_class_over_owners() {
    let workflow = Workflow::new("w")
        .machine(Machine::calls("a", "a").when(not(cancelled())))
        .machine(Machine::calls("undo", "a").cleans_up().when(cancelled()))
        .ends_well(is("a", "done"))
        .ends_badly(is("undo", ["done", "failed"]))
        .build()
        .unwrap();
    let mut world = World::new([workflow], [keyed("a")]);
    let id = world.start("w", "1");
    world.say(&id, Say::Cancel);
    world.sync();
    for _ in 0..2 {
        let execution = world.kernel.live.values().next().unwrap();
        let classes: Vec<Class> = execution.steps.values().map(|step| step.class).collect();
        assert!(classes.contains(&Class::Urgent), "{classes:?}");
        world.crash();
        world.sync();
    }
}

#[test]
fn r26_delay_of_days_before_the_first_attempt_is_no_failure() {
    let mut world = dispatching();
    let taken = || Claim::Exclusive("press".into());
    start(&mut world, 2, |request| of_steps(request, taken()));
    let day = Duration::from_secs(24 * 3_600);
    world.answer("a", Ok(Ran::in_progress(2 * day)));
    world.sync();
    world.pass(day + Duration::from_secs(1));
    world.dispatched(|request| of_steps(request, taken()));
    world.sync();
    assert_eq!(world.ended_count(), 1, "the time of the first is over");
    assert_eq!(world.called(), ["a"], "the second takes the claim");
}

#[test]
fn r32_question_that_is_open_when_the_time_for_all_attempts_ends_is_dropped() {
    let workflow = Workflow::new("w")
        .machine(Machine::calls("a", "a").deadline(Duration::from_secs(25)))
        .ends_well(is("a", "done"))
        .ends_badly(is("a", "failed"))
        .build()
        .unwrap();
    let mut world = World::with_settings(Settings {
        workflows: [(workflow.name().clone(), workflow)].into(),
        functions: [("a".into(), keyed("a"))].into(),
        dispatches: true,
        ..Settings::default()
    });
    let id = world.start("w", "1");
    world.dispatched(DispatchRequest::go);
    world.sync();
    world.answer("a", Err(plugin::Error::transient("busy")));
    world.sync();
    for _ in 0..4 {
        world.pass(Duration::from_secs(10));
    }
    assert!(!world.kernel.is_live(&id), "it has failed");
    assert!(world.dispatches.is_empty(), "{:?}", world.dispatches);
}
