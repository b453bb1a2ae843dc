//! Tests of the kernel against a small world: a store that forgets what is not durable, and functions whose answers the
//! test gives.

mod absences;
mod attempts;
mod changes;
mod children;
mod claims;
mod drains;
mod edits;
mod ends;
mod gate;
mod gather;
mod handovers;
mod identity;
mod inbox;
mod intent;
mod labels;
mod loops;
mod pages;
mod pauses;
mod random;
mod rates;
mod redefines;
mod reopens;
mod restarts;
mod restores;
mod runs;
mod schedules;
mod sizes;
mod slots;
mod stored;
mod takeovers;
mod terminated;
mod watch_corners;
mod watched;
mod watches;
mod words;
mod world;

use std::time::Duration;

use plugin_sdk::{
    Claim, Guard,
    operation::{Answer, FunctionInfo, Ran, Repeat},
    plugin, testing,
    workflow::{Machine, all, any, cancelled, is},
};
use serde_json::json;

use self::world::World;
use super::*;
use crate::{
    definition::Outcome,
    record::{Does, What},
    view::WaitFor,
};

/// A function that is called again under the same key.
fn keyed(name: &str) -> Function {
    function(name, Repeat::Keyed, Guard::Guarded)
}

fn function(name: &str, repeat: Repeat, guard: Guard) -> Function {
    Function {
        info: FunctionInfo::new(name).repeat(repeat).guard(guard),
        has_probe: false,
    }
}

fn done() -> Result<Ran, plugin::Error> {
    Ok(Answer::new().done())
}

fn transient() -> Result<Ran, plugin::Error> {
    Err(plugin::Error::transient("the press is jammed"))
}

/// Loads, then publishes; what was loaded is undone if publishing fails or the execution is cancelled.
fn season() -> Workflow {
    Workflow::new("season")
        .machine(Machine::calls("load", "load"))
        .machine(Machine::calls("publish", "publish").when(is("load", "done")))
        .machine(Machine::calls("undo", "unload").cleans_up().when(all([
            is("load", "done"),
            any([is("publish", "failed"), cancelled()]),
        ])))
        .ends_well(is("publish", "done"))
        .build()
        .unwrap()
}

fn of_season() -> World {
    World::new(
        [season()],
        [keyed("load"), keyed("publish"), keyed("unload")],
    )
}

#[test]
fn r23_answer_and_what_follows_from_it_are_one_commit() {
    let mut world = of_season();
    world.start("season", "2027");
    world.sync();
    let commits = world.commits();
    world.answer("load", done());
    let commit = world.last_commit();
    assert_eq!(world.commits(), commits + 1);
    let steps: Vec<_> = commit
        .iter()
        .filter_map(|record| match record {
            Record::Step(_, machine, step) => {
                Some((machine.as_str(), step.state.as_str(), step.does))
            }
            _ => None,
        })
        .collect();
    assert_eq!(
        steps,
        [
            ("load", "done", Does::Rests),
            ("publish", "waiting", Does::Calls)
        ]
    );
}

#[test]
fn r24_call_with_an_effect_waits_until_its_attempt_is_durable() {
    let mut world = of_season();
    world.start("season", "2027");
    assert!(world.called().is_empty());
    world.sync();
    assert_eq!(world.called(), ["load"]);
}

#[test]
fn r24_chain_of_safe_functions_waits_for_no_disk_after_its_start() {
    let safe = |name| function(name, Repeat::Safe, Guard::Advisory);
    let workflow = Workflow::new("look")
        .machine(Machine::calls("a", "a"))
        .machine(Machine::calls("b", "b").when(is("a", "done")))
        .machine(Machine::calls("c", "c").when(is("b", "done")))
        .ends_well(is("c", "done"))
        .build()
        .unwrap();
    let mut world = World::new([workflow], [safe("a"), safe("b"), safe("c")]);
    world.start("look", "1");
    assert!(world.called().is_empty(), "the start is not durable yet");
    world.sync();
    for name in ["a", "b", "c"] {
        assert_eq!(world.called(), [name], "no attempt is durable yet");
        world.answer(name, done());
    }
    assert_eq!(world.urgent, 2, "the start and the end");
    assert_eq!(world.outcome("look", "1"), Some(Outcome::Succeeded));
}

#[test]
fn r24_owner_without_a_fresh_lease_starts_nothing() {
    let mut world = of_season();
    world.lease(Duration::ZERO);
    world.start("season", "2027");
    world.sync();
    assert!(world.called().is_empty());
    world.lease(Duration::from_secs(10));
    world.sync();
    assert_eq!(world.called(), ["load"]);
    // One whose attempt becomes durable after the lease has ended waits for the next one.
    world.answer("load", done());
    world.pass(Duration::from_secs(11));
    world.sync();
    assert!(world.called().is_empty());
    world.lease(Duration::from_secs(10));
    assert_eq!(world.called(), ["publish"]);
}

#[test]
fn r27_every_wait_is_named() {
    let workflow = Workflow::new("w")
        .machine(Machine::asks("go", "Go?", ["yes", "no"]))
        .machine(Machine::waits("pause", Duration::from_secs(60)))
        .machine(Machine::calls("call", "f"))
        .ends_well(all([is("pause", "done"), is("call", "done")]))
        .build()
        .unwrap();
    let mut world = World::new([workflow], [keyed("f")]);
    world.start("w", "1");
    world.sync();
    let shown = world.shown("w", "1");
    let waits: Vec<_> = shown
        .waits()
        .map(|(machine, wait)| (machine.name.as_str(), wait))
        .collect();
    let [("go", go), ("pause", pause), ("call", call)] = waits[..] else {
        panic!("{waits:?}");
    };
    assert!(matches!(&go.what, WaitFor::Person { options, .. } if options.len() == 2));
    assert_eq!(pause.what, WaitFor::Time);
    assert_eq!(pause.next_look, Some(pause.since + Duration::from_secs(60)));
    assert_eq!(
        (&call.what, &*call.why),
        (&WaitFor::Call, "attempt 1, which is running")
    );
}

#[test]
fn r42_function_that_is_not_registered_is_waited_for() {
    let mut world = of_season();
    world.start("season", "2027");
    world.sync();
    world.answer("load", done());
    world.sync();
    world.without("publish");
    world.crash();
    let shown = world.shown("season", "2027");
    let (machine, wait) = shown.waits().next().unwrap();
    assert_eq!(
        (machine.name.as_str(), &wait.what),
        ("publish", &WaitFor::Missing("publish".into()))
    );
    world.with(keyed("publish"));
    world.crash();
    world.pass(Duration::from_secs(60));
    world.sync();
    assert_eq!(world.called(), ["publish"]);
}

#[test]
fn r41_context_and_log_keep_their_limits() {
    let round = Workflow::new("round")
        .machine(
            Machine::new("look", "looking")
                .on(
                    "looking",
                    plugin_sdk::workflow::Action::calls("f")
                        .leads("done", "again")
                        .outcomes(["over"]),
                )
                .on(
                    "again",
                    plugin_sdk::workflow::Action::waits(Duration::from_secs(1))
                        .leads("done", "looking"),
                ),
        )
        .ends_well(is("look", "over"))
        .build()
        .unwrap();
    let mut world = World::new([round], [keyed("f")]);
    world.start("round", "1");
    for _ in 0..700 {
        world.sync();
        world.answer("f", done());
        world.pass(Duration::from_secs(1));
    }
    world.sync();
    let log = world.log("round", "1");
    assert!((900..=1_100).contains(&log.len()), "{} entries", log.len());
    assert!(matches!(log[0].what, What::Started(_)));
    world.crash();
    world.sync();
    let big = json!("x".repeat(300 << 10));
    let answer = Answer::new().context("big", &big).unwrap();
    world.answer("f", Ok(answer.done()));
    assert_eq!(world.outcome("round", "1"), Some(Outcome::Failed));
    let _ = Claim::Exclusive("unused".into());
}

#[test]
fn waiting_execution_takes_little_memory() {
    let rest = Workflow::new("rest").machine(Machine::waits("rest", Duration::from_secs(60)));
    let rest = rest.ends_well(is("rest", "done")).build().unwrap();
    let mut world = World::new([rest], []);
    world.start("rest", "1");
    world.start("rest", "2");
    for _ in 0..2 {
        world.sync();
        let mut live = world.kernel.live.values();
        let (one, other) = (live.next().unwrap(), live.next().unwrap());
        assert_eq!(one.steps.room(), 1, "none for steps that have not begun");
        assert!(one.steps.values().all(|step| !step.rare.takes_memory()));
        assert!(Arc::ptr_eq(&one.live.origin, &other.live.origin));
        let names = [one, other].map(|it| it.id.workflow.as_str().as_ptr());
        assert_eq!(names[0], names[1], "the name of the workflow is shared");
        world.crash();
    }
    let sizes = (size_of::<Execution>(), size_of::<Step>());
    assert!(sizes.0 <= 240 && sizes.1 <= 128, "{sizes:?}");
}
