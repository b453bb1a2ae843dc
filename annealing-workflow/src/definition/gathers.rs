//! The checks of gathered edits: each is made by a machine, and powers can be read.

use std::collections::BTreeSet;

use plugin_sdk::{
    operation::Powers,
    with_causes,
    workflow::{Action, MAX_BLAST_RADIUS, Machine, MachineName, Task},
};

use super::{clause::GuardOf, condition::Names, error::Problem};

/// Lists what is wrong with what an action says of edits: that it gathers them, makes them, waits for them or bounds them.
pub(super) fn faults(action: &Action, fault: &mut impl FnMut(bool, &str)) {
    let call = matches!(action.task, Task::Call { .. });
    fault(
        action.settles.is_some() && !call && !matches!(action.task, Task::Edit { .. }),
        "settles but calls no function, so it edits nothing; remove `settles`",
    );
    fault(
        action
            .blast_radius
            .is_some_and(|assets| assets > MAX_BLAST_RADIUS),
        "may change more than 4,000 assets; let several operations change them",
    );
    fault(
        action.gathers && !call,
        "gathers but calls no function, so it has no edits; remove `gathers`",
    );
    fault(
        action.gathers && action.settles.is_some(),
        "gathers and settles; let the machine settle that makes the edits",
    );
    fault(
        action.gathers && action.blast_radius.is_some(),
        "gathers and has a blast radius; give it to the machine that makes the edits",
    );
    if let Some(Err(invalid)) = action.may.as_ref().map(Powers::read) {
        let why = format!("has a wrong power: {}", with_causes(&invalid));
        fault(true, &why);
    }
}

/// Checks that machines whose edits are made together gather them, and that no gathered edit is left over.
pub(super) fn gathered(machines: &[Machine], names: &Names<'_>, problems: &mut Vec<Problem>) {
    let mut made: BTreeSet<&MachineName> = BTreeSet::new();
    for (of, action) in actions(machines) {
        let Task::Edit { machines: named } = &action.task else {
            continue;
        };
        for name in named {
            let Some(number) = names.number(name) else {
                problems.push(Problem::NoSuchMachine {
                    of: of.clone(),
                    machine: name.clone(),
                });
                continue;
            };
            made.insert(name);
            let actions = machines[number.index()].actions.values();
            if !actions.into_iter().any(|action| action.gathers) {
                let why = format!("makes the edits of `{name}`, which gathers none; let it gather");
                let of = of.clone();
                problems.push(Problem::Action { of, why });
            }
        }
    }
    for (of, action) in actions(machines) {
        let GuardOf::Action { machine, .. } = &of else {
            continue;
        };
        if action.gathers && !made.contains(machine) {
            let why = "gathers edits that no machine makes; add a machine with `edits`".to_owned();
            problems.push(Problem::Action { of, why });
        }
    }
}

fn actions(machines: &[Machine]) -> impl Iterator<Item = (GuardOf, &Action)> {
    machines.iter().flat_map(|machine| {
        machine.actions.iter().map(|(state, action)| {
            let of = GuardOf::Action {
                machine: machine.name.clone(),
                state: state.clone(),
            };
            (of, action)
        })
    })
}
