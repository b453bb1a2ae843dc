//! Tests of machines, guards and names as data.

use std::{collections::BTreeSet, time::Duration};

use prodspec_model::tolerant;
use serde_json::{Value, json};

use super::{
    Action, Guard, InvalidName, Machine, MachineName, StateName, Task, all, any, cancelled, is, not,
};

fn states(machine: &Machine) -> BTreeSet<&str> {
    machine.states().map(StateName::as_str).collect()
}

fn undo() -> Machine {
    let failed = any([
        is("verify", ["failed", "expired"]),
        not(is("go", "yes")),
        cancelled(),
    ]);
    Machine::calls("undo", "unload-texts")
        .when(all([is("load", "done"), failed]))
        .cleans_up()
        .input(json!({ "all": true }))
        .retry_limit(3)
        .settles(Duration::from_secs(900))
        .deadline(Duration::from_secs(3600))
        .attempt_deadline(Duration::from_secs(5))
        .at_most(4)
}

#[test]
fn r28_short_forms_have_the_states_of_their_tasks() {
    let calls = Machine::calls("load", "load-texts").outcomes(["empty"]);
    assert_eq!(
        states(&calls),
        BTreeSet::from(["waiting", "done", "empty", "failed"])
    );
    let asks = Machine::asks("go", "Open?", ["yes", "no"]);
    assert_eq!(states(&asks), BTreeSet::from(["waiting", "yes", "no"]));
    let asks = asks.deadline(Duration::from_secs(60));
    assert_eq!(
        states(&asks),
        BTreeSet::from(["waiting", "yes", "no", "expired"])
    );
    let settles = Machine::calls("expand", "set-schema").settles(Duration::from_secs(900));
    let all = [
        "waiting",
        "done",
        "failed",
        "overwritten",
        "rolled_back",
        "expired",
    ];
    assert_eq!(states(&settles), BTreeSet::from(all));
    let restores = Machine::restores("put-back", ["contract", "expand"]);
    assert_eq!(
        states(&restores),
        BTreeSet::from(["waiting", "done", "failed"])
    );
    let starts = Machine::starts("child", "reindex");
    assert_eq!(
        states(&starts),
        BTreeSet::from(["waiting", "done", "failed"])
    );
    let waits = Machine::waits("bake", Duration::from_secs(600));
    assert_eq!(states(&waits), BTreeSet::from(["waiting", "done"]));
}

#[test]
fn r28_outcome_leads_to_the_state_that_the_action_names() {
    let poll = Machine::new("poll", "looking")
        .on(
            "looking",
            Action::calls("look").leads("again", "pausing").at_most(3),
        )
        .on(
            "pausing",
            Action::waits(Duration::from_secs(1)).leads("done", "looking"),
        );
    let order: Vec<_> = poll.states().map(StateName::as_str).collect();
    assert_eq!(order, ["looking", "pausing", "done", "expired", "failed"]);
    assert!(poll.actions[&StateName::from("looking")].task.goes_on());
    assert!(!poll.actions[&StateName::from("pausing")].task.goes_on());
}

#[test]
fn r42_machine_is_read_back_and_unknown_fields_are_ignored() {
    let stored = serde_json::to_value(undo()).unwrap();
    assert_eq!(
        serde_json::from_value::<Machine>(stored.clone()).unwrap(),
        undo()
    );
    // Maps whose keys are data, values of enums, and times.
    let closed = [
        "/actions",
        "/actions/*/task",
        "/actions/*/outcomes",
        "/actions/*/input",
        "/actions/*/guard",
        "/actions/*/guard/all/*",
        "/actions/*/guard/all/*/any/*",
        "/actions/*/guard/all/*/any/*/not",
        "/actions/*/deadline",
        "/actions/*/attempt_deadline",
        "/actions/*/settles",
    ];
    let newer: Vec<(String, Value)> = tolerant::newer(&stored, &closed).collect();
    assert!(newer.len() > 4, "{newer:?}");
    for (at, newer) in newer {
        let read: Machine = serde_json::from_value(newer).unwrap_or_else(|e| panic!("{at}: {e}"));
        assert_eq!(read, undo(), "{at}");
    }
}

#[test]
fn r42_kind_that_this_version_does_not_know_is_refused() {
    let newer = json!({ "at_least": [2, []] });
    assert!(serde_json::from_value::<Guard>(newer).is_err());
    let newer = json!({ "approve": { "by": "jane" } });
    assert!(serde_json::from_value::<Task>(newer).is_err());
}

#[test]
fn r42_what_is_left_out_has_its_default() {
    let least = json!({ "task": { "call": { "function": "f" } }, "outcomes": { "done": "done" } });
    let read: Action = serde_json::from_value(least).unwrap();
    assert!(read.guard.is_always() && !read.cleans_up);
    assert_eq!((read.retry_limit, read.deadline), (5, None));
}

#[test]
fn r28_name_with_other_characters_is_refused() {
    assert!(MachineName::new("deploy.eu-1_b").is_ok());
    for text in ["", "a b", "a/b", "-a", "é", &"a".repeat(101)] {
        let error = MachineName::new(text).unwrap_err();
        assert!(error.to_string().contains("name of a machine"), "{error}");
        assert!(
            serde_json::from_value::<StateName>(json!(text)).is_err(),
            "{text}"
        );
    }
    let long = "a".repeat(1000);
    let InvalidName { text, .. } = StateName::new(&long).unwrap_err();
    assert_eq!(text.len(), 100);
    assert!(MachineName::from("a b").check().is_err());
}
