//! The checks of a definition that need no exploration: names, limits, and actions that cannot be run.

use std::collections::BTreeSet;

use plugin_sdk::workflow::{
    Action, InvalidName, MAX_DEFINITION, MAX_INPUT, MAX_MACHINES, MAX_STATES, Machine, StateName,
    Task,
};
use prodspec_model::canonical;

use super::{
    clause::GuardOf, condition::Names, data::Definition, error::Problem, gathers, plan::Plan,
};

/// Checks and compiles a definition. Returns its canonical JSON with it.
pub(super) fn check(definition: &Definition) -> Result<(Plan, Vec<u8>), Vec<Problem>> {
    let json = limits(definition)?;
    let mut problems = Vec::new();
    let names = Names::of(&definition.machines);
    note(definition.name.check(), &mut problems);
    for (index, machine) in definition.machines.iter().enumerate() {
        let first = names.number(&machine.name);
        if first.is_some_and(|first| first.index() != index) {
            problems.push(Problem::Duplicate(machine.name.clone()));
        }
        if machine.has_set_nothing() {
            problems.push(Problem::SetNothing(machine.name.clone()));
        }
        states(machine, &mut problems);
        for (state, action) in &machine.actions {
            let of = GuardOf::Action {
                machine: machine.name.clone(),
                state: state.clone(),
            };
            let mut found = Vec::new();
            faults(action, &mut found);
            let wrap = |why| Problem::Action {
                of: of.clone(),
                why,
            };
            problems.extend(found.into_iter().map(wrap));
            restored(machine, action, &of, &names, &mut problems);
        }
    }
    gathers::gathered(&definition.machines, &names, &mut problems);
    if definition.ends_well.is_never() {
        problems.push(Problem::NoGoodEnd);
    }
    let plan = Plan::of(definition, &mut problems);
    match problems.is_empty() {
        true => Ok((plan, json)),
        false => Err(problems),
    }
}

/// The limits within which a definition can be compiled. Returns its canonical JSON.
fn limits(definition: &Definition) -> Result<Vec<u8>, Vec<Problem>> {
    let machines = &definition.machines;
    match machines.len() {
        0 => return Err(vec![Problem::NoMachine]),
        1..=MAX_MACHINES => {}
        more => return Err(vec![Problem::TooManyMachines(more)]),
    }
    let json = canonical::to_bytes(definition).map_err(|error| vec![Problem::NotJson(error)])?;
    if json.len() > MAX_DEFINITION {
        return Err(vec![Problem::TooLarge(json.len())]);
    }
    let too_many = machines.iter().filter_map(|machine| {
        let states = machine.states().count();
        (states > MAX_STATES).then(|| Problem::TooManyStates {
            machine: machine.name.clone(),
            states,
        })
    });
    let too_many: Vec<Problem> = too_many.collect();
    match too_many.is_empty() {
        true => Ok(json),
        false => Err(too_many),
    }
}

fn note(checked: Result<(), InvalidName>, problems: &mut Vec<Problem>) {
    problems.extend(checked.err().map(Problem::Name));
}

/// Checks the names of a machine, of its states and of its outcomes.
fn states(machine: &Machine, problems: &mut Vec<Problem>) {
    note(machine.name.check(), problems);
    let outcomes = machine
        .actions
        .values()
        .flat_map(|action| action.outcomes.keys());
    let names: BTreeSet<&StateName> = machine.states().chain(outcomes).collect();
    for name in names {
        note(name.check(), problems);
    }
}

/// Lists what is wrong with an action, apart from its guard.
fn faults(action: &Action, faults: &mut Vec<String>) {
    let mut fault = |wrong: bool, why: &str| {
        if wrong {
            faults.push(why.to_owned());
        }
    };
    let zero = |time: Option<std::time::Duration>| time.is_some_and(|time| time.is_zero());
    fault(
        action.retry_limit == 0,
        "has a retry limit of 0; allow one attempt or more",
    );
    fault(
        action.at_most == Some(0),
        "may run at most 0 times; allow one or more, or remove it",
    );
    fault(
        zero(action.deadline),
        "has a deadline of 0; allow some time",
    );
    fault(
        zero(action.attempt_deadline),
        "has an attempt deadline of 0; allow some time",
    );
    fault(zero(action.settles), "settles within 0; allow some time");
    gathers::faults(action, &mut fault);
    match &action.task {
        Task::Call { function } => fault(function.is_empty(), "calls a function without a name"),
        Task::Ask { options, .. } => {
            let different: BTreeSet<&StateName> = options.iter().collect();
            fault(options.is_empty(), "asks without options; add one or more");
            fault(
                different.len() < options.len(),
                "asks with the same option twice; remove one",
            );
        }
        Task::Restore { machines } => {
            fault(machines.is_empty(), "restores no machine; name one or more");
        }
        Task::Edit { machines } => {
            fault(
                machines.is_empty(),
                "makes the edits of no machine; name one or more",
            );
        }
        Task::Start { .. } | Task::Wait { .. } => {}
    }
    let input = canonical::to_bytes(&action.input).map_or(usize::MAX, |json| json.len());
    if input > MAX_INPUT {
        faults.push(format!(
            "has an input of {input} bytes, more than {MAX_INPUT}; move it into an asset and read it by id"
        ));
    }
    outcomes(action, faults);
}

/// Compares the declared outcomes with those of the task: all of them have to be there, and only calls may have others.
fn outcomes(action: &Action, faults: &mut Vec<String>) {
    let expired = action.at_most.map(|_| StateName::EXPIRED);
    let needed: Vec<&str> = match &action.task {
        Task::Call { .. } | Task::Restore { .. } | Task::Edit { .. } | Task::Start { .. } => {
            vec![StateName::DONE, StateName::FAILED]
        }
        Task::Ask { options, .. } => {
            let expired = action.deadline.map(|_| StateName::EXPIRED);
            options
                .iter()
                .map(StateName::as_str)
                .chain(expired)
                .collect()
        }
        Task::Wait { .. } => vec![StateName::DONE],
    };
    let settles: &[&str] = match action.settles {
        Some(_) => &[
            StateName::OVERWRITTEN,
            StateName::ROLLED_BACK,
            StateName::EXPIRED,
        ],
        None => &[],
    };
    let needed: BTreeSet<&str> = needed
        .iter()
        .chain(settles)
        .copied()
        .chain(expired)
        .collect();
    let declared: BTreeSet<&str> = action.outcomes.keys().map(StateName::as_str).collect();
    for missing in needed.difference(&declared) {
        faults.push(format!("does not declare the outcome `{missing}`; add it"));
    }
    if !matches!(action.task, Task::Call { .. }) {
        for other in declared.difference(&needed) {
            faults.push(format!(
                "declares the outcome `{other}`, which it cannot have; remove it"
            ));
        }
    }
}

/// Checks that the machines whose edits an action undoes are other machines of the workflow.
fn restored(
    machine: &Machine,
    action: &Action,
    of: &GuardOf,
    names: &Names<'_>,
    problems: &mut Vec<Problem>,
) {
    let Task::Restore { machines } = &action.task else {
        return;
    };
    for named in machines {
        if names.number(named).is_none() {
            problems.push(Problem::NoSuchMachine {
                of: of.clone(),
                machine: named.clone(),
            });
        } else if *named == machine.name {
            problems.push(Problem::Action {
                of: of.clone(),
                why: "restores its own machine; name the machines that edit".into(),
            });
        }
    }
}
