//! Tests of what happens to workflows later: extending and loading them, and limits.

use plugin_sdk::workflow::{Guard, MAX_INPUT, MAX_MACHINES, Machine, is};
use prodspec_model::{Digest, canonical};
use serde_json::json;

use super::{enabled, one, position, problems, season, texts};
use crate::definition::{LoadError, Problem, Workflow};

#[test]
fn r31_added_machines_are_explored_from_the_present_states() {
    let plan = one(Machine::calls("plan", "plan")).build().unwrap();
    let now = position(&plan, &[("plan", "done")]);
    let batch = |n: usize| {
        let machine = Machine::calls(format!("batch-{n}").as_str(), "deploy");
        match n {
            0 => machine.when(is("plan", "done")),
            _ => machine.when(is(format!("batch-{}", n - 1).as_str(), "done")),
        }
    };
    let longer = plan.extended((0..3).map(batch), &now, &[]).unwrap();
    let now = longer.extend(&now);
    assert_eq!(enabled(&longer, &now), ["batch-0"]);
    assert_eq!((plan.len(), longer.len()), (1, 4));
    assert_ne!(plan.digest(), longer.digest());
}

#[test]
fn r31_added_machines_that_do_not_fit_are_refused_as_a_whole() {
    let plan = one(Machine::calls("plan", "plan").outcomes(["more"]));
    let plan = plan.ends_badly(is("plan", "more")).build().unwrap();
    let now = position(&plan, &[("plan", "done")]);
    let add = |machines: Vec<Machine>| texts(plan.extended(machines, &now, &[]));
    let same = add(vec![
        Machine::calls("new", "f"),
        Machine::calls("plan", "f"),
    ]);
    assert_eq!(
        same,
        ["more than one machine is named `plan`; rename all but one"]
    );
    let dangling = add(vec![Machine::calls("new", "f").when(is("other", "done"))]);
    assert!(
        dangling[0].contains("names the machine `other`"),
        "{dangling:?}"
    );
    let past = add(vec![Machine::calls("new", "f").when(is("plan", "more"))]);
    assert!(
        past[0].contains("never enabled"),
        "`plan` is done already: {past:?}"
    );
    let many = add((0..MAX_MACHINES)
        .map(|n| Machine::calls(format!("m{n}").as_str(), "f"))
        .collect());
    assert!(
        many[0].contains("1001 machines, more than 1000"),
        "{many:?}"
    );
}

#[test]
fn r31_call_in_flight_counts_when_machines_are_added() {
    // `a` is in flight although its guard does not hold any more; its outcome enables the new machine.
    let workflow = Workflow::new("w")
        .machine(Machine::calls("a", "f").when(is("b", "waiting")))
        .machine(Machine::calls("b", "g"))
        .ends_well(is("b", "done"))
        .build()
        .unwrap();
    let now = position(&workflow, &[("b", "done")]);
    let a = workflow.machine_no(&"a".into()).unwrap();
    let new = || [Machine::calls("new", "f").when(is("a", "done"))];
    assert!(workflow.extended(new(), &now, &[a]).is_ok());
    assert!(workflow.extended(new(), &now, &[]).is_err());
}

#[test]
fn r41_limits_are_named() {
    assert_eq!(problems(Workflow::new("w").build()), [Problem::NoMachine]);
    let many = (0..=MAX_MACHINES).map(|n| Machine::calls(format!("m{n}").as_str(), "f"));
    let built = Workflow::new("w").machines(many).ends_well(Guard::always());
    assert_eq!(problems(built.build()), [Problem::TooManyMachines(1001)]);
    let large = json!("x".repeat(MAX_INPUT));
    let found = texts(one(Machine::calls("a", "f").input(large.clone())).build());
    assert!(
        found[0].contains("has an input of 65538 bytes, more than 65536"),
        "{found:?}"
    );
    let several = ["a", "b", "c", "d"].map(|name| Machine::calls(name, "f").input(large.clone()));
    let built = Workflow::new("w")
        .machines(several)
        .ends_well(Guard::always());
    assert!(matches!(
        problems(built.build())[..],
        [Problem::TooLarge(_)]
    ));
    let states: Vec<String> = (0..64).map(|n| format!("s{n}")).collect();
    let built = one(Machine::asks(
        "a",
        "Which?",
        states.iter().map(String::as_str),
    ));
    assert!(texts(built.build())[0].contains("65 states, more than 64"));
    let built = Workflow::new("w").machine(Machine::calls("a", "f"));
    assert_eq!(problems(built.build()), [Problem::NoGoodEnd]);
}

#[test]
fn r42_stored_definition_is_loaded_under_its_digest() {
    let season = season();
    let json = canonical::to_bytes(season.definition()).unwrap();
    let loaded = Workflow::load(&json).unwrap();
    assert_eq!(loaded.definition(), season.definition());
    assert_eq!(loaded.digest(), season.digest());
    assert_eq!(loaded.exploration(), None);
    // A newer version added a field: it is ignored, and the digest is that of the stored bytes.
    let mut newer: serde_json::Value = serde_json::from_slice(&json).unwrap();
    newer["from_a_newer_version"] = json!(1);
    let newer = serde_json::to_vec(&newer).unwrap();
    let loaded = Workflow::load(&newer).unwrap();
    assert_eq!(loaded.definition(), season.definition());
    assert_eq!(loaded.digest(), Digest::of(&newer));
    assert!(matches!(
        Workflow::load(b"{}"),
        Err(LoadError::Unreadable(_))
    ));
}
