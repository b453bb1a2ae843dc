//! Operations: gathered edits, and runs by key.

use plugin_sdk::operation::{Power, Start, StartCause};
use prodspec_model::operation::{Operation, PipelineStep};

use super::{edits::*, *};
use crate::operation::{Operated, compile};

/// Two steps that set fields, within powers of the operation.
fn two() -> Operation {
    Operation::pipeline([
        PipelineStep::new("grow", "grow"),
        PipelineStep::new("check", "check"),
    ])
    .may([Power::edit("m.yaml", "schema.*")])
    .blast_radius(6)
}

fn world() -> World {
    World::new([], [editor("grow"), editor("check")])
}

pub(super) fn run(world: &mut World, operation: &Operation, key: &str) -> Reply {
    let workflow = compile(&"night".into(), operation).unwrap();
    let operated = Operated::of(workflow, operation);
    world.hear(Command::Operate {
        start: Box::new(Start::of("night").key(key)),
        operation: Box::new(operated),
        cause: StartCause::Command,
    })
}

fn id(reply: Reply) -> ExecutionId {
    match reply {
        Reply::Started { id, .. } => id,
        other => panic!("{other:?}"),
    }
}

#[test]
fn r42_operation_keeps_to_what_it_was_started_with() {
    let mut world = world();
    let id = id(run(&mut world, &two(), "1"));
    let why = match world.say(&id, Say::Redefine) {
        Reply::Refused(Refused::DoesNotFit { why, .. }) => why,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        why,
        "an operation keeps to what it was started with; start another one"
    );
}

#[test]
fn r34_edits_of_all_steps_are_one_edit_and_later_steps_see_them() {
    let mut world = world();
    run(&mut world, &two(), "1");
    world.sync();
    let call = world.answer("grow", Ok(edit("version", 2, 3).done()));
    assert!(call.run.edits.is_empty());
    world.sync();
    assert!(world.edits.is_empty(), "it is gathered");
    world.crash();
    world.sync();
    let both = edit("readers", 1, 2).edit("m.yaml", edit("version", 2, 3).edits[0].edit.clone());
    let call = world.answer("check", Ok(both.done()));
    assert_eq!(call.run.edits, edit("version", 2, 3).edits, "seen");
    world.sync();
    let first = world.edits.values().next().unwrap().clone();
    world.crash();
    world.sync();
    let made = world.edited(made());
    assert_eq!(made, first, "the same edit after a crash");
    let fields: Vec<_> = made
        .edit
        .edits
        .iter()
        .map(|it| it.edit.path.to_string())
        .collect();
    assert_eq!(fields, ["schema.version", "schema.readers"], "each once");
    assert_eq!(made.edit.blast_radius, Some(6));
    assert_eq!(world.outcome("night", "1"), Some(Outcome::Succeeded));
    assert_eq!(world.released, ["execution/night-0000000001"]);
}

#[test]
fn r34_two_steps_with_different_values_for_a_field_fail_with_both_names() {
    let mut world = world();
    run(&mut world, &two(), "1");
    world.sync();
    world.answer("grow", Ok(edit("version", 2, 3).done()));
    world.answer("check", Ok(edit("version", 2, 4).done()));
    assert_eq!(world.outcome("night", "1"), Some(Outcome::Failed));
    assert!(world.edits.is_empty(), "nothing of it is made");
    let why = &world.ended("night", "1").errors[&"check".into()];
    assert!(
        why.contains("`grow` and `check` set one field to different values: `m.yaml#0: schema.version: 2 -> 3` and `m.yaml#0: schema.version: 2 -> 4`"),
        "{why}"
    );
}

#[test]
fn r34_edits_of_two_sources_fail_with_both_steps() {
    let mut other = editor("check");
    other.info = other.info.may(Power::edit("other.yaml", ""));
    let mut world = World::new([], [editor("grow"), other]);
    let operation = two().may([Power::edit("m.yaml", ""), Power::edit("other.yaml", "")]);
    run(&mut world, &operation, "1");
    world.sync();
    world.answer("grow", Ok(edit("version", 2, 3).done()));
    let mut elsewhere = edit("readers", 2, 4);
    elsewhere.edits[0].source = prodspec_model::SourceName("other.yaml".into());
    world.answer("check", Ok(elsewhere.done()));
    assert_eq!(world.outcome("night", "1"), Some(Outcome::Failed));
    let why = &world.ended("night", "1").errors[&"check".into()];
    assert!(
        why.contains("`grow` edits `m.yaml` and `check` edits `other.yaml`"),
        "{why}"
    );
}

#[test]
fn r34_edit_outside_the_powers_of_the_operation_is_permanent() {
    let mut world = world();
    let narrow = two().may([Power::edit("m.yaml", "schema.readers")]);
    run(&mut world, &narrow, "1");
    world.sync();
    world.answer("grow", Ok(edit("version", 2, 3).done()));
    assert_eq!(world.outcome("night", "1"), Some(Outcome::Failed));
    let why = &world.ended("night", "1").errors[&"grow".into()];
    assert!(
        why.contains(
            "it may not edit `schema.version` of `m.yaml`; declare the power with the operation"
        ),
        "{why}"
    );
}

#[test]
fn r34_change_of_several_steps_turns_down_only_if_all_that_edit_have_the_power() {
    let with_power = |name| {
        let mut function = editor(name);
        function.info = function.info.may(Power::Turndown);
        function
    };
    let powers = [Power::edit("m.yaml", "schema.*"), Power::Turndown];
    let turns_down = |grow: Function, check: Function, checked: Answer, may: &[Power]| {
        let mut world = World::new([], [grow, check]);
        run(&mut world, &two().may(may.iter().cloned()), "1");
        world.sync();
        world.answer("grow", Ok(edit("version", 2, 3).done()));
        world.answer("check", Ok(checked.done()));
        world.sync();
        world.crash();
        world.sync();
        world.edited(made()).edit.turndown
    };
    let (both, other) = (with_power("grow"), || edit("readers", 1, 2));
    assert!(turns_down(
        both.clone(),
        with_power("check"),
        other(),
        &powers
    ));
    assert!(turns_down(
        both.clone(),
        editor("check"),
        Answer::new(),
        &powers
    ));
    assert!(!turns_down(both.clone(), editor("check"), other(), &powers));
    assert!(!turns_down(
        editor("grow"),
        with_power("check"),
        other(),
        &powers
    ));
    assert!(!turns_down(
        both,
        with_power("check"),
        other(),
        &powers[..1]
    ));
}

#[test]
fn r34_operation_without_edits_changes_nothing_and_succeeds() {
    let mut world = world();
    run(&mut world, &two(), "1");
    world.sync();
    world.answer("grow", done());
    world.answer("check", done());
    assert_eq!(world.outcome("night", "1"), Some(Outcome::Succeeded));
    assert!(world.edits.is_empty());
}

#[test]
fn r34_step_that_runs_again_gathers_anew() {
    let mut world = world();
    let id = id(run(&mut world, &two(), "1"));
    world.sync();
    world.answer("grow", Ok(edit("version", 2, 3).done()));
    world.say(&id, Say::restart(["grow"]));
    world.sync();
    world.answer("grow", Ok(edit("version", 2, 5).done()));
    // The older call of the second step may still be under way.
    world.pass(Duration::from_secs(61));
    let call = world.answer("check", done());
    assert_eq!(call.run.edits, edit("version", 2, 5).edits);
    world.sync();
    assert_eq!(world.edited(made()).edit.edits, edit("version", 2, 5).edits);
}

#[test]
fn r34_paused_operation_makes_no_edit_before_it_is_resumed() {
    let mut world = world();
    let id = id(run(&mut world, &two(), "1"));
    world.sync();
    world.answer("grow", Ok(edit("version", 2, 3).done()));
    world.say(&id, Say::Pause);
    world.answer("check", done());
    world.sync();
    assert!(world.edits.is_empty(), "it is paused");
    world.crash();
    world.sync();
    assert!(world.edits.is_empty(), "it is paused");
    world.say(&id, Say::Resume);
    world.sync();
    world.edited(made());
    assert_eq!(world.outcome("night", "1"), Some(Outcome::Succeeded));
}

#[test]
fn r35_operation_runs_once_per_key_and_another_one_under_it_is_refused() {
    let mut world = world();
    let first = id(run(&mut world, &two(), "1"));
    assert_eq!(id(run(&mut world, &two(), "1")), first);
    world.sync();
    world.answer("grow", done());
    world.answer("check", done());
    world.sync();
    world.crash();
    for _ in 0..2 {
        let again = run(&mut world, &two(), "1");
        assert!(
            matches!(again, Reply::Started { ref id, new: false, outcome: Some(Outcome::Succeeded) } if *id == first),
            "{again:?}"
        );
        let other = run(&mut world, &two().rerun(1), "1");
        assert_eq!(other, Reply::Refused(Refused::OtherInput(first.clone())));
    }
    assert_ne!(id(run(&mut world, &two(), "2")), first);
}

#[test]
fn r35_operation_with_the_name_of_a_workflow_is_refused() {
    let night = Workflow::new("night")
        .machine(Machine::calls("grow", "grow"))
        .ends_well(is("grow", "done"))
        .build()
        .unwrap();
    let mut world = World::new([night], [editor("grow")]);
    let refused = run(&mut world, &two(), "1");
    assert_eq!(refused, Reply::Refused(Refused::NameTaken("night".into())));
}
