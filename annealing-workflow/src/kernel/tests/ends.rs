//! Starts and ends, keys of starts, children, machines that answers add.

use plugin_sdk::operation::Start;

use super::*;

#[test]
fn r29_execution_ends_well_badly_or_cancelled() {
    let mut world = of_season();
    world.start("season", "good");
    world.sync();
    world.answer("load", done());
    world.sync();
    world.answer("publish", done());
    assert_eq!(world.outcome("season", "good"), Some(Outcome::Succeeded));

    world.start("season", "bad");
    world.sync();
    world.answer("load", done());
    world.sync();
    world.answer("publish", Err(plugin::Error::permanent("no")));
    world.sync();
    assert_eq!(world.outcome("season", "bad"), None, "it cleans up first");
    world.answer("unload", done());
    assert_eq!(world.outcome("season", "bad"), Some(Outcome::Failed));

    let id = world.start("season", "cancelled");
    world.sync();
    world.answer("load", done());
    world.sync();
    world.say(&id, Say::Cancel);
    world.sync();
    assert_eq!(
        world.called(),
        ["publish", "unload"],
        "what is in flight is waited for"
    );
    world.answer("publish", transient());
    world.answer("unload", done());
    assert_eq!(
        world.outcome("season", "cancelled"),
        Some(Outcome::Cancelled)
    );
    assert_eq!(world.live(), 0);
}

#[test]
fn r30_same_key_is_the_same_execution_also_after_its_end() {
    let mut world = of_season();
    let start = || {
        Start::of("season")
            .key("2027")
            .input(json!({"works": ["lear"]}))
    };
    let Reply::Started { id, new: true, .. } = world.start_with(start()) else {
        panic!("it is new");
    };
    let again = Reply::Started {
        id: id.clone(),
        new: false,
        outcome: None,
    };
    assert_eq!(world.start_with(start()), again, "before it is durable");
    world.sync();
    world.crash();
    assert_eq!(world.start_with(start()), again, "for the next owner");
    let other = world.start_with(Start::of("season").key("2027"));
    assert_eq!(other, Reply::Refused(Refused::OtherInput(id.clone())));
    world.say(&id, Say::Cancel);
    world.sync();
    world.answer("load", done());
    world.sync();
    world.answer("unload", done());
    let ended = |world: &mut World| match world.start_with(start()) {
        Reply::Started {
            id: same,
            new: false,
            outcome: Some(Outcome::Cancelled),
        } => assert_eq!(same, id),
        other => panic!("{other:?}"),
    };
    ended(&mut world);
    world.sync();
    world.crash();
    ended(&mut world);
}

#[test]
fn r30_start_that_does_not_fit_changes_nothing() {
    let mut world = of_season();
    let commits = world.commits();
    for start in [
        Start::of("seasons"),
        Start::of("season").key(""),
        Start::of("season").input(json!("x".repeat(70_000))),
    ] {
        assert!(matches!(world.start_with(start), Reply::Refused(_)));
    }
    assert_eq!(world.commits(), commits);
    let Reply::Refused(refused) = world.start_with(Start::of("seasons")) else {
        panic!("there is no such workflow");
    };
    assert_eq!(
        refused.to_string(),
        "no workflow is named seasons; register it, or start one of: season"
    );
}

#[test]
fn r41_one_more_than_the_limit_of_live_executions_is_refused() {
    let mut settings = Settings {
        workflows: [(season().name().clone(), season())].into(),
        ..Settings::default()
    };
    settings.config.live = 2;
    let mut world = World::with_settings(settings);
    world.start("season", "1");
    world.start("season", "2");
    let refused = world.start_with(Start::of("season"));
    assert_eq!(refused, Reply::Refused(Refused::TooMany(2)));
}

fn parent() -> World {
    let child = Workflow::new("child")
        .machine(Machine::calls("c", "c"))
        .ends_well(is("c", "done"));
    let parent = Workflow::new("parent")
        .machine(Machine::starts("child", "child").input(json!({"n": 1})))
        .machine(Machine::calls("after", "after").when(is("child", "done")))
        .ends_well(is("after", "done"));
    World::new(
        [child.build().unwrap(), parent.build().unwrap()],
        [keyed("c"), keyed("after")],
    )
}

#[test]
fn r23_child_is_started_once_and_its_end_moves_the_parent_in_one_commit() {
    let mut world = parent();
    world.start("parent", "1");
    world.sync();
    world.crash();
    world.sync();
    assert_eq!(world.live(), 2);
    let call = world.answer("c", done());
    assert_eq!(call.run.input, json!({"n": 1}));
    let commit = world.last_commit();
    assert!(
        commit
            .iter()
            .any(|record| matches!(record, Record::Ended(_)))
    );
    let moved = |record: &Record| {
        matches!(record, Record::Step(id, machine, step)
        if id.workflow.as_str() == "parent" && machine.as_str() == "child" && step.state.as_str() == "done")
    };
    assert!(commit.iter().any(moved));
    world.sync();
    world.answer("after", done());
    assert_eq!(world.outcome("parent", "1"), Some(Outcome::Succeeded));
}

#[test]
fn r30_cancel_of_a_parent_cancels_its_child_and_waits_for_it() {
    let mut world = parent();
    let id = world.start("parent", "1");
    world.sync();
    world.say(&id, Say::Cancel);
    assert_eq!(world.outcome("parent", "1"), None);
    world.answer("c", transient());
    assert_eq!(
        world.outcome("parent", "1"),
        Some(Outcome::Failed),
        "the child was cancelled, so its machine failed"
    );
    assert_eq!(world.live(), 0);
}

#[test]
fn r39_chain_of_starts_longer_than_eight_is_refused() {
    let again = Machine::calls("again", "again");
    let workflow = Workflow::new("loop")
        .machine(again)
        .ends_well(is("again", "done"))
        .build()
        .unwrap();
    let mut again = keyed("again");
    again.info = again
        .info
        .may(plugin_sdk::operation::Power::Start("loop".into()));
    let mut world = World::new([workflow], [again]);
    world.start("loop", "0");
    for n in 1..=CHAIN {
        world.sync();
        let start = Start::of("loop").key(n.to_string());
        world.answer("again", Ok(Answer::new().start(start).done()));
    }
    world.sync();
    let start = Start::of("loop").key("one too many");
    world.answer("again", Ok(Answer::new().start(start).done()));
    assert_eq!(
        world.outcome("loop", &CHAIN.to_string()),
        Some(Outcome::Failed)
    );
    assert_eq!(world.live(), 0);
}

#[test]
fn r31_answer_adds_machines_all_or_none_in_its_commit() {
    let workflow = Workflow::new("plan")
        .machine(Machine::calls("plan", "plan"))
        .ends_well(is("plan", "done"))
        .build()
        .unwrap();
    let mut world = World::new([workflow], [keyed("plan"), keyed("print")]);
    world.start("plan", "1");
    world.start("plan", "2");
    world.sync();
    let track = |guard| {
        let answer = Answer::new()
            .track(Machine::calls("hamlet", "print").when(is("plan", "done")))
            .track(Machine::calls("lear", "print").when(guard));
        Ok(answer.done())
    };
    world.answer("plan", track(is("hamlet", "printed")));
    assert_eq!(
        world.outcome("plan", "1"),
        Some(Outcome::Failed),
        "hamlet has no such state"
    );
    world.answer("plan", track(is("hamlet", "done")));
    world.sync();
    world.crash();
    world.sync();
    assert_eq!(world.called(), ["print"]);
    world.answer("print", done());
    world.sync();
    let call = world.answer("print", done());
    assert_eq!(call.key.step.as_str(), "lear");
    assert_eq!(world.outcome("plan", "2"), Some(Outcome::Succeeded));
}

#[test]
fn r29_endless_loop_is_paused_at_its_bound() {
    use plugin_sdk::workflow::Action;

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
        functions: [("f".into(), function("f", Repeat::Safe, Guard::Advisory))].into(),
        ..Settings::default()
    };
    settings.config.transitions = 50;
    let mut world = World::with_settings(settings);
    let id = world.start("round", "1");
    world.sync();
    for _ in 0..50 {
        world.answer("f", done());
    }
    assert!(world.called().is_empty());
    world.sync();
    let shown = world.shown("round", "1");
    assert!(
        shown
            .live
            .paused
            .unwrap()
            .by
            .why
            .starts_with("50 transitions")
    );
    let log = world.log("round", "1");
    let parked = log
        .iter()
        .filter(|entry| matches!(entry.what, What::Parked(_)));
    let parked: Vec<_> = parked.map(|entry| &entry.machine).collect();
    assert_eq!(parked, [&None], "the execution, once");
    world.say(&id, Say::Resume);
    assert_eq!(world.called(), ["f"]);
}

#[test]
fn r33_requirements_are_answered_with_all_that_was_asked_and_at_most_five_times() {
    use plugin_sdk::operation::Requirement;

    let mut world = of_season();
    world.start("season", "1");
    world.sync();
    let needs = |n: u32| Ok(Ran::needs(n.to_string(), Requirement::default()));
    for n in 0..5 {
        let call = world.answer("load", needs(n));
        assert_eq!(call.run.needs.len(), n as usize);
        world.sync();
    }
    world.answer("load", needs(5));
    assert_eq!(world.outcome("season", "1"), Some(Outcome::Failed));
    world.start("season", "2");
    world.sync();
    world.answer("load", needs(0));
    world.sync();
    world.answer("load", needs(0));
    assert_eq!(
        world.outcome("season", "2"),
        Some(Outcome::Failed),
        "the same needs twice"
    );
}
