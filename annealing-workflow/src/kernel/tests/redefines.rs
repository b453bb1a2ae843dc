//! Other definitions for live executions.

use plugin_sdk::workflow::Action;

use super::*;

/// Loads, asks, and opens.
fn asks() -> Workflow {
    let machines = [
        Machine::calls("load", "load"),
        Machine::asks("go", "Open?", ["yes"]).when(is("load", "done")),
        Machine::calls("open", "open").when(is("go", "yes")),
    ];
    of(machines)
}

fn of(machines: impl IntoIterator<Item = Machine>) -> Workflow {
    let workflow = Workflow::new("w").machines(machines);
    workflow.ends_well(is("open", "done")).build().unwrap()
}

/// An execution of [`asks`], in a program that has this definition next.
fn begun(next: Workflow) -> (World, plugin_sdk::operation::ExecutionId) {
    let functions = ["load", "open", "warm", "other"].map(keyed);
    let mut world = World::new([asks()], functions);
    let id = world.start("w", "1");
    world.sync();
    world.with_workflow(next);
    (world, id)
}

fn refusal(reply: &Reply) -> String {
    match reply {
        Reply::Refused(Refused::DoesNotFit { why, .. }) => why.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn r42_live_execution_goes_on_with_a_new_definition_by_a_word() {
    // Another order, another question, and a machine more.
    let next = of([
        Machine::calls("warm", "warm").when(is("load", "done")),
        Machine::asks("go", "Open now?", ["yes", "later"]).when(is("warm", "done")),
        Machine::calls("open", "open").when(any([is("go", "yes"), is("go", "later")])),
        Machine::calls("load", "load"),
    ]);
    let (mut world, id) = begun(next.clone());
    world.answer("load", done());
    world.sync();
    world.crash();
    let before = world.stored.live[&id].origin.definition;
    assert_eq!(
        before,
        asks().digest(),
        "it keeps to its definition without the word"
    );
    assert_eq!(world.say(&id, Say::Redefine), Reply::Taken);
    world.sync();
    let after = world.stored.live[&id].origin.definition;
    let moved = What::Redefined {
        from: before,
        to: after,
    };
    let log = world.log("w", "1");
    assert!(log.iter().any(|entry| entry.what == moved), "{log:?}");
    for crashes in [false, true] {
        if crashes {
            world.crash();
            world.pass(Duration::from_secs(70));
            world.sync();
        }
        assert_eq!(
            world.called(),
            ["warm"],
            "the question is not asked before it"
        );
    }
    let again = world.say(&id, Say::Redefine);
    assert_eq!(refusal(&again), "it keeps to that definition already");
    assert_eq!(world.kernel.forget_definitions(|_| false), [before].into());
    world.answer("warm", done());
    world.say(&id, Say::answer("go", "later"));
    world.sync();
    assert_eq!(world.answer("open", done()).key.run, 1);
    assert_eq!(world.outcome("w", "1"), Some(Outcome::Succeeded));
}

#[test]
fn r42_action_that_is_another_one_begins_anew_under_its_key() {
    let next = of([
        Machine::calls("load", "other"),
        Machine::asks("go", "Open?", ["yes"]).when(is("load", "done")),
        Machine::calls("open", "open").when(is("go", "yes")),
    ]);
    let (mut lost, id) = begun(next.clone());
    lost.crash();
    let why = refusal(&lost.say(&id, Say::Redefine));
    assert!(why.starts_with("load waits: "), "{why}");
    assert!(
        why.ends_with("or pause the execution and restart the machine"),
        "{why}"
    );
    // A restart has another key, so what the old attempt may have done is not done again under its own.
    lost.say(&id, Say::Pause);
    lost.say(&id, Say::restart(["load"]));
    let early = refusal(&lost.say(&id, Say::Redefine));
    assert!(early.starts_with("load waits: "), "{early}");
    lost.pass(Duration::from_secs(70));
    lost.sync();
    assert_eq!(lost.say(&id, Say::Redefine), Reply::Taken);
    lost.say(&id, Say::Resume);
    lost.sync();
    assert_eq!(lost.answer("other", done()).key.run, 2);

    let (mut world, id) = begun(next);
    let key = world.answer("load", transient()).key;
    world.sync();
    world.crash();
    assert_eq!(world.say(&id, Say::Redefine), Reply::Taken);
    world.sync();
    assert_eq!(world.called(), ["other"]);
    let call = world.answer("other", done());
    assert_eq!(call.key, key);
    assert!(call.fence.attempt > 1, "fences rise over definitions");
}

#[test]
fn r42_call_in_flight_of_an_action_that_is_the_same_goes_on() {
    let next = of([
        Machine::calls("open", "open").when(is("load", "done")),
        Machine::calls("load", "load"),
        Machine::asks("go", "Open?", ["yes"]).when(is("open", "failed")),
    ]);
    let (mut world, id) = begun(next);
    world.crash();
    world.pass(Duration::from_secs(70));
    world.sync();
    assert_eq!(world.called(), ["load"]);
    assert_eq!(world.say(&id, Say::Redefine), Reply::Taken);
    world.answer("load", done());
    world.sync();
    assert_eq!(world.called(), ["open"]);
}

/// What is said about a definition that does not fit [`asks`], before or after the question is answered.
fn refused(next: Workflow, answered: bool) -> String {
    let (mut world, id) = begun(next);
    world.answer("load", done());
    if answered {
        world.say(&id, Say::answer("go", "yes"));
    }
    world.sync();
    world.crash();
    let commits = world.commits();
    let why = refusal(&world.say(&id, Say::Redefine));
    assert_eq!(world.commits(), commits, "{why}");
    why
}

#[test]
fn r42_definition_without_a_machine_or_its_state_is_refused() {
    let load = || Machine::calls("load", "load");
    let without = of([
        load(),
        Machine::calls("open", "open").when(is("load", "done")),
    ]);
    assert_eq!(
        refused(without, true),
        "the new definition has no machine `go`; keep it, or start another execution"
    );
    let question = Action::asks("Open?", ["yes"]).when(is("load", "done"));
    let renamed = of([
        load(),
        Machine::new("go", "asks").on("asks", question),
        Machine::calls("open", "open").when(is("go", "yes")),
    ]);
    assert_eq!(
        refused(renamed, false),
        "`go` is in the state `waiting`, which the new definition does not have; keep the state, or give the word when the \
         machine has left it"
    );
}

#[test]
fn r42_definition_that_is_stuck_from_the_present_states_is_refused() {
    let next = Workflow::new("w")
        .machine(Machine::calls("warm", "warm").when(is("load", "waiting")))
        .machine(Machine::calls("load", "load").when(is("warm", "done")))
        .machine(Machine::asks("go", "Open?", ["yes"]).when(is("load", "done")))
        .machine(Machine::calls("open", "open").when(is("go", "yes")))
        .ends_well(all([is("open", "done"), is("warm", "done")]))
        .build()
        .unwrap();
    let why = refused(next, true);
    let begins = "from the present states, the workflow `w` is refused: it can end neither good nor bad, after `open` done";
    assert!(why.starts_with(begins), "{why}");
}

#[test]
fn r42_only_registered_workflows_have_a_new_definition() {
    let (mut world, id) = begun(asks());
    world.without_workflow("w");
    world.crash();
    assert_eq!(
        refusal(&world.say(&id, Say::Redefine)),
        "no workflow of this name is registered; start a program that has it"
    );
}

#[test]
fn r42_machine_that_has_not_begun_is_in_its_new_first_state() {
    let prepared = Machine::new("open", "preparing")
        .on("preparing", Action::calls("warm").leads("done", "waiting"))
        .on("waiting", Action::calls("open").when(is("go", "yes")));
    let next = of([
        Machine::calls("load", "load"),
        Machine::asks("go", "Open?", ["yes"]).when(is("load", "done")),
        prepared,
    ]);
    let (mut world, id) = begun(next);
    world.answer("load", done());
    world.sync();
    world.crash();
    assert_eq!(world.say(&id, Say::Redefine), Reply::Taken);
    world.sync();
    for _ in 0..2 {
        assert_eq!(world.called(), ["warm"]);
        let open = &world.shown("w", "1").machines[2];
        assert_eq!(open.state.as_str(), "preparing");
        world.crash();
        world.pass(Duration::from_secs(70));
        world.sync();
    }
}

#[test]
fn r42_action_that_begins_anew_has_not_begun_before() {
    let of = |question, at_most: Option<u32>| {
        let asks = Action::asks(question, ["yes"]);
        let (asks, bad) = match at_most {
            Some(most) => (asks.at_most(most), is("go", "expired")),
            None => (asks, is("open", "failed")),
        };
        let workflow = Workflow::new("w")
            .machine(Machine::new("go", "waiting").on("waiting", asks))
            .machine(Machine::calls("open", "open").when(is("go", "yes")));
        let workflow = workflow.ends_well(is("open", "done")).ends_badly(bad);
        workflow.build().unwrap()
    };
    let mut world = World::new([of("1", Some(1))], [keyed("open")]);
    let id = world.start("w", "1");
    world.sync();
    // What a limit counts under one definition is not taken from a count under another.
    let next = [("2", Some(1)), ("3", None), ("4", None), ("5", Some(1))];
    for (question, at_most) in next {
        world.with_workflow(of(question, at_most));
        world.crash();
        assert_eq!(world.say(&id, Say::Redefine), Reply::Taken);
        world.sync();
    }
    world.say(&id, Say::answer("go", "yes"));
    world.sync();
    assert_eq!(world.called(), ["open"]);
}

#[test]
fn r42_gathered_edits_are_made_before_another_action_makes_them() {
    let of = |editor: &str| {
        Workflow::new("w")
            .machine(Machine::calls("plan", "set-schema").gathers())
            .machine(Machine::asks("go", "Go?", ["yes"]).when(is("plan", "done")))
            .machine(Machine::edits(editor, ["plan"]).when(is("go", "yes")))
            .ends_well(is(editor, "done"))
            .ends_badly(any([is("plan", "failed"), is(editor, "failed")]))
    };
    let keeps = Machine::waits("apply", Duration::from_secs(1)).when(is("other", "done"));
    let next = of("other").machine(keeps).build().unwrap();
    let set_schema = super::edits::editor("set-schema");
    let mut world = World::new([of("apply").build().unwrap()], [set_schema]);
    let id = world.start("w", "1");
    world.sync();
    let answer = super::edits::edit("version", 2, 3);
    world.answer("set-schema", Ok(answer.done()));
    world.sync();
    world.with_workflow(next);
    world.crash();
    assert_eq!(
        refusal(&world.say(&id, Say::Redefine)),
        "other actions of the new definition make the edits that `plan` has gathered; give the word when they are made"
    );
}
