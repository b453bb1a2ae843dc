//! What can happen next at a position: outcomes of actions that are enabled or go on, withdrawals, cancelling.

use crate::definition::{
    plan::Plan,
    position::{CANCELLED, MachineNo},
};

/// One thing that can happen at a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::definition) enum Move {
    /// The action of the machine reports the outcome that leads to the target with this number.
    Outcome(MachineNo, u8),
    /// The action of the machine, whose guard does not hold any more, was not begun.
    Withdraw(MachineNo),
    /// Cancelling the execution is asked for.
    Cancel,
}

/// A position with what goes on: what exploration knows at one moment.
///
/// An action that is enabled may have begun or be due; both report an outcome later, so nothing tells them apart. When
/// its guard stops to hold, a call that has begun goes on to its outcome, and one that is due is withdrawn. Such an action
/// is marked until one of both happens, or until its guard holds again.
#[derive(Debug, Clone)]
pub(super) struct Here {
    pub(super) places: Vec<u8>,
    /// By number of the machine: its action is not enabled but may have begun.
    pub(super) going_on: Vec<bool>,
    /// By number of the machine: its action is enabled.
    pub(super) enabled: Vec<bool>,
}

impl Here {
    /// Computes which actions are enabled, after the places have changed.
    pub(super) fn look(&mut self, plan: &Plan) {
        for machine in plan.numbers() {
            self.enabled[machine.index()] = plan.is_enabled(machine, &self.places);
        }
    }

    /// Calls `each` for everything that can happen but cancelling.
    pub(super) fn moves(&self, plan: &Plan, mut each: impl FnMut(Move)) {
        for machine in plan.numbers() {
            let goes_on = self.going_on[machine.index()];
            if !goes_on && !self.enabled[machine.index()] {
                continue;
            }
            let targets = plan
                .step(machine, &self.places)
                .map_or(0, |step| step.targets.len());
            for target in 0..targets {
                // An action has at most as many targets as its machine has states: 64.
                each(Move::Outcome(machine, target as u8));
            }
            if goes_on {
                each(Move::Withdraw(machine));
            }
        }
    }

    /// Makes a move on the places, and calls `mark` for each mark of an action that changes. [`undo`](Self::undo) takes
    /// back what it changed.
    pub(super) fn make(
        &mut self,
        plan: &Plan,
        by: Move,
        mut mark: impl FnMut(MachineNo, bool),
    ) -> Undo {
        let (place, to) = match by {
            Move::Withdraw(machine) => {
                mark(machine, false);
                return Undo(None);
            }
            Move::Outcome(machine, target) => {
                let step = plan.step(machine, &self.places);
                let to = step.map_or(0, |step| step.targets[usize::from(target)].1);
                mark(machine, false);
                (machine.place(), to)
            }
            Move::Cancel => (CANCELLED, 1),
        };
        let undo = Undo(Some((place, self.places[place])));
        self.places[place] = to;
        for &machine in &plan.mentioning[place] {
            if machine.place() == place {
                continue;
            }
            let now = plan.is_enabled(machine, &self.places);
            let (enabled, marked) = (
                self.enabled[machine.index()],
                self.going_on[machine.index()],
            );
            let goes_on = || {
                plan.step(machine, &self.places)
                    .is_some_and(|step| step.goes_on)
            };
            if marked && now {
                mark(machine, false);
            } else if enabled && !now && goes_on() {
                mark(machine, true);
            }
        }
        undo
    }

    /// Takes back a move on the places.
    pub(super) fn undo(&mut self, undo: Undo) {
        if let Undo(Some((place, was))) = undo {
            self.places[place] = was;
        }
    }
}

/// The place that a move changed, with its state before.
#[derive(Debug)]
pub(super) struct Undo(Option<(usize, u8)>);

impl Undo {
    /// The place that the move changed.
    pub(super) fn place(&self) -> Option<usize> {
        self.0.map(|(place, _)| place)
    }
}
