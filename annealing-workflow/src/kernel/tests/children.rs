//! Children, and executions that answers start.

use plugin_sdk::{operation::Start, workflow::Action};

use super::*;

fn child() -> Workflow {
    Workflow::new("child")
        .machine(Machine::calls("c", "c"))
        .ends_well(is("c", "done"))
        .build()
        .unwrap()
}

#[test]
fn r25_machine_that_starts_children_one_after_the_other_starts_each_of_them() {
    let two = Workflow::new("two")
        .machine(
            Machine::new("m", "first")
                .on("first", Action::starts("child").leads("done", "second"))
                .on("second", Action::starts("child").leads("done", "over")),
        )
        .ends_well(is("m", "over"))
        .build()
        .unwrap();
    let mut world = World::new([child(), two], [keyed("c")]);
    world.start("two", "1");
    world.sync();
    let first = world.answer("c", done());
    world.sync();
    assert_eq!(world.outcome("two", "1"), None);
    world.crash();
    world.sync();
    let second = world.answer("c", done());
    assert_ne!(first.key, second.key);
    assert_eq!(world.outcome("two", "1"), Some(Outcome::Succeeded));
}

#[test]
fn r30_restarted_machine_starts_its_child_when_the_old_one_has_ended() {
    for takeover in [false, true] {
        let parent = Workflow::new("parent")
            .machine(Machine::starts("child", "child"))
            .ends_well(is("child", "done"))
            .build()
            .unwrap();
        let mut world = World::new([child(), parent], [keyed("c")]);
        let id = world.start("parent", "1");
        world.sync();
        world.say(&id, Say::restart(["child"]));
        world.say(&id, Say::restart(["child"]));
        world.sync();
        if takeover {
            world.crash();
            world.sync();
        }
        assert_eq!(world.live(), 2, "the parent, and the child of the old run");
        let shown = world.shown("parent", "1");
        assert!(matches!(
            shown.waits().next().unwrap().1.what,
            WaitFor::Child(_)
        ));
        let old = world.answer("c", Err(plugin::Error::permanent("no")));
        world.pass(Duration::from_secs(100));
        world.sync();
        assert_eq!(world.live(), 2);
        let new = world.answer("c", done());
        assert_ne!(old.key.execution, new.key.execution);
        assert_eq!(world.outcome("parent", "1"), Some(Outcome::Succeeded));
        assert_eq!(world.live(), 0);
    }
}

#[test]
fn r30_cancel_while_the_child_of_the_old_run_ends_starts_no_other() {
    let parent = Workflow::new("parent")
        .machine(Machine::starts("child", "child"))
        .ends_well(is("child", "done"))
        .build()
        .unwrap();
    let mut world = World::new([child(), parent], [keyed("c")]);
    let id = world.start("parent", "1");
    world.sync();
    world.say(&id, Say::restart(["child"]));
    world.say(&id, Say::Cancel);
    world.sync();
    world.answer("c", transient());
    world.sync();
    assert_eq!(world.live(), 0);
    assert_eq!(world.outcome("parent", "1"), Some(Outcome::Cancelled));
}

fn starts() -> World {
    let workflow = Workflow::new("w")
        .machine(Machine::calls("a", "a"))
        .ends_well(is("a", "done"))
        .build()
        .unwrap();
    let mut starter = keyed("a");
    starter.info = starter
        .info
        .may(plugin_sdk::operation::Power::Start("child".into()));
    let mut settings = Settings {
        workflows: [("w".into(), workflow), ("child".into(), child())].into(),
        functions: [("a".into(), starter), ("c".into(), keyed("c"))].into(),
        ..Settings::default()
    };
    settings.config.live = 3;
    let mut world = World::with_settings(settings);
    world.start("w", "1");
    world.sync();
    world
}

#[test]
fn r23_answer_starts_two_executions_of_one_workflow() {
    let mut world = starts();
    let start = |n: u32| Start::of("child").input(json!({ "n": n }));
    world.answer(
        "a",
        Ok(Answer::new().start(start(1)).start(start(2)).done()),
    );
    world.sync();
    assert_eq!(world.live(), 2);
}

#[test]
fn r23_answer_with_a_start_that_is_refused_is_a_failure_and_starts_nothing() {
    let mut world = starts();
    let answer = (0..3).fold(Answer::new(), |it, _| it.start(Start::of("child")));
    world.answer("a", Ok(answer.done()));
    assert_eq!(world.outcome("w", "1"), Some(Outcome::Failed));
    assert_eq!(world.live(), 0);

    world.start_with(Start::of("child").key("1").input(json!(1)));
    world.start("w", "2");
    world.sync();
    let start = Start::of("child").key("1").input(json!(2));
    world.answer("a", Ok(Answer::new().start(start).done()));
    assert_eq!(world.outcome("w", "2"), Some(Outcome::Failed));
}

#[test]
fn r29_resumed_loop_keeps_its_new_bound_over_a_takeover() {
    let workflow = Workflow::new("round")
        .machine(
            Machine::new("m", "a")
                .on(
                    "a",
                    Action::calls("f").leads("done", "b").outcomes(["over"]),
                )
                .on("b", Action::calls("f").leads("done", "a")),
        )
        .ends_well(is("m", "over"))
        .build()
        .unwrap();
    let mut settings = Settings {
        workflows: [(workflow.name().clone(), workflow)].into(),
        functions: [("f".into(), keyed("f"))].into(),
        ..Settings::default()
    };
    settings.config.transitions = 10;
    let mut world = World::with_settings(settings);
    let id = world.start("round", "1");
    let round = |world: &mut World, times| {
        for _ in 0..times {
            world.sync();
            world.answer("f", done());
        }
        world.sync();
    };
    round(&mut world, 10);
    assert!(world.called().is_empty());
    world.say(&id, Say::Resume);
    round(&mut world, 5);
    world.crash();
    round(&mut world, 5);
    assert!(world.called().is_empty());
    let paused = world.shown("round", "1").live.paused.unwrap();
    assert!(paused.by.why.starts_with("20 transitions"), "{paused:?}");
}

fn parent() -> Workflow {
    Workflow::new("parent")
        .machine(Machine::starts("child", "child"))
        .ends_well(is("child", "done"))
        .build()
        .unwrap()
}

#[test]
fn r42_workflow_of_a_child_that_is_not_registered_is_waited_for_over_owners() {
    let mut world = World::new([parent()], [keyed("c")]);
    world.start("parent", "1");
    world.sync();
    for _ in 0..2 {
        world.pass(Duration::from_secs(30 * 3600));
        let shown = world.shown("parent", "1");
        let what = &shown.waits().next().unwrap().1.what;
        assert_eq!(*what, WaitFor::Missing("child".into()));
        world.crash();
    }
    world.with_workflow(child());
    world.crash();
    world.sync();
    world.answer("c", done());
    assert_eq!(world.outcome("parent", "1"), Some(Outcome::Succeeded));
}

#[test]
fn r42_function_that_is_not_registered_is_waited_for_longer_than_the_deadline_of_its_step() {
    let mut world = World::new([child()], []);
    world.start("child", "1");
    world.sync();
    world.pass(Duration::from_secs(30 * 3600));
    assert_eq!(world.outcome("child", "1"), None);
    world.with(keyed("c"));
    world.crash();
    world.pass(Duration::from_secs(1));
    world.sync();
    world.answer("c", done());
    assert_eq!(world.outcome("child", "1"), Some(Outcome::Succeeded));
}

#[test]
fn r41_child_for_which_there_is_no_room_is_started_when_there_is() {
    let other = Workflow::new("other")
        .machine(Machine::asks("go", "Go?", ["yes"]))
        .ends_well(is("go", "yes"));
    let workflows = [child(), parent(), other.build().unwrap()];
    let mut settings = Settings {
        workflows: workflows.map(|it| (it.name().clone(), it)).into(),
        functions: [("c".into(), keyed("c"))].into(),
        ..Settings::default()
    };
    settings.config.live = 2;
    let mut world = World::with_settings(settings);
    let other = world.start("other", "1");
    world.start("parent", "1");
    world.sync();
    world.pass(Duration::from_secs(100));
    assert_eq!(world.live(), 2);
    world.say(&other, Say::answer("go", "yes"));
    world.pass(Duration::from_secs(100));
    world.sync();
    world.answer("c", done());
    assert_eq!(world.outcome("parent", "1"), Some(Outcome::Succeeded));
}

#[test]
fn r25_key_of_a_start_by_an_answer_is_looked_up_in_the_store() {
    let mut world = starts();
    world.start("child", "1");
    world.sync();
    world.answer("c", done());
    world.sync();
    world.pass(Duration::from_secs(3600));
    world.crash();
    world.pass(Duration::from_secs(60));
    world.sync();
    world.answer(
        "a",
        Ok(Answer::new().start(Start::of("child").key("1")).done()),
    );
    world.sync();
    assert_eq!(world.live(), 0, "the key has started an execution long ago");
}
