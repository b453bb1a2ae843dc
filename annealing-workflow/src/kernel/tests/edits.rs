//! Edits of sources, and the wait for their assets.

use plugin_sdk::{
    FieldEdit,
    operation::{Answer, PauseAsset, Power},
    port::{Made, Settlement},
};
use prodspec_model::AssetId;

use super::*;

pub(super) fn editor(name: &str) -> Function {
    let mut function = function(name, Repeat::Safe, Guard::Advisory);
    function.info = function.info.may(Power::edit("m.yaml", "schema.*"));
    function
}

pub(super) fn edit(field: &str, was: u32, to: u32) -> Answer {
    let path = format!("schema.{field}").parse().unwrap();
    Answer::new().edit("m.yaml", FieldEdit::set("m.yaml#0", path, was, to))
}

pub(super) fn made() -> Result<Made, plugin::Error> {
    Ok(Made {
        assets: vec![AssetId::new("schema/main").unwrap()],
        ..Made::default()
    })
}

/// The schema is expanded, filled, and put back if filling fails.
fn migration() -> World {
    let workflow = Workflow::new("schema")
        .machine(Machine::calls("expand", "set-schema").settles(Duration::from_secs(900)))
        .machine(Machine::calls("fill", "fill").when(is("expand", "done")))
        .machine(
            Machine::restores("back", ["expand"])
                .cleans_up()
                .when(any([is("fill", "failed"), cancelled()])),
        )
        .ends_well(is("fill", "done"))
        .ends_badly(any([
            is("back", "done"),
            is("expand", ["rolled_back", "overwritten"]),
        ]))
        .build()
        .unwrap();
    let mut world = World::new([workflow], [editor("set-schema"), keyed("fill")]);
    world.start("schema", "3");
    world.sync();
    world
}

#[test]
fn r34_edit_is_made_when_it_is_durable_and_by_the_next_owner_under_the_same_id() {
    let mut world = migration();
    world.answer("set-schema", Ok(edit("version", 2, 3).done()));
    assert!(world.edits.is_empty(), "not durable yet");
    world.sync();
    let first = world.edits.values().next().unwrap().clone();
    world.crash();
    world.sync();
    assert!(
        world.called().is_empty(),
        "the function is not called again"
    );
    let again = world.edited(made());
    assert_eq!(again, first);
    assert_eq!(again.edit.holder.to_string(), "execution/schema-0000000001");
    world.sync();
    world.crash();
    world.sync();
    assert!(world.edits.is_empty(), "it was made");
    world.settled(Ok(Settlement::Done));
    world.sync();
    assert_eq!(world.called(), ["fill"]);
    assert!(
        world.released.is_empty(),
        "the fields are held until the end"
    );
    world.answer("fill", done());
    assert_eq!(world.outcome("schema", "3"), Some(Outcome::Succeeded));
    assert_eq!(world.released, ["execution/schema-0000000001"]);
}

/// The lease is not fresh when it ends, so its fields are given up later.
#[test]
fn r34_execution_that_is_live_again_keeps_the_fields_that_were_to_be_given_up() {
    let mut world = migration();
    world.answer("set-schema", Ok(edit("version", 2, 3).done()));
    world.sync();
    world.edited(made());
    world.sync();
    world.settled(Ok(Settlement::Done));
    world.sync();
    world.lease(Duration::ZERO);
    world.answer("fill", done());
    world.sync();
    let id = ExecutionId::new("schema", 1);
    assert_eq!(world.reopen(&id, &["fill"]), Reply::Taken);
    world.sync();
    world.lease(Duration::from_secs(1 << 30));
    assert!(world.kernel.is_live(&id));
    assert!(world.released.is_empty(), "{:?}", world.released);
}

#[test]
fn r34_edit_that_may_have_been_made_is_made_again_and_a_refused_one_fails() {
    let mut world = migration();
    world.answer("set-schema", Ok(edit("version", 2, 3).done()));
    world.sync();
    let first = world.edited(Err(plugin::Error::unknown("the disk is gone")));
    // However often it is not known whether it is made, it has not failed.
    for n in 0..9 {
        world.pass(Duration::from_secs(6));
        world.sync();
        match n {
            // No answer within its time.
            4 => world.pass(Duration::from_secs(65)),
            _ => drop(world.edited(Err(plugin::Error::unknown("the disk is gone")))),
        }
    }
    world.pass(Duration::from_secs(6));
    world.sync();
    let again = world.edited(Err(plugin::Error::permanent(
        "`schema.version` is held by ann",
    )));
    assert_eq!(again, first);
    assert_eq!(world.outcome("schema", "3"), Some(Outcome::Failed));
    let errors = &world.ended("schema", "3").errors;
    assert!(
        errors.values().any(|error| error.contains("held by ann")),
        "{errors:?}"
    );
}

#[test]
fn r34_edits_that_may_have_been_made_are_not_all_made_again_at_once() {
    let mut world = migration();
    for key in 4..12 {
        world.start("schema", &key.to_string());
    }
    world.sync();
    while world.call_of("set-schema").is_some() {
        world.answer("set-schema", Ok(edit("version", 2, 3).done()));
    }
    world.sync();
    while !world.edits.is_empty() {
        world.edited(Err(plugin::Error::unknown("the disk is gone")));
    }
    let mut made = Vec::new();
    for _ in 0..10 {
        world.pass(Duration::from_millis(500));
        world.sync();
        made.push(world.edits.len());
    }
    assert_eq!(
        (made[3], made[9]),
        (0, 9),
        "between 2.5 s and 5 s: {made:?}"
    );
    made.dedup();
    assert!(made.len() > 3, "at different times: {made:?}");
}

#[test]
fn r34_edit_outside_the_powers_of_the_function_is_a_failure() {
    let mut world = migration();
    let path = "owner".parse().unwrap();
    let answer = Answer::new().edit("m.yaml", FieldEdit::add("m.yaml#0", path, "me"));
    world.answer("set-schema", Ok(answer.done()));
    assert_eq!(world.outcome("schema", "3"), Some(Outcome::Failed));
    let mut world = migration();
    let pause = PauseAsset::new(AssetId::new("schema/main").unwrap(), "migrating");
    world.answer("set-schema", Ok(Answer::new().pause(pause).done()));
    assert_eq!(world.outcome("schema", "3"), Some(Outcome::Failed));
}

#[test]
fn r36_overwritten_rolled_back_and_expired_are_outcomes_of_their_own() {
    let end = |settled: Option<Settlement>| {
        let mut world = migration();
        world.answer("set-schema", Ok(edit("version", 2, 3).done()));
        world.sync();
        world.edited(made());
        world.sync();
        match settled {
            Some(settled) => drop(world.settled(Ok(settled))),
            None => {
                world.pass(Duration::from_secs(600));
                world.crash();
                world.sync();
                world.settled(Err(plugin::Error::transient("no incarnation")));
                world.sync();
                world.pass(Duration::from_secs(299));
                world.sync();
                assert_eq!(world.outcome("schema", "3"), None);
                world.pass(Duration::from_secs(2));
            }
        }
        assert_eq!(world.outcome("schema", "3"), Some(Outcome::Failed));
        world.ended("schema", "3").states[&"expand".into()].clone()
    };
    assert_eq!(
        end(Some(Settlement::Overwritten("bob: 4".into()))).as_str(),
        "overwritten"
    );
    assert_eq!(
        end(Some(Settlement::RolledBack("unhealthy".into()))).as_str(),
        "rolled_back"
    );
    assert_eq!(end(None).as_str(), "expired");
}

/// The deadline of an action, 24 hours unless it says otherwise, is for its attempts. A rollout that carries an edit may
/// take days.
#[test]
fn r36_wait_for_assets_outlasts_the_deadline_of_the_attempts() {
    let day = Duration::from_secs(24 * 3_600);
    let workflow = Workflow::new("schema")
        .machine(Machine::calls("expand", "set-schema").settles(3 * day))
        .ends_well(is("expand", "done"))
        .ends_badly(is(
            "expand",
            ["failed", "expired", "overwritten", "rolled_back"],
        ))
        .build()
        .unwrap();
    let mut world = World::new([workflow], [editor("set-schema")]);
    world.start("schema", "3");
    world.sync();
    world.answer("set-schema", Ok(edit("version", 2, 3).done()));
    world.sync();
    world.edited(made());
    world.sync();
    assert!(world.rests_without_memory("schema", "3"));
    world.pass(day + Duration::from_secs(1));
    world.crash();
    world.sync();
    world.settled(Err(plugin::Error::transient("no incarnation")));
    world.sync();
    world.pass(day);
    world.sync();
    assert_eq!(world.outcome("schema", "3"), None);
    world.pass(day);
    assert_eq!(world.outcome("schema", "3"), Some(Outcome::Failed));
    let states = &world.ended("schema", "3").states;
    assert_eq!(states[&"expand".into()].as_str(), "expired");
}

#[test]
fn r34_restore_puts_back_what_was_edited_field_by_field() {
    let mut world = migration();
    world.answer("set-schema", Ok(edit("version", 2, 3).done()));
    world.sync();
    world.edited(made());
    world.sync();
    world.settled(Ok(Settlement::Done));
    world.sync();
    world.answer("fill", Err(plugin::Error::permanent("the disk is full")));
    world.sync();
    let back = world.edited(made()).edit;
    assert!(back.lenient);
    assert!(!back.turndown, "the function does not have the power");
    let field = &back.edits[0].edit;
    assert_eq!((&field.was, &field.to), (&Some(json!(3)), &Some(json!(2))));
    assert_eq!(world.outcome("schema", "3"), Some(Outcome::Failed));
}

#[test]
fn r30_cancel_waits_for_an_edit_that_is_being_made_and_not_for_its_assets() {
    let mut world = migration();
    let id = world.shown("schema", "3").id;
    world.answer("set-schema", Ok(edit("version", 2, 3).done()));
    world.sync();
    world.say(&id, Say::Cancel);
    assert_eq!(world.outcome("schema", "3"), None);
    let (no, _) = world
        .edits
        .iter()
        .find(|(_, edit)| !edit.edit.lenient)
        .map(|(no, edit)| (*no, edit.clone()))
        .unwrap();
    world.edits.remove(&no);
    world.step(Event::Edited(no, made()));
    world.sync();
    world.pass(Duration::from_secs(2));
    world.sync();
    let back = world.edited(made());
    assert!(back.edit.lenient, "it was made, so it is undone");
    assert_eq!(
        world.outcome("schema", "3"),
        Some(Outcome::Failed),
        "what ends badly is a failure"
    );
}

#[test]
fn r34_edit_that_is_being_made_is_neither_skipped_nor_restarted() {
    let mut world = migration();
    let id = world.shown("schema", "3").id;
    world.answer("set-schema", Ok(edit("version", 2, 3).done()));
    world.sync();
    for word in [Say::skip("expand", "done"), Say::restart(["expand"])] {
        let Reply::Refused(refused) = world.say(&id, word) else {
            panic!("the edit may be made yet");
        };
        let refused = refused.to_string();
        assert!(
            refused.contains("the edit of a source to be made"),
            "{refused}"
        );
    }
    world.edited(made());
    // The wait for its assets can be skipped: the edit is made.
    assert_eq!(world.say(&id, Say::skip("expand", "done")), Reply::Taken);
    world.sync();
    assert_eq!(world.called(), ["fill"]);
    assert!(world.settles.is_empty() || world.abandoned.len() == 1);
}

#[test]
fn r34_executions_that_an_answer_starts_begin_when_its_edit_is_made() {
    let mut world = migration();
    world.with_workflow(season());
    world.with(keyed("load"));
    let mut function = editor("set-schema");
    function.info = function.info.may(Power::Start("season".into()));
    world.with(function);
    world.crash();
    world.pass(Duration::from_secs(60));
    world.sync();
    let start = plugin_sdk::operation::Start::of("season");
    let answer = edit("version", 2, 3).start(start);
    world.answer("set-schema", Ok(answer.done()));
    world.sync();
    assert!(world.called().is_empty(), "the edit may be refused");
    world.crash();
    world.sync();
    world.edited(made());
    world.sync();
    assert_eq!(world.called(), ["load"]);
}

#[test]
fn r34_edit_that_may_have_been_made_has_not_failed_when_later_attempts_do() {
    let jammed = || Err(plugin::Error::transient("the source does not answer"));
    let lost = || Err(plugin::Error::unknown("the disk is gone"));
    for crashes in [false, true] {
        let mut world = migration();
        world.answer("set-schema", Ok(edit("version", 2, 3).done()));
        world.sync();
        match crashes {
            true => world.crash(),
            false => drop(world.edited(lost())),
        }
        for _ in 0..9 {
            world.sync();
            world.pass(Duration::from_secs(20));
            world.sync();
            world.edited(jammed());
        }
        assert_eq!(
            world.outcome("schema", "3"),
            None,
            "after a crash: {crashes}"
        );
        world.pass(Duration::from_secs(20));
        world.sync();
        world.edited(made());
        world.sync();
        assert_eq!(world.settles.len(), 1);
    }
    // One that was not made in any attempt fails as a call does.
    let mut world = migration();
    world.answer("set-schema", Ok(edit("version", 2, 3).done()));
    for _ in 0..5 {
        world.sync();
        world.edited(jammed());
        world.pass(Duration::from_secs(20));
    }
    assert_eq!(world.outcome("schema", "3"), Some(Outcome::Failed));
}

#[test]
fn r34_edit_that_may_have_been_made_is_not_called_failed_by_a_clock() {
    let mut world = migration();
    world.answer("set-schema", Ok(edit("version", 2, 3).done()));
    world.sync();
    world.now.wall += 30 * 24 * Duration::from_secs(3600);
    world.crash();
    world.sync();
    world.pass(Duration::from_secs(20));
    world.sync();
    assert_eq!(world.outcome("schema", "3"), None);
    world.edited(Err(plugin::Error::unknown("the disk is gone")));
    world.pass(Duration::from_secs(20));
    world.sync();
    world.edited(made());
    // It is made, and its assets have their own time.
    world.sync();
    world.pass(Duration::from_secs(890));
    assert_eq!(world.outcome("schema", "3"), None);
    world.pass(Duration::from_secs(20));
    let states = world.ended("schema", "3").states.clone();
    assert_eq!(states[&"expand".into()].as_str(), "expired");
}

/// A world with an edit that may have been made, whose source does not answer any more.
fn jammed() -> World {
    let mut world = migration();
    world.answer("set-schema", Ok(edit("version", 2, 3).done()));
    world.sync();
    world.edited(Err(plugin::Error::unknown("the disk is gone")));
    world.sync();
    world
}

#[test]
fn r34_edit_that_may_have_been_made_is_tried_seldom_and_ends_by_a_word() {
    let no_answer = || Err(plugin::Error::transient("the source does not answer"));
    let mut world = jammed();
    let mut tries = 0;
    for _ in 0..24 * 60 {
        world.pass(Duration::from_secs(60));
        world.sync();
        if !world.edits.is_empty() {
            world.edited(no_answer());
            world.sync();
            tries += 1;
        }
    }
    assert!((200..500).contains(&tries), "{tries} in a day");
    let shown = world.shown("schema", "3");
    let wait = shown.machine("expand").unwrap().wait.as_ref().unwrap();
    assert!(wait.why.contains("or settle it"), "{wait:?}");
    let id = shown.id;
    assert!(matches!(
        world.say(&id, Say::skip("expand", "done")),
        Reply::Refused(_)
    ));
    assert_eq!(
        world.say(&id, Say::settle("expand", "failed")),
        Reply::Taken
    );
    world.sync();
    assert_eq!(world.outcome("schema", "3"), Some(Outcome::Failed));

    // A person who says that it was not made lets it fail as any other.
    let mut world = jammed();
    let id = world.shown("schema", "3").id;
    assert_eq!(world.say(&id, Say::again("expand")), Reply::Taken);
    for _ in 0..5 {
        world.sync();
        world.edited(no_answer());
        world.pass(Duration::from_secs(20));
    }
    assert_eq!(world.outcome("schema", "3"), Some(Outcome::Failed));
}

/// The edit of the action that was withdrawn is put back. If the action begins again, its edit is another one.
#[test]
fn r34_edit_of_an_action_that_begins_again_after_a_cancel_is_made_again() {
    let mut world = migration();
    let ask = |world: &mut World| {
        world.answer("set-schema", Ok(edit("version", 2, 3).done()));
        world.sync();
        let made = world.edited(made());
        world.sync();
        made.edit.id
    };
    let first = ask(&mut world);
    let id = world.start("schema", "3");
    world.say(&id, Say::Cancel);
    world.sync();
    world.edited(made());
    assert!(world.outcome("schema", "3").is_some());
    world.reopen(&id, &["fill"]);
    world.sync();
    assert_ne!(ask(&mut world), first);
}
