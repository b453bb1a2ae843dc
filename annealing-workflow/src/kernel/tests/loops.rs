//! Watches whose runs edit: their own changes, and loops of several.

use plugin_sdk::{
    FieldEdit,
    operation::{Power, Start},
};
use prodspec_model::operation::{Operation, PipelineStep};

use super::{watched::*, *};

/// A world in which each watch of `names` calls a function of its own name, which edits.
fn editing(names: &[&str]) -> World {
    let power = || Power::edit("m.yaml", "jobs.*");
    let functions = names.iter().map(|name| {
        let mut function = keyed(name);
        function.info = function.info.may(power()).may(Power::start("other"));
        function
    });
    let mut world = World::new([], functions);
    world.seal(&[("job/a", "1"), ("job/b", "1")]);
    for name in names {
        let run = PipelineStep::new("run", *name);
        let mut watch = on_intent();
        watch.template = Operation::pipeline([run]).may([power(), Power::start("other")]);
        world.watch(&format!("watch/{name}"), Some(&watch));
    }
    world.sync();
    world
}

/// Lets the run that calls `function` ask for an edit.
fn edits(world: &mut World, function: &str) {
    let path = plugin_sdk::FieldPath::keys(["jobs", "a"]);
    let field = FieldEdit::set("m.yaml#0", path, 1, 2);
    world.answer(function, Ok(Answer::new().edit("m.yaml", field).done()));
    world.sync();
}

#[test]
fn r39_own_change_starts_nothing_whatever_is_told_first() {
    for seal_first in [false, true] {
        let mut world = editing(&["one"]);
        world.seal(&[("job/a", "2")]);
        world.sync();
        edits(&mut world, "one");
        let made = world.made("job/a", "2", "3");
        if seal_first {
            world.seal(&[("job/a", "3")]);
            let shown = &world.all_watches()[0];
            assert_eq!(
                shown.handled,
                Some(IncarnationNo(4)),
                "no change is taken while the edit is open"
            );
            let why = shown.trouble.as_deref().unwrap();
            assert!(why.contains("the edit of watch.one-0000000001"), "{why}");
        }
        world.edited(Ok(made));
        world.sync();
        if !seal_first {
            // The note of the edit is durable with it.
            world.crash();
            world.seal(&[("job/a", "3")]);
        }
        world.sync();
        assert_eq!(world.live(), 0, "{seal_first}");
        assert_eq!(world.all_watches()[0].counts.own, 1);
        world.seal(&[("job/a", "4")]);
        world.sync();
        assert_eq!(world.called(), ["one"], "the change of a person");
    }
}

/// Incarnations were sealed before the edit that the lane takes after it.
#[test]
fn r39_own_change_is_known_to_a_lane_that_is_behind() {
    let mut world = editing(&["one"]);
    world.seal(&[("job/a", "2")]);
    world.sync();
    edits(&mut world, "one");
    let mut made = world.made("job/a", "2", "3");
    made.sealed = IncarnationNo(world.sealed.last().unwrap().no().0 + 2);
    world.edited(Ok(made));
    world.sync();
    for content in ["1", "2"] {
        world.seal(&[("db/x", content)]);
        world.sync();
    }
    world.seal(&[("job/a", "3")]);
    world.sync();
    assert!(world.called().is_empty(), "{:?}", world.called());
}

/// A world with the watch `one`, and with a workflow that calls its function too.
fn with_workflow() -> World {
    let mut world = editing(&["one"]);
    let other = Workflow::new("other")
        .machine(Machine::calls("run", "one"))
        .ends_well(is("run", "done"));
    world.with_workflow(other.build().unwrap());
    world.crash();
    world
}

/// The same: a run of the watch has started the workflow, and has ended.
fn with_started_workflow() -> World {
    let mut world = with_workflow();
    world.seal(&[("job/a", "2")]);
    world.sync();
    let starts = Answer::new().start(Start::of("other").key("1")).done();
    world.answer("one", Ok(starts));
    world.sync();
    world
}

#[test]
fn r38_change_by_what_a_listener_of_a_run_has_started_is_seen() {
    let mut world = with_workflow();
    world.seal(&[("job/a", "2")]);
    world.sync();
    let run = "watch.one-0000000001";
    let chain = vec!["watch/one".to_owned(), run.to_owned()];
    let (name, of) = ("notices".to_owned(), run.to_owned());
    let start = Command::Start {
        start: Box::new(Start::of("other").key("1")),
        cause: plugin_sdk::operation::StartCause::Listener { name, of },
        chain,
    };
    assert!(matches!(
        world.hear(start),
        Reply::Started { new: true, .. }
    ));
    world.answer("one", done());
    world.sync();
    edits(&mut world, "one");
    let made = world.made("job/a", "2", "3");
    world.edited(Ok(made));
    world.seal(&[("job/a", "3")]);
    world.sync();
    assert_eq!(world.called(), ["one"]);
    assert_eq!(world.all_watches()[0].counts.own, 0);
}

/// The run of the watch has ended before the edit of what it has started.
#[test]
fn r39_own_change_of_what_a_run_has_started_starts_nothing() {
    let mut world = with_started_workflow();
    assert_eq!((world.live(), world.called()), (1, vec!["one"]));
    edits(&mut world, "one");
    world.edited(Err(plugin::Error::unknown("the answer was lost")));
    world.sync();
    let made = world.made("job/a", "2", "3");
    world.seal(&[("job/a", "3")]);
    world.sync();
    assert_eq!(world.live(), 1, "its edit may have been made");
    world.pass(Duration::from_secs(60));
    world.sync();
    world.edited(Ok(made));
    world.sync();
    assert_eq!(world.live(), 0);
    let shown = &world.all_watches()[0];
    assert_eq!((shown.counts.own, &shown.trouble), (1, &None));
}

/// A run reads the newest incarnation. If it started before the watch has taken that one, what it reads would not count as
/// handled.
#[test]
fn r38_run_does_not_start_while_the_watch_is_behind() {
    let mut world = editing(&["one"]);
    world.seal(&[("job/a", "2")]);
    world.sync();
    let say = |world: &mut World, word| world.hear(Command::Watch(id("watch/one"), word));
    assert_eq!(say(&mut world, ScheduleWord::Pause), Reply::Taken);
    world.seal(&[("job/b", "2")]);
    world.sync();
    edits(&mut world, "one");
    world.seal(&[("job/b", "1")]);
    assert_eq!(say(&mut world, ScheduleWord::Resume), Reply::Taken);
    world.sync();
    assert!(world.called().is_empty(), "{:?}", world.called());
    let made = world.made("job/a", "2", "3");
    world.edited(Ok(made));
    world.seal(&[("job/a", "3")]);
    world.sync();
    assert!(world.called().is_empty(), "it came and went");
    world.seal(&[("job/b", "2")]);
    world.sync();
    assert_eq!(world.called(), ["one"]);
}

#[test]
fn r38_watch_does_not_wait_for_an_edit_that_was_not_made() {
    let mut world = with_started_workflow();
    edits(&mut world, "one");
    world.edited(Err(plugin::Error::transient("the source is away")));
    world.sync();
    world.seal(&[("job/b", "2")]);
    world.sync();
    assert_eq!(world.called(), ["one"], "its next run");
}

/// The run of a watch that has stopped is not one of the watch before it in the chain.
#[test]
fn r38_change_by_a_run_of_a_watch_that_has_stopped_is_seen() {
    let mut world = editing(&["one", "two"]);
    world.seal(&[("job/a", "2")]);
    world.sync();
    world.answer("two", done());
    world.sync();
    edits(&mut world, "one");
    let made = world.made("job/a", "2", "3");
    world.edited(Ok(made));
    world.seal(&[("job/a", "3")]);
    world.sync();
    assert_eq!(world.called(), ["two"]);
    world.watch("watch/two", None);
    let stop = Command::Watch(id("watch/two"), ScheduleWord::Acknowledge);
    assert_eq!(world.hear(stop), Reply::Taken);
    world.sync();
    edits(&mut world, "two");
    let made = world.made("job/a", "3", "4");
    world.edited(Ok(made));
    world.seal(&[("job/a", "4")]);
    world.sync();
    assert_eq!(world.called(), ["one"]);
}

#[test]
fn r38_watch_does_not_wait_for_edits_that_no_watch_has_caused() {
    let mut world = with_workflow();
    world.start("other", "1");
    world.sync();
    edits(&mut world, "one");
    world.seal(&[("job/b", "2")]);
    world.sync();
    let shown = &world.all_watches()[0];
    assert_eq!((shown.counts.started, &shown.trouble), (1, &None));
}

#[test]
fn r39_person_who_repeats_an_undone_own_change_is_seen() {
    let mut world = editing(&["one"]);
    world.seal(&[("job/a", "2")]);
    world.sync();
    edits(&mut world, "one");
    let made = world.made("job/a", "2", "3");
    world.edited(Ok(made));
    world.sync();
    // Undone by hand before it was sealed.
    world.seal(&[("job/b", "2")]);
    world.sync();
    world.answer("one", done());
    world.seal(&[("db/x", "1")]);
    world.seal(&[("job/a", "3")]);
    world.sync();
    assert_eq!(world.called(), ["one"]);
}

#[test]
fn r39_loop_of_watches_is_parked_with_its_chain() {
    let mut world = editing(&["one", "two"]);
    world.seal(&[("job/a", "0")]);
    world.sync();
    assert_eq!(world.called(), ["one", "two"], "a person's change");
    world.answer("two", done());
    world.sync();
    let mut content = 0_u32;
    let mut turns = ["one", "two"].into_iter().cycle();
    let mut runs = 0;
    // Each changes what the other one watches.
    while let Some(function) = turns.next().filter(|it| world.called().contains(it)) {
        edits(&mut world, function);
        let (before, after) = (content.to_string(), (content + 1).to_string());
        let made = world.made("job/a", &before, &after);
        world.edited(Ok(made));
        content += 1;
        world.seal(&[("job/a", &after)]);
        world.sync();
        runs += 1;
        assert!(runs < 20, "the loop goes on");
    }
    assert_eq!(
        runs, 4,
        "each start adds a watch and an execution to the chain"
    );
    let all = world.all_watches();
    let parked: Vec<_> = all.iter().filter_map(|it| it.paused.as_ref()).collect();
    assert_eq!(parked.len(), 1, "{all:?}");
    let told = world.stored.told.iter();
    let told = told.filter(|(_, what)| matches!(what, What::Said { word, .. } if word == "pause"));
    assert_eq!(told.count(), 1, "{:?}", world.stored.told);
    let why = &parked[0].by.why;
    assert!(
        why.contains("longer than 8: watch/one > watch.one-"),
        "{why}"
    );
    world.crash();
    world.sync();
    assert!(world.called().is_empty());
    let parked = all.iter().find(|it| it.paused.is_some()).unwrap();
    assert_eq!(parked.waiting, [id("job/a")], "the change is not lost");
    let word = Command::Watch(parked.asset.clone(), ScheduleWord::Resume);
    assert_eq!(world.hear(word), Reply::Taken);
    world.sync();
    assert_eq!(world.called().len(), 1, "a person lets it go on");
}
