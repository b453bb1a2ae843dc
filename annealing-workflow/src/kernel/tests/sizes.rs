//! Texts and edits that are larger than a record has room for.

use plugin_sdk::By;
use plugin_sdk::operation::{Answer, Limit, Power};
use prodspec_model::operation::{Operation, PipelineStep};

use super::{edits::editor, *};

/// Size of a value of the store, in bytes.
const VALUE: usize = control_plane_store::limit::VALUE;

fn size(record: &impl serde::Serialize) -> usize {
    serde_json::to_vec(record).unwrap().len()
}

/// One function that answers with a page of HTML must not stop the lane.
#[test]
fn r41_errors_of_functions_are_cut() {
    let mut world = of_season();
    let id = world.start("season", "1");
    world.sync();
    let page = || "<html>".repeat(VALUE);
    world.answer("load", Err(plugin::Error::transient(page())));
    world.sync();
    let shown = world.shown("season", "1");
    let error = shown.machine("load").unwrap().error.clone().unwrap();
    assert!(
        error.len() < 5_000 && error.contains("bytes)"),
        "{}",
        error.len()
    );
    world.pass(Duration::from_secs(10));
    world.sync();
    world.answer("load", Err(plugin::Error::unknown(page())));
    world.sync();
    for entry in world.log("season", "1") {
        assert!(size(&entry) < 5_000);
    }
    let by = By::new("ann", page());
    world.step(Event::Heard {
        command: Command::Say(id, Say::Cancel),
        by,
        known: None,
        reply: ReplyNo(1_000),
    });
    let live = world.shown("season", "1").live;
    assert!(size(&live.cancelled) < 5_000);
}

#[test]
fn r41_errors_of_many_machines_fit_into_the_record_of_the_end() {
    let names: Vec<String> = (0..900).map(|n| format!("m{n}")).collect();
    let all = names.iter().fold(Workflow::new("many"), |all, name| {
        all.machine(Machine::calls(&**name, "f"))
    });
    let workflow = all.ends_well(is("m0", "done")).build().unwrap();
    let mut world = World::new([workflow], [keyed("f")]);
    world.start("many", "1");
    world.sync();
    while world.call_of("f").is_some() {
        world.answer("f", Err(plugin::Error::permanent("\0\"".repeat(4_000))));
        world.sync();
    }
    assert_eq!(world.outcome("many", "1"), Some(Outcome::Failed));
    let ended = world.ended("many", "1");
    assert_eq!(ended.errors.len(), 900);
    assert!(size(ended) < VALUE * 3 / 4, "{}", size(ended));
}

/// Edits of several steps are in one record, and so are those of a loop.
#[test]
fn r34_edits_that_are_too_large_together_are_refused() {
    let steps = ["grow", "check"].map(|name| PipelineStep::new(name, name));
    let operation = Operation::pipeline(steps).may([Power::edit("m.yaml", "schema.*")]);
    let mut world = World::new([], [editor("grow"), editor("check")]);
    gather::run(&mut world, &operation, "1");
    world.sync();
    let large = |field: &str| {
        let path = format!("schema.{field}").parse().unwrap();
        // Neither is too large alone.
        let to = "x".repeat(Limit::EDITED.max() * 2 / 3);
        let edit = plugin_sdk::FieldEdit::add("m.yaml#0", path, to);
        Ok(Answer::new().edit("m.yaml", edit).done())
    };
    world.answer("grow", large("one"));
    world.sync();
    world.answer("check", large("two"));
    assert_eq!(world.outcome("night", "1"), Some(Outcome::Failed));
    let errors = &world.ended("night", "1").errors;
    let why = errors.values().next().unwrap();
    assert!(why.contains("the edits of an execution"), "{why}");
}
