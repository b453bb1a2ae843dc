//! Attempts, keys, failures, unknown outcomes and poison.

use plugin_sdk::operation::Probed;

use super::*;

fn one(function: Function) -> World {
    let machine = Machine::calls("print", &function.info.name).retry_limit(3);
    let workflow = Workflow::new("w")
        .machine(machine)
        .ends_well(is("print", "done"))
        .build()
        .unwrap();
    let mut world = World::new([workflow], [function]);
    world.start("w", "1");
    world.sync();
    world
}

const LONG: Duration = Duration::from_secs(400);

#[test]
fn r25_key_is_the_same_for_every_attempt_and_owner_and_the_fence_rises() {
    let mut world = one(keyed("print"));
    let mut calls = vec![world.answer("print", transient())];
    world.pass(LONG);
    world.sync();
    calls.push(world.calls.values().next().unwrap().clone());
    world.crash();
    world.sync();
    calls.push(world.answer("print", done()));
    assert!(
        calls
            .windows(2)
            .all(|two| two[0].key == two[1].key && two[0].fence < two[1].fence),
        "{calls:?}"
    );
    assert_eq!(world.outcome("w", "1"), Some(Outcome::Succeeded));
}

#[test]
fn r26_last_of_the_consecutive_failures_takes_the_transition_failed() {
    let mut world = one(keyed("print"));
    for failure in 1..=3 {
        assert_eq!(world.outcome("w", "1"), None, "{failure}");
        world.answer("print", transient());
        world.pass(LONG);
    }
    assert_eq!(world.outcome("w", "1"), Some(Outcome::Failed));
    let ended = world.ended("w", "1");
    assert!(
        ended
            .errors
            .values()
            .next()
            .unwrap()
            .starts_with("the press is jammed")
    );
}

#[test]
fn r26_answer_that_is_no_failure_starts_the_count_over_and_throttling_does_not_count() {
    let mut world = one(keyed("print"));
    for _ in 0..4 {
        for answer in [
            transient(),
            transient(),
            Err(plugin::Error::throttled("later", Duration::from_secs(5))),
            Ok(Ran::in_progress(Duration::from_secs(5))),
        ] {
            world.answer("print", answer);
            world.pass(LONG);
            world.sync();
        }
    }
    world.answer("print", done());
    assert_eq!(world.outcome("w", "1"), Some(Outcome::Succeeded));
}

#[test]
fn r26_permanent_failure_is_not_tried_again() {
    let mut world = one(keyed("print"));
    world.answer("print", Err(plugin::Error::permanent("no such text")));
    assert_eq!(world.outcome("w", "1"), Some(Outcome::Failed));
}

#[test]
fn r25_advisory_function_is_called_again_only_when_the_old_attempt_can_take_no_effect() {
    let mut world = one(function("print", Repeat::Keyed, Guard::Advisory));
    world.pass(Duration::from_secs(20));
    world.crash();
    world.sync();
    world.pass(Duration::from_secs(39));
    assert!(
        world.called().is_empty(),
        "the deadline of a minute has not passed"
    );
    world.pass(Duration::from_secs(2));
    world.sync();
    assert_eq!(world.called(), ["print"]);
}

#[test]
fn r25_guarded_function_is_called_again_at_once_under_a_greater_fence() {
    let mut world = one(keyed("print"));
    world.crash();
    world.sync();
    assert_eq!(world.called(), ["print"]);
}

#[test]
fn r25_function_that_must_not_be_repeated_waits_for_a_word() {
    let mut world = one(function("print", Repeat::Never, Guard::Guarded));
    world.pass(Duration::from_secs(61));
    world.sync();
    let shown = world.shown("w", "1");
    assert_eq!(shown.waits().next().unwrap().1.what, WaitFor::Word);
    let is_parked = |entry: &crate::record::Entry| matches!(&entry.what, What::Parked(_));
    let parked = |world: &World| world.log("w", "1").into_iter().filter(is_parked).count();
    assert_eq!(parked(&world), 1);
    world.crash();
    world.pass(Duration::from_secs(100_000));
    assert!(world.called().is_empty());
    assert_eq!(parked(&world), 1, "it is told once");
    let again = Say::Settle {
        machine: "print".into(),
        settled: Settled::Again,
    };
    assert_eq!(world.say(&shown.id, again), Reply::Taken);
    world.sync();
    world.pass(Duration::from_secs(61));
    let outcome = |name: &str| Say::Settle {
        machine: "print".into(),
        settled: Settled::Outcome(name.into()),
    };
    let Reply::Refused(refused) = world.say(&shown.id, outcome("perhaps")) else {
        panic!("the outcome is not declared");
    };
    assert!(
        refused
            .to_string()
            .ends_with("its outcomes are: done, failed"),
        "{refused}"
    );
    world.say(&shown.id, outcome("done"));
    assert_eq!(world.outcome("w", "1"), Some(Outcome::Succeeded));
}

#[test]
fn r25_probe_is_asked_first() {
    let mut print = function("print", Repeat::Never, Guard::Guarded);
    print.has_probe = true;
    let mut world = one(print);
    world.crash();
    world.probed(Probed::InProgress);
    world.pass(Duration::from_secs(5));
    world.probed(Probed::NotHappened);
    world.sync();
    assert_eq!(
        world.called(),
        ["print"],
        "it has not happened, so it is called"
    );
    world.crash();
    world.probed(Probed::Happened(Answer::new()));
    assert_eq!(world.outcome("w", "1"), Some(Outcome::Succeeded));
}

#[test]
fn r24_answers_of_older_attempts_and_owners_change_nothing() {
    let mut world = one(keyed("print"));
    let late = world.call_of("print").unwrap();
    world.pass(Duration::from_secs(61));
    assert!(world.abandoned.contains(&late));
    let commits = world.commits();
    world.step(Event::Answered(late, done()));
    assert_eq!(world.commits(), commits);
    assert_eq!(world.outcome("w", "1"), None);
}

#[test]
fn r24_total_of_a_step_has_a_deadline_also_over_owners() {
    let mut world = one(keyed("print"));
    for _ in 0..23 {
        world.answer("print", Ok(Ran::in_progress(Duration::from_secs(3600))));
        world.sync();
        world.crash();
        world.pass(Duration::from_secs(3600));
        world.sync();
    }
    assert_eq!(world.outcome("w", "1"), None);
    world.answer("print", Ok(Ran::in_progress(Duration::from_secs(3600))));
    world.pass(Duration::from_secs(3601));
    assert_eq!(world.outcome("w", "1"), Some(Outcome::Failed));
}

#[test]
fn r26_call_that_was_in_flight_at_three_deaths_is_parked_and_the_rest_goes_on() {
    let machine = |name: &str| Machine::calls(name, name);
    let workflow = Workflow::new("w")
        .machine(machine("poison"))
        .machine(machine("good"))
        .ends_well(all([is("poison", "done"), is("good", "done")]))
        .build()
        .unwrap();
    let mut world = World::new([workflow], [keyed("poison"), keyed("good")]);
    let id = world.start("w", "1");
    world.sync();
    let mut deaths = 0;
    while world.call_of("poison").is_some() {
        deaths += 1;
        world.crash();
        world.sync();
        // One suspect at a time: if the good one is first, it answers, and the other one is called next.
        if world.call_of("good").is_some() {
            world.answer("good", Ok(Ran::in_progress(Duration::from_secs(1_000_000))));
            world.sync();
        }
        world.pass(Duration::from_secs(10));
        world.sync();
        assert!(deaths < 10);
    }
    assert_eq!(deaths, 3);
    let shown = world.shown("w", "1");
    let (machine, wait) = shown.waits().next().unwrap();
    assert_eq!(
        (machine.name.as_str(), &wait.what),
        ("poison", &WaitFor::Word),
        "{wait:?}"
    );
    world.crash();
    world.pass(Duration::from_secs(100));
    assert!(world.call_of("poison").is_none(), "only a word replays it");
    assert_eq!(world.say(&id, Say::Replay("poison".into())), Reply::Taken);
    world.sync();
    world.answer("poison", done());
    assert_eq!(world.outcome("w", "1"), None, "the good one is under way");
}

/// A call that was in flight at two deaths is put off, by the function or without having been made, and is in flight at a
/// third one. Returns whether it is made again.
fn made_after(put_off: impl Fn(CallNo, plugin::Error) -> Event) -> bool {
    let soon = Duration::from_secs(20);
    let mut world = one(keyed("print"));
    for _ in 0..2 {
        world.crash();
        world.sync();
        world.pass(soon);
        world.sync();
    }
    let call = world.call_of("print").unwrap();
    world.calls.remove(&call);
    let later = plugin::Error::throttled("later", Duration::from_secs(5));
    world.step(put_off(call, later));
    world.sync();
    world.pass(soon);
    world.sync();
    assert_eq!(world.called(), ["print"]);
    world.crash();
    world.sync();
    world.pass(soon);
    world.sync();
    !world.called().is_empty()
}

#[test]
fn r26_call_that_is_put_off_says_nothing_about_the_deaths_before_it() {
    // The shell could not read what the function needs, and has not called it.
    assert!(
        !made_after(Event::PutOff),
        "it was in flight at three deaths"
    );
    let answers = |call, later| Event::Answered(call, Err(later));
    assert!(made_after(answers), "the function has answered");
}

/// Five executions, each with a call in flight.
fn five_prints() -> World {
    let workflow = Workflow::new("w")
        .machine(Machine::calls("print", "print"))
        .ends_well(is("print", "done"));
    let mut world = World::new([workflow.build().unwrap()], [keyed("print")]);
    for key in 0..5 {
        world.start("w", &key.to_string());
    }
    world.sync();
    world
}

#[test]
fn r26_suspects_start_one_at_a_time() {
    let mut world = five_prints();
    world.crash();
    world.sync();
    assert_eq!(world.calls.len(), 1);
    world.answer("print", done());
    world.sync();
    assert_eq!(world.calls.len(), 1, "the next one when one has answered");
    world.pass(Duration::from_secs(10));
    world.sync();
    assert_eq!(world.calls.len(), 2, "or after 10 seconds");
}

#[test]
fn r26_suspect_that_was_not_tried_is_one_for_the_next_owner_too() {
    let mut world = five_prints();
    for _ in 0..3 {
        world.crash();
        world.sync();
        assert_eq!(world.calls.len(), 1, "one at a time");
    }
}

#[test]
fn r25_person_says_what_happened_if_the_probe_does_not_find_out() {
    let workflow = Workflow::new("w")
        .machine(Machine::calls("a", "a"))
        .ends_well(is("a", "done"))
        .build()
        .unwrap();
    let mut function = function("a", Repeat::Never, Guard::Guarded);
    function.has_probe = true;
    let mut world = World::new([workflow], [function]);
    let id = world.start("w", "1");
    world.sync();
    world.answer("a", Err(plugin::Error::unknown("the connection broke")));
    world.sync();
    world.probe_fails("the job is forgotten");
    world.sync();
    let shown = world.shown("w", "1");
    let a = shown.machine("a").unwrap();
    let error = a.error.as_ref().unwrap();
    assert!(error.contains("the job is forgotten"), "{error}");
    let why = &a.wait.as_ref().unwrap().why;
    assert!(why.contains("or settle it"), "{why}");
    assert_eq!(world.say(&id, Say::settle("a", "done")), Reply::Taken);
    assert_eq!(world.outcome("w", "1"), Some(Outcome::Succeeded));
}

#[test]
fn r26_safe_call_that_ends_owners_is_parked_too() {
    let safe = |name| function(name, Repeat::Safe, Guard::Advisory);
    let workflow = Workflow::new("w")
        .machine(Machine::calls("a", "a"))
        .machine(Machine::calls("b", "b").when(is("a", "done")))
        .ends_well(is("b", "done"))
        .build()
        .unwrap();
    let mut world = World::new([workflow], [safe("a"), safe("b")]);
    world.start("w", "1");
    world.sync();
    for _ in 0..6 {
        if world.call_of("a").is_some() {
            world.answer("a", done());
            world.sync();
        }
        if world.call_of("b").is_none() {
            break;
        }
        world.crash();
        world.sync();
    }
    let shown = world.shown("w", "1");
    assert_eq!(shown.waits().next().unwrap().1.what, WaitFor::Word);
}

#[test]
fn r26_safe_call_that_ends_owners_is_parked_although_its_start_is_asked_for_again() {
    let workflow = Workflow::new("w")
        .machine(Machine::calls("print", "print"))
        .ends_well(is("print", "done"));
    let print = function("print", Repeat::Safe, Guard::Advisory);
    let mut world = World::new([workflow.build().unwrap()], [print]);
    for _ in 0..8 {
        world.start("w", "1");
        // The call ends the owner before anything more is durable.
        match world.call_of("print") {
            Some(_) => world.crash(),
            None => world.sync(),
        }
    }
    let shown = world.shown("w", "1");
    assert_eq!(shown.waits().next().unwrap().1.what, WaitFor::Word);
}

#[test]
fn r28_undeclared_outcome_is_a_failure_and_data_chooses_among_the_declared() {
    let machine = Machine::calls("look", "look").outcomes(["full"]);
    let workflow = Workflow::new("w")
        .machine(machine)
        .machine(Machine::calls("grow", "grow").when(is("look", "full")))
        .ends_well(any([is("look", "done"), is("grow", "done")]))
        .build()
        .unwrap();
    let mut world = World::new([workflow], [keyed("look"), keyed("grow")]);
    world.start("w", "1");
    world.start("w", "2");
    world.sync();
    let full = |outcome: &str| Ok(Answer::new().outcome(outcome).done());
    world.answer("look", full("perhaps"));
    assert_eq!(world.outcome("w", "1"), Some(Outcome::Failed));
    world.answer("look", full("full"));
    world.sync();
    world.answer("grow", done());
    assert_eq!(world.outcome("w", "2"), Some(Outcome::Succeeded));
}

#[test]
fn r26_only_what_was_in_flight_counts_deaths_of_owners() {
    let mut world = one(function("print", Repeat::Keyed, Guard::Advisory));
    world.answer("print", Err(plugin::Error::unknown("the connection broke")));
    world.sync();
    for _ in 0..5 {
        world.pass(Duration::from_secs(5));
        world.crash();
        world.sync();
    }
    world.pass(Duration::from_secs(40));
    world.sync();
    assert_eq!(world.called(), ["print"]);
}

#[test]
fn r26_answer_starts_the_count_of_deaths_over() {
    let mut world = one(keyed("print"));
    for _ in 0..5 {
        world.crash();
        world.sync();
        world.answer("print", Ok(Ran::in_progress(Duration::from_secs(1))));
        world.pass(Duration::from_secs(1));
        world.sync();
    }
    assert_eq!(world.called(), ["print"]);
}

#[test]
fn r24_safe_function_is_not_called_without_a_fresh_lease() {
    let mut world = one(function("print", Repeat::Safe, Guard::Advisory));
    world.lease(Duration::ZERO);
    world.start("w", "2");
    world.sync();
    assert_eq!(world.called(), ["print"], "that of the first one");
    world.lease(Duration::from_secs(10));
    assert_eq!(world.called(), ["print", "print"]);
}

#[test]
fn r25_advisory_attempt_that_becomes_durable_too_late_is_made_again() {
    let machine = Machine::calls("print", "print");
    let workflow = Workflow::new("w")
        .machine(machine)
        .ends_well(is("print", "done"));
    let print = function("print", Repeat::Keyed, Guard::Advisory);
    let mut world = World::new([workflow.build().unwrap()], [print]);
    world.start("w", "1");
    // The store is slow: of the minute of the attempt too little is left for the callee.
    world.pass(Duration::from_secs(40));
    world.sync();
    let call = world.answer("print", done());
    assert_eq!(call.fence.attempt, 2);
}

/// The clock was not looked at between the deadline and the answer.
#[test]
fn r26_answer_after_the_deadline_changes_nothing() {
    let mut world = one(keyed("print"));
    world.now.mono = world.now.mono + Duration::from_secs(61);
    let call = world.call_of("print").unwrap();
    world.step(Event::Answered(call, done()));
    world.sync();
    assert_eq!(world.outcome("w", "1"), None, "the answer was taken");
}
