//! Workflows that are drained.

use plugin_sdk::{DispatchRequest, operation::ExecutionId, workflow::not};

use super::{claims::dispatching, *};
use crate::record::Subject;

fn say(world: &mut World, workflow: &str, word: WorkflowWord) -> Reply {
    world.hear(Command::Workflow(workflow.into(), word))
}

fn why(reply: &Reply) -> String {
    match reply {
        Reply::Refused(refused) => refused.to_string(),
        other => panic!("{other:?}"),
    }
}

/// What the start of an execution waits for.
fn waits(world: &mut World, id: &ExecutionId) -> Option<String> {
    match world.hear(Command::Show(id.clone())) {
        Reply::Shown(Some(shown)) => shown.wait.map(|wait| wait.why),
        other => panic!("{other:?}"),
    }
}

#[test]
fn r30_drained_workflow_begins_nothing_over_owners_and_what_has_begun_goes_on() {
    let mut world = of_season();
    world.start("season", "old");
    world.sync();
    assert_eq!(say(&mut world, "season", WorkflowWord::Drain), Reply::Taken);
    let told = world.last_commit().iter();
    let told = told.filter(|record| matches!(record, Record::Told(Subject::Workflow(_), _)));
    assert_eq!(told.count(), 1);
    let new = world.start("season", "new");
    world.sync();
    world.answer("load", done());
    for _ in 0..2 {
        world.sync();
        assert_eq!(world.called(), ["publish"], "of the old one");
        let waits = waits(&mut world, &new);
        assert_eq!(waits.as_deref(), Some("`season` is drained by ann: test"));
        world.crash();
        world.pass(Duration::from_secs(70));
    }
    world.sync();
    world.answer("publish", done());
    assert_eq!(world.outcome("season", "old"), Some(Outcome::Succeeded));
    let shown = world.hear(Command::ShowDrained);
    assert!(
        matches!(&shown, Reply::Drained(all) if all.len() == 1),
        "{shown:?}"
    );
    say(&mut world, "season", WorkflowWord::Resume);
    world.sync();
    assert_eq!(world.called(), ["load"]);
    assert_eq!(waits(&mut world, &new), None);
    assert!(world.stored.drained.is_empty());
    world.crash();
    assert_eq!(world.hear(Command::ShowDrained), Reply::Drained(Vec::new()));
}

#[test]
fn r30_start_that_the_dispatch_stack_was_asked_about_does_not_begin_in_a_drain() {
    let go = |request: &DispatchRequest| request.go();
    let mut world = dispatching();
    let id = world.start("w", "1");
    say(&mut world, "w", WorkflowWord::Drain);
    world.dispatched(go);
    world.sync();
    assert!(world.called().is_empty());
    assert!(waits(&mut world, &id).is_some_and(|why| why.contains("drained")));
    say(&mut world, "w", WorkflowWord::Resume);
    for _ in 0..2 {
        world.dispatched(go);
        world.sync();
    }
    assert_eq!(world.called(), ["a"]);
}

#[test]
fn r30_execution_that_waits_for_the_end_of_a_drain_can_be_paused_and_cancelled() {
    let mut world = of_season();
    say(&mut world, "season", WorkflowWord::Drain);
    let paused = world.start("season", "paused");
    let cancelled = world.start("season", "cancelled");
    world.say(&paused, Say::Pause);
    world.say(&cancelled, Say::Cancel);
    let ended = world.outcome("season", "cancelled");
    assert_eq!(ended, Some(Outcome::Cancelled));
    say(&mut world, "season", WorkflowWord::Resume);
    world.sync();
    assert!(world.called().is_empty());
    say(&mut world, "season", WorkflowWord::Drain);
    world.say(&paused, Say::Resume);
    world.sync();
    assert!(world.called().is_empty());
    say(&mut world, "season", WorkflowWord::Resume);
    world.sync();
    assert_eq!(world.called(), ["load"]);
}

#[test]
fn r30_word_that_does_not_fit_a_workflow_is_refused() {
    let mut world = of_season();
    let unknown = say(&mut world, "seson", WorkflowWord::Drain);
    assert_eq!(
        why(&unknown),
        "no workflow is named seson; register it, or start one of: season"
    );
    let open = say(&mut world, "season", WorkflowWord::Resume);
    assert_eq!(
        why(&open),
        "resume does not fit the workflow season now: no word drains it; if its starts wait, each says for what"
    );
    say(&mut world, "season", WorkflowWord::Drain);
    let twice = say(&mut world, "season", WorkflowWord::Drain);
    assert_eq!(
        why(&twice),
        "drain does not fit the workflow season now: it is drained already"
    );
}

#[test]
fn r30_restart_of_an_ended_execution_waits_for_the_end_of_a_drain() {
    let go = |request: &DispatchRequest| request.go();
    for (mut world, name, first) in [(of_season(), "season", "load"), (dispatching(), "w", "a")] {
        let id = world.start(name, "1");
        say(&mut world, name, WorkflowWord::Drain);
        world.say(&id, Say::Cancel);
        assert_eq!(world.outcome(name, "1"), Some(Outcome::Cancelled));
        assert_eq!(world.reopen(&id, &[first]), Reply::Taken);
        world.dispatched(go);
        world.sync();
        assert!(world.called().is_empty());
        assert!(waits(&mut world, &id).is_some_and(|why| why.contains("drained")));
        say(&mut world, name, WorkflowWord::Resume);
        world.dispatched(go);
        world.sync();
        assert_eq!(world.called(), [first]);
    }
}

/// The clean-up of an execution that was cancelled before its start is the only thing of it that runs.
#[test]
fn r30_restart_in_the_clean_up_of_a_start_that_was_given_up_is_refused() {
    let workflow = Workflow::new("w")
        .machine(Machine::calls("load", "load").when(not(cancelled())))
        .machine(
            Machine::calls("undo", "unload")
                .cleans_up()
                .when(cancelled()),
        )
        .ends_well(is("load", "done"))
        .ends_badly(is("undo", ["done", "failed"]))
        .build()
        .unwrap();
    let mut world = World::new([workflow], [keyed("load"), keyed("unload")]);
    say(&mut world, "w", WorkflowWord::Drain);
    let id = world.start("w", "1");
    world.say(&id, Say::Cancel);
    for _ in 0..2 {
        world.sync();
        let refused = world.say(&id, Say::restart(["load"]));
        assert_eq!(
            why(&refused),
            "restart load does not fit w-0000000001 now: it was cancelled before its start and cleans up; restart it \
             when it has ended"
        );
        world.crash();
        world.pass(Duration::from_secs(70));
    }
    world.sync();
    assert_eq!(world.called(), ["unload"]);
    world.answer("unload", done());
    assert_eq!(world.outcome("w", "1"), Some(Outcome::Failed));
    assert_eq!(world.reopen(&id, &["load"]), Reply::Taken);
    world.sync();
    assert!(world.called().is_empty());
    say(&mut world, "w", WorkflowWord::Resume);
    world.sync();
    assert_eq!(world.called(), ["load"]);
    // Now it has begun, so a restart takes a cancel back.
    world.say(&id, Say::Cancel);
    world.sync();
    assert_eq!(world.say(&id, Say::restart(["load"])), Reply::Taken);
}
