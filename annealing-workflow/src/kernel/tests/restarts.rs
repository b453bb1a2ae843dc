//! Restarts, and what the calls and children of the run before may still do.

use plugin_sdk::operation::{ExecutionId, Probed};

use super::*;

/// An execution that calls `a` at the time 0, at the time 20.
fn called(function: Function) -> (World, ExecutionId) {
    let workflow = Workflow::new("w")
        .machine(Machine::calls("a", "a").retry_limit(5))
        .ends_well(is("a", "done"))
        .build()
        .unwrap();
    let mut world = World::new([workflow], [function]);
    let id = world.start("w", "1");
    world.sync();
    world.pass(Duration::from_secs(20));
    (world, id)
}

/// The new run of `a` begins at the time 60, and not before.
fn begins_at_the_deadline(world: &mut World) {
    world.sync();
    world.pass(Duration::from_secs(39));
    world.sync();
    assert!(world.calls.values().all(|call| call.key.run == 1));
    world.pass(Duration::from_secs(2));
    world.sync();
    assert_eq!(
        world
            .calls
            .values()
            .map(|call| call.key.run)
            .collect::<Vec<_>>(),
        [2]
    );
}

fn restart(world: &mut World, id: &ExecutionId) {
    assert_eq!(world.say(id, Say::restart(["a"])), Reply::Taken);
}

#[test]
fn r30_new_run_has_another_key_so_it_waits_for_the_deadline_of_a_guarded_call_too() {
    let (mut world, id) = called(keyed("a"));
    restart(&mut world, &id);
    begins_at_the_deadline(&mut world);
}

#[test]
fn r30_new_run_waits_for_the_deadline_of_a_call_whose_answer_was_lost() {
    for takeover in [false, true] {
        let (mut world, id) = called(keyed("a"));
        world.answer("a", Err(plugin::Error::unknown("the connection broke")));
        world.sync();
        if takeover {
            world.crash();
            world.sync();
        }
        restart(&mut world, &id);
        begins_at_the_deadline(&mut world);
    }
}

/// The attempt after one of unknown outcome is not made, which says nothing about the one before.
#[test]
fn r30_new_run_waits_for_the_deadline_of_the_call_before_one_that_is_put_off() {
    let (mut world, id) = called(keyed("a"));
    world.answer("a", Err(plugin::Error::unknown("the connection broke")));
    world.sync();
    world.pass(Duration::from_secs(5));
    world.sync();
    let call = world.call_of("a").expect("a second attempt");
    world.calls.remove(&call);
    let later = plugin::Error::throttled("later", Duration::from_secs(5));
    world.step(Event::PutOff(call, later));
    restart(&mut world, &id);
    world.sync();
    assert!(
        world.call_of("a").is_none(),
        "the first attempt may still act"
    );
}

#[test]
fn r30_new_run_waits_for_the_deadline_of_a_call_that_a_probe_is_asked_about() {
    let mut probed = function("a", Repeat::Never, Guard::Advisory);
    probed.has_probe = true;
    let (mut world, id) = called(probed);
    world.crash();
    world.probed(Probed::InProgress);
    world.sync();
    restart(&mut world, &id);
    begins_at_the_deadline(&mut world);
}

#[test]
fn r30_new_run_waits_for_the_deadline_of_a_call_that_is_not_settled() {
    let (mut world, id) = called(function("a", Repeat::Never, Guard::Advisory));
    world.crash();
    world.sync();
    world.crash();
    restart(&mut world, &id);
    world.sync();
    world.crash();
    let shown = world.shown("w", "1");
    assert_eq!(
        shown.waits().next().unwrap().1.why,
        "a call of the run before may still take effect"
    );
    begins_at_the_deadline(&mut world);
}

/// A season whose `load` is in flight and restarted.
fn restarted_in_flight() -> (World, ExecutionId) {
    let mut world = of_season();
    let id = world.start("season", "1");
    world.sync();
    world.pass(Duration::from_secs(20));
    world.say(&id, Say::restart(["load"]));
    world.sync();
    (world, id)
}

#[test]
fn r30_cancel_after_a_restart_waits_for_the_old_call_and_cleans_up_what_it_did() {
    for takeover in [false, true] {
        let (mut world, id) = restarted_in_flight();
        if takeover {
            world.crash();
            world.sync();
        }
        world.say(&id, Say::Cancel);
        world.sync();
        assert_eq!(
            world.outcome("season", "1"),
            None,
            "the old call may take effect"
        );
        world.pass(Duration::from_secs(15));
        world.sync();
        let answered = world.answer("load", done());
        assert_eq!(
            answered.key.run, 1,
            "an attempt of the run that was in flight"
        );
        world.sync();
        world.answer("unload", done());
        world.sync();
        assert_eq!(world.outcome("season", "1"), Some(Outcome::Cancelled));
    }
}

#[test]
fn r30_restart_of_an_attempt_that_was_not_made_waits_for_nothing() {
    let mut world = of_season();
    let id = world.start("season", "1");
    assert!(world.called().is_empty(), "its commit is not durable");
    world.say(&id, Say::restart(["load"]));
    world.sync();
    assert_eq!(world.answer("load", done()).key.run, 2);
}

#[test]
fn r30_restart_that_takes_a_cancel_back_makes_the_restart_before_it_too() {
    for takeover in [false, true] {
        let (mut world, id) = restarted_in_flight();
        world.say(&id, Say::Cancel);
        world.sync();
        if takeover {
            world.crash();
            world.sync();
        }
        assert_eq!(world.say(&id, Say::restart(["publish"])), Reply::Taken);
        // The next owner has called again, to find out what the old run did.
        world.pass(Duration::from_secs(61));
        world.sync();
        assert_eq!(world.answer("load", done()).key.run, 2);
        world.sync();
        world.answer("publish", done());
        assert_eq!(world.outcome("season", "1"), Some(Outcome::Succeeded));
    }
}

#[test]
fn r30_cancel_after_a_restart_asks_again_what_an_unknown_call_did() {
    let (mut world, id) = restarted_in_flight();
    world.answer("load", Err(plugin::Error::unknown("the connection broke")));
    world.sync();
    world.say(&id, Say::Cancel);
    world.sync();
    assert_eq!(world.outcome("season", "1"), None);
    world.pass(Duration::from_secs(15));
    world.sync();
    assert_eq!(world.answer("load", done()).key.run, 1);
    world.sync();
    world.answer("unload", done());
    assert_eq!(world.outcome("season", "1"), Some(Outcome::Cancelled));
}

#[test]
fn r30_skip_after_a_restart_is_refused_while_the_old_call_may_take_effect() {
    for lost in [false, true] {
        let (mut world, id) = restarted_in_flight();
        if lost {
            world.answer("load", Err(plugin::Error::unknown("the connection broke")));
        }
        let skipped = world.say(&id, Say::skip("load", "done"));
        assert!(matches!(skipped, Reply::Refused(_)), "{skipped:?}");
        world.pass(Duration::from_secs(41));
        world.sync();
        assert_eq!(world.answer("load", done()).key.run, 2);
    }
}

#[test]
fn r30_new_run_begins_when_the_old_call_has_answered_and_its_answer_is_dropped() {
    for answer in [
        done(),
        transient(),
        Ok(Ran::in_progress(Duration::from_secs(5))),
    ] {
        let (mut world, _) = restarted_in_flight();
        assert_eq!(world.answer("load", answer).key.run, 1);
        world.sync();
        assert_eq!(
            world.called(),
            ["load"],
            "the new run, and nothing that follows the old one"
        );
        assert_eq!(world.answer("load", done()).key.run, 2);
        world.sync();
        world.answer("publish", done());
        assert_eq!(world.outcome("season", "1"), Some(Outcome::Succeeded));
    }
}

#[test]
fn r30_restart_that_waits_for_a_call_outlives_its_owner() {
    let (mut world, _) = restarted_in_flight();
    world.crash();
    world.sync();
    assert!(world.called().is_empty());
    world.pass(Duration::from_secs(41));
    world.sync();
    assert_eq!(world.answer("load", done()).key.run, 2);
}

#[test]
fn r25_replay_of_an_advisory_call_waits_for_its_deadline() {
    let mut settings = Settings::default();
    let workflow = Workflow::new("w")
        .machine(Machine::calls("a", "a"))
        .ends_well(is("a", "done"))
        .build()
        .unwrap();
    settings.workflows.insert("w".into(), workflow);
    let advisory = function("a", Repeat::Keyed, Guard::Advisory);
    settings.functions.insert("a".into(), advisory);
    settings.config.death_limit = 1;
    let mut world = World::with_settings(settings);
    let id = world.start("w", "1");
    world.sync();
    world.pass(Duration::from_secs(20));
    world.crash();
    world.sync();
    world.say(&id, Say::Replay("a".into()));
    world.sync();
    world.pass(Duration::from_secs(39));
    world.sync();
    assert!(world.called().is_empty());
    world.pass(Duration::from_secs(2));
    world.sync();
    assert_eq!(world.called(), ["a"]);
}

#[test]
fn r30_cancel_asks_again_what_may_have_happened_also_after_a_failure() {
    let mut world = of_season();
    let id = world.start("season", "1");
    world.sync();
    world.pass(Duration::from_secs(62));
    world.sync();
    // A failure of the second attempt says nothing about the first one.
    world.answer("load", transient());
    world.say(&id, Say::Cancel);
    world.pass(Duration::from_secs(10));
    world.sync();
    world.answer("load", done());
    world.sync();
    world.answer("unload", done());
    assert_eq!(world.outcome("season", "1"), Some(Outcome::Cancelled));
}

#[test]
fn r24_call_whose_deadline_has_passed_is_not_made() {
    let (mut world, _) = called(keyed("a"));
    world.start("w", "2");
    // The process stands still, and wakes with the result of the commit.
    world.now.mono = world.now.mono + Duration::from_secs(61);
    world.calls.clear();
    world.sync();
    let calls: Vec<_> = world
        .calls
        .values()
        .filter(|call| call.key.execution.n == 2)
        .collect();
    assert_eq!(
        calls
            .iter()
            .map(|call| call.fence.attempt)
            .collect::<Vec<_>>(),
        [2]
    );
    let unknown = |entry: &crate::record::Entry| matches!(entry.what, What::Unknown { .. });
    assert!(!world.log("w", "2").iter().any(unknown));
}

/// One advisory call with a total of 30 seconds.
fn short() -> World {
    let workflow = Workflow::new("w")
        .machine(Machine::calls("a", "a").deadline(Duration::from_secs(30)))
        .ends_well(is("a", "done"))
        .build()
        .unwrap();
    World::new([workflow], [function("a", Repeat::Keyed, Guard::Advisory)])
}

#[test]
fn r27_step_whose_time_ends_while_its_call_is_fenced_off_ends() {
    let mut world = short();
    world.start("w", "1");
    world.sync();
    world.pass(Duration::from_secs(10));
    world.answer("a", Err(plugin::Error::unknown("the connection broke")));
    world.pass(Duration::from_secs(100));
    assert_eq!(world.outcome("w", "1"), Some(Outcome::Failed));
}

#[test]
fn r24_total_of_a_step_holds_also_if_it_ends_among_the_suspects() {
    let mut world = short();
    world.start("w", "1");
    world.start("w", "2");
    world.sync();
    world.pass(Duration::from_secs(15));
    world.crash();
    for _ in 0..100 {
        world.sync();
        while world.call_of("a").is_some() {
            world.answer("a", Ok(Ran::in_progress(Duration::from_secs(5))));
            world.sync();
        }
        world.pass(Duration::from_secs(5));
    }
    assert_eq!(world.outcome("w", "1"), Some(Outcome::Failed));
    assert_eq!(world.outcome("w", "2"), Some(Outcome::Failed));
}

#[test]
fn r30_context_of_later_answers_replaces_that_of_earlier_ones_after_a_restart_and_a_takeover() {
    let next = |name: &str, before: &str| Machine::calls(name, name).when(is(before, "done"));
    let workflow = Workflow::new("w")
        .machine(Machine::calls("p1", "p1"))
        .machine(next("p2", "p1"))
        .machine(next("p3", "p2"))
        .machine(Machine::calls("q", "q"))
        .machine(Machine::calls("end", "end").when(all([is("p3", "done"), is("q", "done")])))
        .ends_well(is("end", "done"))
        .build()
        .unwrap();
    let mut world = World::new([workflow], ["p1", "p2", "p3", "q", "end"].map(keyed));
    let id = world.start("w", "1");
    let x = |value: &str| Ok(Answer::new().context("x", &value).unwrap().done());
    let answer = |world: &mut World, name: &str| {
        world.sync();
        world.answer(name, x(name)).run.context
    };
    for name in ["p1", "p2", "p3", "q"] {
        answer(&mut world, name);
    }
    world.sync();
    world.say(&id, Say::restart(["p1"]));
    world.sync();
    world.crash();
    world.pass(Duration::from_secs(60));
    for name in ["p1", "p2", "p3"] {
        answer(&mut world, name);
    }
    assert_eq!(answer(&mut world, "end")["x"], json!("p3"));
}

/// Clean-up that has failed can run again, in a live execution and in one that has ended, and nothing else begins by that.
#[test]
fn r30_restart_of_clean_up_keeps_the_cancel_and_does_not_wait_for_a_start() {
    let mut world = of_season();
    let id = world.start("season", "1");
    world.sync();
    world.answer("load", done());
    world.sync();
    world.say(&id, Say::Cancel);
    world.sync();
    let fails = || Err(plugin::Error::permanent("the disk is full"));
    world.answer("unload", fails());
    assert_eq!(world.say(&id, Say::restart(["undo"])), Reply::Taken);
    world.sync();
    assert_eq!(
        world.called(),
        ["publish", "unload"],
        "`publish` was in flight"
    );
    world.answer("publish", transient());
    world.answer("unload", fails());
    assert_eq!(world.outcome("season", "1"), Some(Outcome::Failed));
    world.hear(Command::Workflow("season".into(), WorkflowWord::Drain));
    assert_eq!(world.reopen(&id, &["undo"]), Reply::Taken);
    world.sync();
    assert_eq!(world.called(), ["unload"]);
    // What the cancel holds would begin in a drain.
    let all = world.say(&id, Say::restart(["load"]));
    assert!(matches!(all, Reply::Refused(_)), "{all:?}");
    world.answer("unload", done());
    assert_eq!(world.outcome("season", "1"), Some(Outcome::Cancelled));
}

#[test]
fn r30_restart_drops_what_a_machine_has_left_for_others() {
    let workflow = Workflow::new("w")
        .machine(Machine::calls("a", "a"))
        .machine(Machine::asks("go", "Go?", ["yes"]))
        .machine(Machine::calls("b", "b").when(is("go", "yes")))
        .ends_well(all([is("a", "done"), is("b", "done")]))
        .build()
        .unwrap();
    let mut world = World::new([workflow], [keyed("a"), keyed("b")]);
    let id = world.start("w", "1");
    world.sync();
    world.answer("a", Ok(Answer::new().context("x", &1).unwrap().done()));
    world.say(&id, Say::restart(["a"]));
    world.say(&id, Say::answer("go", "yes"));
    world.sync();
    assert!(world.answer("b", done()).run.context.is_empty());
    world.crash();
    world.sync();
    assert!(world.answer("a", done()).run.context.is_empty());
}

#[test]
fn r30_cancel_asks_again_what_may_have_happened_also_under_the_next_owner() {
    let mut world = of_season();
    let id = world.start("season", "1");
    world.sync();
    world.pass(Duration::from_secs(60));
    world.sync();
    world.crash();
    world.say(&id, Say::Cancel);
    world.pass(Duration::from_secs(2));
    world.sync();
    world.answer("load", done());
    world.sync();
    world.answer("unload", done());
    assert_eq!(world.outcome("season", "1"), Some(Outcome::Cancelled));
}

#[test]
fn r30_fence_of_a_new_run_is_greater_than_those_of_the_old_one() {
    let (mut world, id) = called(keyed("a"));
    world.answer("a", transient());
    world.pass(Duration::from_secs(10));
    world.sync();
    let old = world.calls.values().next().unwrap().clone();
    restart(&mut world, &id);
    world.pass(Duration::from_secs(60));
    world.sync();
    let new = world.calls.values().next().unwrap().clone();
    assert!(new.key.run > old.key.run);
    assert!(new.fence > old.fence, "{} after {}", new.fence, old.fence);
}

#[test]
fn r27_step_whose_time_ends_with_that_of_its_fenced_call_is_asked_again_after_a_takeover() {
    let mut world = short();
    world.start("w", "1");
    world.sync();
    world.pass(Duration::from_secs(20));
    world.crash();
    world.sync();
    world.pass(Duration::from_secs(11));
    world.sync();
    // What may have happened is asked again, not called failed by a clock.
    assert_eq!(world.called(), ["a"]);
}
