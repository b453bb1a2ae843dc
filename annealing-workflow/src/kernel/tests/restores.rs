//! What a restore puts back, and what of an edit goes on when the step around it changes.

use plugin_sdk::{
    operation::{Power, Start},
    workflow::{Action, not},
};

use super::{edits::*, *};

/// `expand` edits as often as it is told, and `back` puts it back when it has failed, or when it is asked for.
fn expanding() -> World {
    let workflow = Workflow::new("schema")
        .machine(
            Machine::new("expand", "waiting")
                .on(
                    "waiting",
                    Action::calls("set-schema").leads("again", "next"),
                )
                .on("next", Action::calls("set-schema")),
        )
        .machine(Machine::asks("go", "Go on?", ["yes", "no"]).when(is("expand", "done")))
        .machine(
            Machine::restores("back", ["expand"])
                .when(any([is("go", "no"), is("expand", "failed")])),
        )
        .ends_well(is("go", "yes"))
        .ends_badly(is("back", "done"))
        .build()
        .unwrap();
    let mut world = World::new([workflow], [editor("set-schema")]);
    world.start("schema", "1");
    world.sync();
    world
}

/// Lets `expand` edit, with this outcome.
fn expand(world: &mut World, was: u32, to: u32, outcome: &str) {
    let answer = edit("version", was, to).outcome(outcome);
    world.answer("set-schema", Ok(answer.done()));
    world.sync();
}

/// Lets `expand` make its edit.
fn expanded(world: &mut World, was: u32, to: u32, outcome: &str) {
    expand(world, was, to, outcome);
    world.edited(made());
    world.sync();
}

/// The values that a restore expects and sets.
fn restored(world: &mut World) -> Vec<(serde_json::Value, serde_json::Value)> {
    let edits = world.edited(made()).edit.edits.into_iter();
    edits
        .map(|edit| (edit.edit.was.unwrap(), edit.edit.to.unwrap()))
        .collect()
}

#[test]
fn r34_restore_puts_back_the_edits_of_all_rounds() {
    for takeover in [false, true] {
        let mut world = expanding();
        expanded(&mut world, 2, 3, "again");
        expanded(&mut world, 3, 4, "done");
        if takeover {
            world.crash();
            world.sync();
        }
        let id = world.shown("schema", "1").id;
        world.say(&id, Say::answer("go", "no"));
        world.sync();
        assert_eq!(restored(&mut world), [(json!(4), json!(2))]);
    }
}

#[test]
fn r34_restore_puts_back_the_edit_of_the_run_before() {
    let mut world = expanding();
    expanded(&mut world, 2, 3, "done");
    let id = world.shown("schema", "1").id;
    world.say(&id, Say::restart(["expand"]));
    world.sync();
    expand(&mut world, 3, 4, "done");
    world.edited(Err(plugin::Error::permanent("a validator refuses it")));
    world.sync();
    assert_eq!(restored(&mut world), [(json!(3), json!(2))]);
}

#[test]
fn r34_restore_puts_back_an_edit_that_a_person_has_settled_as_made() {
    let mut world = expanding();
    expand(&mut world, 2, 3, "done");
    world.edited(Err(plugin::Error::unknown("the disk is gone")));
    world.sync();
    let id = world.shown("schema", "1").id;
    assert_eq!(world.say(&id, Say::settle("expand", "done")), Reply::Taken);
    world.say(&id, Say::answer("go", "no"));
    world.sync();
    assert_eq!(restored(&mut world), [(json!(3), json!(2))]);
}

/// The answer of a call in flight may edit after a cancel. It is put back too.
#[test]
fn r34_restore_waits_for_the_edit_of_a_call_in_flight() {
    let workflow = Workflow::new("schema")
        .machine(Machine::calls("expand", "set-schema"))
        .machine(
            Machine::restores("back", ["expand"])
                .cleans_up()
                .when(cancelled()),
        )
        .ends_well(is("expand", "done"))
        .ends_badly(is("back", "done"))
        .build()
        .unwrap();
    let mut world = World::new([workflow], [editor("set-schema")]);
    let id = world.start("schema", "1");
    world.sync();
    world.say(&id, Say::Cancel);
    world.pass(Duration::from_secs(5));
    world.sync();
    assert!(world.kernel.is_live(&id));
    world.answer("set-schema", Ok(edit("version", 2, 3).done()));
    world.sync();
    world.edited(made());
    world.pass(Duration::from_secs(5));
    world.sync();
    assert_eq!(restored(&mut world), [(json!(3), json!(2))]);
}

/// It would be a circle: `expand` looks until the field is back, and `back` would wait for it.
#[test]
fn r34_restore_does_not_wait_for_a_call_that_edits_nothing() {
    let expand = Machine::new("expand", "waiting")
        .on("waiting", Action::calls("set-schema").leads("done", "look"))
        .on("look", Action::calls("look"));
    let workflow = Workflow::new("schema")
        .machine(expand)
        .machine(Machine::asks("stop", "Stop?", ["yes"]))
        .machine(Machine::restores("back", ["expand"]).when(is("stop", "yes")))
        .ends_well(is("back", "done"))
        .build()
        .unwrap();
    let mut world = World::new([workflow], [editor("set-schema"), keyed("look")]);
    let id = world.start("schema", "1");
    world.sync();
    expanded(&mut world, 2, 3, "done");
    world.answer("look", Ok(Ran::in_progress(Duration::from_secs(60))));
    world.say(&id, Say::answer("stop", "yes"));
    world.sync();
    assert_eq!(restored(&mut world), [(json!(3), json!(2))]);
}

#[test]
fn r30_restore_does_not_begin_in_a_pause() {
    let mut paused = expanding();
    expanded(&mut paused, 2, 3, "again");
    let id = paused.shown("schema", "1").id;
    paused.say(&id, Say::Pause);
    paused.answer("set-schema", Err(plugin::Error::permanent("no")));
    paused.sync();
    assert!(paused.edits.is_empty(), "nothing starts in a pause");
    paused.pass(Duration::from_secs(3 * 24 * 3_600));
    paused.sync();
    assert!(paused.edits.is_empty());
    paused.say(&id, Say::Resume);
    paused.sync();
    assert_eq!(restored(&mut paused), [(json!(3), json!(2))]);
}

#[test]
fn r30_cancel_ends_the_wait_for_assets_of_work_that_was_under_way() {
    let workflow = Workflow::new("schema")
        .machine(Machine::calls("expand", "set-schema").settles(Duration::from_secs(900)))
        .ends_well(is("expand", "done"))
        .ends_badly(any([
            cancelled(),
            is(
                "expand",
                ["failed", "overwritten", "rolled_back", "expired"],
            ),
        ]))
        .build()
        .unwrap();
    let mut world = World::new([workflow], [editor("set-schema")]);
    let id = world.start("schema", "1");
    world.sync();
    world.answer("set-schema", Ok(Ran::in_progress(Duration::from_secs(1))));
    world.sync();
    world.pass(Duration::from_secs(2));
    world.sync();
    world.answer("set-schema", Ok(edit("version", 2, 3).done()));
    world.sync();
    world.edited(made());
    world.sync();
    assert_eq!(world.settles.len(), 1);
    assert_eq!(world.say(&id, Say::Cancel), Reply::Taken);
    assert_eq!(world.outcome("schema", "1"), Some(Outcome::Failed));
    let states = &world.ended("schema", "1").states;
    assert_eq!(states[&"expand".into()].as_str(), "waiting");
}

#[test]
fn r36_gathered_edit_that_is_made_is_waited_for_although_its_guard_does_not_hold_any_more() {
    let workflow = Workflow::new("schema")
        .machine(Machine::calls("plan", "set-schema").gathers())
        .machine(Machine::asks("watch", "Bad?", ["bad"]))
        .machine(
            Machine::edits("apply", ["plan"])
                .settles(Duration::from_secs(900))
                .when(all([is("plan", "done"), not(is("watch", "bad"))])),
        )
        .ends_well(is("apply", "done"))
        .ends_badly(any([
            all([is("watch", "bad"), is("apply", "waiting")]),
            is("plan", "failed"),
            is("apply", ["failed", "overwritten", "rolled_back", "expired"]),
        ]))
        .build()
        .unwrap();
    let mut world = World::new([workflow], [editor("set-schema")]);
    let id = world.start("schema", "1");
    world.sync();
    world.answer("set-schema", Ok(edit("version", 2, 3).done()));
    world.sync();
    world.edited(made());
    world.sync();
    world.say(&id, Say::answer("watch", "bad"));
    world.sync();
    assert_eq!(
        world.outcome("schema", "1"),
        None,
        "it waits for production"
    );
    world.settled(Ok(plugin_sdk::port::Settlement::Done));
    world.sync();
    assert_eq!(world.outcome("schema", "1"), Some(Outcome::Succeeded));
}

/// A start without a key gets one of its step, whether or not the answer edits too.
#[test]
fn r23_starts_of_two_rounds_are_two_executions() {
    let notify = Workflow::new("notify")
        .machine(Machine::calls("send", "send"))
        .ends_well(is("send", "done"))
        .build()
        .unwrap();
    let workflow = Workflow::new("schema")
        .machine(
            Machine::new("expand", "waiting")
                .on(
                    "waiting",
                    Action::calls("set-schema").leads("again", "next"),
                )
                .on("next", Action::calls("set-schema")),
        )
        .ends_well(is("expand", "done"))
        .ends_badly(is("expand", "failed"))
        .build()
        .unwrap();
    let mut function = editor("set-schema");
    function.info = function.info.may(Power::start("notify"));
    let mut world = World::new([workflow, notify], [function, keyed("send")]);
    world.start("schema", "1");
    world.sync();
    let again = Answer::new().start(Start::of("notify")).outcome("again");
    world.answer("set-schema", Ok(again.done()));
    world.sync();
    let last = edit("version", 2, 3).start(Start::of("notify")).done();
    world.answer("set-schema", Ok(last));
    world.sync();
    world.edited(made());
    world.sync();
    assert_eq!(world.called(), ["send", "send"]);
}
