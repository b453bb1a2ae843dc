//! Which states and actions have been seen in an exploration, and which can be reached at all.

use crate::definition::{
    plan::Plan,
    position::{CANCELLED, MachineNo},
};

/// The states and actions of machines that can occur, as sets of numbers of states.
#[derive(Debug)]
pub(in crate::definition) struct Coverage {
    /// By number of the machine: the states in which it can be.
    pub(in crate::definition) reached: Vec<u64>,
    /// By number of the machine: the states with an action that can be enabled.
    pub(in crate::definition) enabled: Vec<u64>,
    /// The first machine that counts.
    since: usize,
    /// The number of states and actions that have not been seen.
    missing: usize,
}

impl Coverage {
    /// Nothing has been seen of the machines from `since` on. Those before do not count.
    pub(super) fn new(plan: &Plan, since: usize) -> Self {
        let parts = plan.machines[since..].iter();
        let parts = parts.map(|steps| steps.states.len() + steps.actions.iter().flatten().count());
        Self {
            reached: vec![0; plan.machines.len()],
            enabled: vec![0; plan.machines.len()],
            since,
            missing: parts.sum(),
        }
    }

    pub(super) fn is_complete(&self) -> bool {
        self.missing == 0
    }

    /// Notes the state of a machine and whether its action is enabled.
    pub(super) fn note(&mut self, machine: MachineNo, state: u8, enabled: bool) {
        let (index, state) = (machine.index(), 1 << state);
        if index < self.since {
            return;
        }
        if self.reached[index] & state == 0 {
            self.reached[index] |= state;
            self.missing -= 1;
        }
        if enabled && self.enabled[index] & state == 0 {
            self.enabled[index] |= state;
            self.missing -= 1;
        }
    }

    /// What could be reached from a position if each machine could be in each of its reachable states whatever the
    /// others do. Contains everything that can be reached, so what is missing in it is never reached.
    pub(super) fn at_most(plan: &Plan, places: &[u8]) -> Self {
        let mut may: Vec<u64> = places.iter().map(|state| 1 << state).collect();
        may[CANCELLED] = 0b11;
        let mut enabled = vec![0; plan.machines.len()];
        let mut changed = true;
        while changed {
            changed = false;
            for machine in plan.numbers() {
                let actions = plan.machines[machine.index()].actions.iter().enumerate();
                for (state, step) in actions {
                    let bit = 1 << state;
                    let Some(step) = step else { continue };
                    let known = enabled[machine.index()] & bit != 0;
                    if known || may[machine.place()] & bit == 0 || !step.guard.may_hold(&may) {
                        continue;
                    }
                    enabled[machine.index()] |= bit;
                    let targets = step.targets.iter();
                    may[machine.place()] |= targets.fold(0, |all, (_, to)| all | 1 << to);
                    changed = true;
                }
            }
        }
        may.remove(CANCELLED);
        Self {
            reached: may,
            enabled,
            since: 0,
            missing: 0,
        }
    }
}
