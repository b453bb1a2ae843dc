//! Tests of building workflows, of their guards and of their ends.

use std::time::Duration;

use plugin_sdk::workflow::{
    Action, Guard, MAX_BLAST_RADIUS, Machine, MachineName, StateName, all, any, cancelled, is, not,
};

use super::{
    Definition, Error, FalseClause, GuardOf, Outcome, Position, Problem, Transition, Workflow,
};

mod later;

/// The workflow of the documentation.
fn season() -> Workflow {
    let undo = any([
        is("verify", "failed"),
        is("posters", "failed"),
        is("publish", "failed"),
        is("go", "no"),
        cancelled(),
    ]);
    Workflow::new("season")
        .machine(Machine::calls("load", "load-texts"))
        .machine(Machine::calls("verify", "verify-texts").when(is("load", "done")))
        .machine(Machine::calls("posters", "print-posters").retry_limit(3))
        .machine(
            Machine::asks("go", "Open the season?", ["yes", "no"])
                .when(all([is("verify", "done"), is("posters", "done")])),
        )
        .machine(Machine::calls("publish", "publish").when(is("go", "yes")))
        .machine(
            Machine::calls("undo", "unload-texts")
                .cleans_up()
                .when(all([is("load", "done"), undo])),
        )
        .ends_well(is("publish", "done"))
        .ends_badly(any([is("go", "no"), is("undo", "done")]))
        .build()
        .unwrap()
}

/// The position with these machines in these states and the others in their first.
fn position(workflow: &Workflow, states: &[(&str, &str)]) -> Position {
    let mut position = workflow.first();
    for (machine, state) in states {
        let machine = workflow.machine_no(&MachineName::from(*machine)).unwrap();
        let state = workflow
            .state_no(machine, &StateName::from(*state))
            .unwrap();
        position.set(machine, state);
    }
    position
}

fn enabled(workflow: &Workflow, position: &Position) -> Vec<String> {
    let enabled = workflow.enabled(position);
    enabled
        .map(|it| workflow.machine(it).name.to_string())
        .collect()
}

fn problems(built: Result<Workflow, Error>) -> Vec<Problem> {
    built.unwrap_err().problems
}

fn texts(built: Result<Workflow, Error>) -> Vec<String> {
    problems(built).iter().map(ToString::to_string).collect()
}

fn one(machine: Machine) -> Definition {
    let done = is(&machine.name, "done");
    Workflow::new("w").machine(machine).ends_well(done)
}

#[test]
fn r28_actions_are_enabled_by_the_states_of_other_machines() {
    let season = season();
    let at = |states: &[(&str, &str)]| enabled(&season, &position(&season, states));
    assert_eq!(at(&[]), ["load", "posters"]);
    assert_eq!(at(&[("load", "done")]), ["verify", "posters"]);
    assert_eq!(
        at(&[("load", "done"), ("verify", "done"), ("posters", "done")]),
        ["go"]
    );
    assert_eq!(
        at(&[("load", "done"), ("posters", "failed")]),
        ["verify", "undo"]
    );
}

#[test]
fn r28_cancel_enables_clean_up_and_disables_the_rest() {
    let season = season();
    let mut at = position(&season, &[("load", "done")]);
    at.cancel();
    assert_eq!(enabled(&season, &at), ["undo"]);
    let affected = season.mentioning_cancelled().len();
    assert_eq!(affected, 6, "all but a clean-up that does not mention it");
    at.uncancel();
    assert_eq!(enabled(&season, &at), ["verify", "posters"]);
}

#[test]
fn r28_change_of_a_machine_concerns_the_guards_that_mention_it() {
    let season = season();
    let no = |name: &str| season.machine_no(&MachineName::from(name)).unwrap();
    assert_eq!(season.mentioning(no("load")), [no("verify"), no("undo")]);
    let again = season.depending([no("verify")]);
    assert_eq!(
        again,
        [no("verify"), no("go"), no("publish"), no("undo")].into()
    );
}

#[test]
fn r28_outcome_leads_to_its_state_and_another_one_nowhere() {
    let season = season();
    let go = season.machine_no(&MachineName::from("go")).unwrap();
    let first = season.first().state(go);
    let leads = |outcome: &str| season.leads(go, first, &StateName::from(outcome));
    let yes = leads("yes").unwrap();
    assert_eq!(season.state(go, yes).as_str(), "yes");
    assert!(season.action(go, yes).is_none());
    assert_eq!(leads("done"), None);
}

#[test]
fn r28_names_that_are_not_there_are_refused_with_their_place() {
    let built = one(Machine::calls("a", "f").when(all([is("b", "done"), not(is("a", "over"))])));
    let expected = [
        "the action of `a` in `waiting` names the machine `b`, which is not there; add it or correct the name",
        "the action of `a` in `waiting` names the state `over` of `a`, which has only `waiting`, `done`, `failed`",
    ];
    assert_eq!(texts(built.build()), expected);
    let built = one(Machine::calls("a", "f")).ends_badly(is("a", "bad"));
    assert!(texts(built.build())[0].starts_with("`ends_badly` names the state `bad`"));
    let built = one(Machine::calls("a", "f")).machine(Machine::restores("back", ["c", "back"]));
    let found = texts(built.build());
    assert!(found[0].contains("names the machine `c`"), "{found:?}");
    assert!(found[1].contains("restores its own machine"), "{found:?}");
}

/// A guard that would be lost is no guard.
#[test]
fn r28_what_is_set_on_a_machine_before_its_action_is_refused() {
    let action = || Action::calls("f");
    let early = Machine::new("a", "look")
        .when(is("b", "done"))
        .on("look", action());
    let late = Machine::new("a", "look")
        .on("look", action())
        .when(is("b", "done"));
    let with = |machine| one(Machine::calls("b", "f")).machine(machine).build();
    assert_eq!(problems(with(early)), [Problem::SetNothing("a".into())]);
    assert!(with(late).is_ok());
}

#[test]
fn r34_blast_radius_has_a_limit() {
    let with = |assets| one(Machine::calls("a", "f").blast_radius(assets)).build();
    assert!(with(MAX_BLAST_RADIUS).is_ok());
    let found = texts(with(MAX_BLAST_RADIUS + 1));
    assert!(found[0].contains("more than 4,000 assets"), "{found:?}");
}

#[test]
fn r28_names_are_unique_and_of_few_characters() {
    let built = one(Machine::calls("a", "f"))
        .machine(Machine::calls("a", "g"))
        .build();
    assert_eq!(problems(built), [Problem::Duplicate("a".into())]);
    let built = Workflow::new("my flow")
        .machine(Machine::asks("a b", "Go?", ["yes!"]))
        .ends_well(Guard::always());
    let found = texts(built.build());
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(
        found
            .iter()
            .all(|text| text.contains("cannot be the name of a")),
        "{found:?}"
    );
}

#[test]
fn r28_actions_that_cannot_be_run_are_refused() {
    let zero = Machine::calls("a", "")
        .retry_limit(0)
        .at_most(0)
        .deadline(Duration::ZERO);
    assert_eq!(texts(one(zero).build()).len(), 4);
    let settles = Machine::waits("a", Duration::ZERO).settles(Duration::from_secs(1));
    let found = texts(one(settles).build());
    assert!(
        found[0].contains("settles but calls no function"),
        "{found:?}"
    );
    let twice = Machine::asks("a", "Go?", ["done", "done"]);
    assert!(texts(one(twice).build())[0].contains("same option twice"));
    let other = Machine::asks("a", "Go?", ["done"]).outcomes(["no"]);
    assert!(texts(one(other).build())[0].contains("declares the outcome `no`"));
    let mut missing = Machine::calls("a", "f");
    missing
        .actions
        .values_mut()
        .for_each(|action| action.outcomes.retain(|it, _| it.as_str() == "done"));
    assert!(texts(one(missing).build())[0].contains("does not declare the outcome `failed`"));
}

#[test]
fn r29_workflows_of_the_documentation_are_accepted() {
    let exploration = season().exploration().unwrap();
    assert!(exploration.complete, "{exploration:?}");
    let bad = [
        is("put-back", "done"),
        is("expand", ["rolled_back", "overwritten"]),
        is("contract", "overwritten"),
    ];
    let back = any([
        is("backfill", "failed"),
        is("contract", "rolled_back"),
        cancelled(),
    ]);
    let migrate = Workflow::new("new-schema")
        .machine(Machine::calls("expand", "set-schema").settles(Duration::from_secs(900)))
        .machine(Machine::calls("backfill", "backfill").when(is("expand", "done")))
        .machine(
            Machine::calls("contract", "set-readers")
                .when(is("backfill", "done"))
                .settles(Duration::from_secs(3600)),
        )
        .machine(
            Machine::restores("put-back", ["contract", "expand"])
                .cleans_up()
                .when(back),
        )
        .ends_well(is("contract", "done"))
        .ends_badly(any(bad))
        .build();
    assert!(migrate.unwrap().exploration().unwrap().complete);
}

#[test]
fn r29_stuck_end_is_refused_with_a_shortest_path_and_false_clauses() {
    let built = Workflow::new("w")
        .machine(Machine::calls("a", "f").outcomes(["empty"]))
        .machine(Machine::calls("b", "g").when(is("a", "done")))
        .ends_well(is("b", "done"))
        .build();
    let [Problem::Stuck(stuck)] = &problems(built)[..] else {
        panic!("not one stuck end");
    };
    let path = Transition::Outcome {
        machine: "a".into(),
        outcome: "empty".into(),
    };
    assert_eq!(stuck.path, [path]);
    let clauses = [
        FalseClause {
            of: GuardOf::EndsWell,
            clause: is("b", "done"),
            found: Some("waiting".into()),
        },
        FalseClause {
            of: GuardOf::Action {
                machine: "b".into(),
                state: "waiting".into(),
            },
            clause: is("a", "done"),
            found: Some("empty".into()),
        },
    ];
    assert_eq!(stuck.clauses, clauses);
}

#[test]
fn r29_call_in_flight_goes_on_after_its_guard_stops_to_hold() {
    // `a` begins while `b` waits, and is done after `c`, whose guard it would have stopped.
    let built = Workflow::new("w")
        .machine(Machine::calls("a", "f").when(is("b", "waiting")))
        .machine(Machine::waits("b", Duration::ZERO))
        .machine(
            Machine::waits("c", Duration::ZERO).when(all([is("a", "waiting"), is("b", "done")])),
        )
        .ends_well(all([is("a", "waiting"), is("c", "done")]))
        .ends_badly(all([is("a", "done"), is("c", "waiting")]))
        .build();
    let found = texts(built);
    assert!(
        found[0].contains("after `b` done, `c` done, `a` done:"),
        "{found:?}"
    );
}

#[test]
fn r29_states_and_actions_that_are_never_reached_are_refused() {
    let built = Workflow::new("w")
        .machine(Machine::calls("a", "f"))
        .machine(Machine::calls("b", "g").when(all([is("a", "done"), is("a", "failed")])))
        .machine(Machine::new("c", "first").on("lost", Action::waits(Duration::ZERO)))
        .ends_well(is("a", "done"))
        .build();
    let expected = [
        "the action of `b` in `waiting` is never enabled: all([is(a, done), is(a, failed)]) never holds there; correct the guard or remove the action",
        "the state `lost` of `c` is never reached; let an outcome lead to it or remove it",
        "the state `done` of `c` is never reached; let an outcome lead to it or remove it",
    ];
    assert_eq!(texts(built), expected);
}

#[test]
fn r29_clean_up_that_only_a_cancel_enables_is_reached() {
    let clean_up = Machine::calls("b", "g").cleans_up().when(cancelled());
    let built = one(Machine::calls("a", "f")).machine(clean_up).build();
    assert!(built.is_ok(), "{built:?}");
    // Without `cleans_up` a cancel disables it.
    let other = Machine::calls("b", "g").when(cancelled());
    let found = texts(one(Machine::calls("a", "f")).machine(other).build());
    assert!(
        found[0].ends_with("add `cleans_up`, or correct the guard"),
        "{found:?}"
    );
}

#[test]
fn r29_loop_that_can_run_out_ends_as_expired() {
    let poll = Machine::new("poll", "looking")
        .on(
            "looking",
            Action::calls("look")
                .outcomes(["again"])
                .leads("again", "pausing")
                .at_most(60),
        )
        .on(
            "pausing",
            Action::waits(Duration::from_secs(60)).leads("done", "looking"),
        );
    let poll = one(poll).build().unwrap();
    assert_eq!(
        poll.outcome(&position(&poll, &[("poll", "expired")])),
        Outcome::Failed
    );
    assert_eq!(poll.exploration().unwrap().states, 5);
}

#[test]
fn r29_outcome_is_a_function_of_the_states() {
    let season = season();
    let outcome = |states: &[(&str, &str)], cancelled: bool| {
        let mut position = position(&season, states);
        if cancelled {
            position.cancel();
        }
        season.outcome(&position)
    };
    let done = [("load", "done"), ("publish", "done"), ("posters", "failed")];
    assert_eq!(outcome(&done, true), Outcome::Succeeded);
    assert_eq!(outcome(&done[2..], true), Outcome::Failed);
    assert_eq!(outcome(&[("go", "no")], false), Outcome::Failed);
    assert_eq!(outcome(&done[..1], true), Outcome::Cancelled);
    let Outcome::Stuck { clauses } = outcome(&done[..1], false) else {
        panic!("not stuck");
    };
    let first: Vec<String> = clauses.iter().take(2).map(ToString::to_string).collect();
    let expected = [
        "`ends_well` needs is(publish, done) but `publish` is `waiting`",
        "`ends_badly` needs is(go, no) but `go` is `waiting`",
    ];
    assert_eq!(first, expected);
}

/// Machines beside each other, more than can be explored, and one that asks when all have ended.
fn wide(machines: usize) -> Definition {
    let names: Vec<String> = (0..machines).map(|n| format!("m{n}")).collect();
    let asks = names
        .iter()
        .map(|name| Machine::asks(name.as_str(), "Ready?", ["done", "later"]));
    let ended = names
        .iter()
        .map(|name| is(name.as_str(), ["done", "later"]));
    Workflow::new("wide")
        .machines(asks)
        .machine(Machine::asks("go", "Go?", ["yes", "no"]).when(all(ended)))
        .ends_well(is("go", "yes"))
}

#[test]
fn r29_workflow_with_too_many_states_is_sampled() {
    let wide_enough = wide(40).ends_badly(is("go", "no")).build().unwrap();
    let exploration = wide_enough.exploration().unwrap();
    assert_eq!((exploration.states, exploration.complete), (100_000, false));
    // "no" comes after 40 machines, where breadth-first exploration does not arrive.
    let [Problem::Stuck(stuck)] = &problems(wide(40).ends_badly(Guard::never()).build())[..] else {
        panic!("not one stuck end");
    };
    assert_eq!(stuck.path.len(), 41);
}

#[test]
fn r29_never_reached_is_found_beside_too_many_states() {
    let never = Machine::calls("never", "f").when(all([is("go", "yes"), is("go", "no")]));
    let found = texts(wide(40).ends_badly(is("go", "no")).machine(never).build());
    assert!(
        found[0].contains("the action of `never` in `waiting` is never enabled"),
        "{found:?}"
    );
}
