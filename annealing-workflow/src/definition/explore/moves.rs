//! What can happen next at a position: outcomes of actions that are enabled or go on, withdrawals, cancelling.
//!
//! An action that is enabled may have begun or be due; both report an outcome later, so nothing tells them apart. When its
//! guard stops to hold, a call that has begun goes on to its outcome, and one that is due is withdrawn. Such an action is
//! marked as going on until one of both happens, or until its guard holds again.

use super::packing::{Mark, Packed, Packing};
use crate::definition::{
    plan::Plan,
    position::{CANCELLED, MachineNo, Position},
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

/// The moves of a workflow on packed positions.
#[derive(Debug)]
pub(super) struct Moves<'a> {
    pub(super) plan: &'a Plan,
    pub(super) packing: Packing,
}

impl<'a> Moves<'a> {
    pub(super) fn of(plan: &'a Plan) -> Self {
        let packing = Packing::of(plan);
        Self { plan, packing }
    }

    /// Packs a position, with calls in flight of the machines `in_flight`.
    pub(super) fn first(&self, position: &Position, in_flight: &[MachineNo]) -> Vec<u64> {
        let mut words = vec![0; self.packing.words()];
        for (place, state) in position.places().iter().enumerate() {
            self.packing.set_state(&mut words, place, *state);
        }
        for machine in self.plan.numbers() {
            let enabled = self.plan.is_enabled(machine, position.places());
            self.packing
                .mark(&mut words, Mark::Enabled, machine, enabled);
            let goes_on = !enabled && in_flight.contains(&machine);
            self.packing
                .mark(&mut words, Mark::GoingOn, machine, goes_on);
        }
        words
    }

    pub(super) fn packed<'w>(&'w self, words: &'w [u64]) -> Packed<'w> {
        let packing = &self.packing;
        Packed { packing, words }
    }

    /// Replaces `moves` by everything that can happen but cancelling.
    pub(super) fn list(&self, words: &[u64], moves: &mut Vec<Move>) {
        moves.clear();
        self.packing.active(words, |machine| {
            let step = self.plan.step(machine, &self.packed(words));
            // An action has at most as many targets as its machine has states: 64.
            let targets = step.map_or(0, |step| step.targets.len() as u8);
            moves.extend((0..targets).map(|target| Move::Outcome(machine, target)));
            if self.packing.is_marked(words, Mark::GoingOn, machine) {
                moves.push(Move::Withdraw(machine));
            }
        });
    }

    /// Makes a move.
    pub(super) fn make(&self, words: &mut [u64], by: Move) {
        let place = match by {
            Move::Withdraw(machine) => {
                self.packing.mark(words, Mark::GoingOn, machine, false);
                return;
            }
            Move::Outcome(machine, target) => {
                let step = self.plan.step(machine, &self.packed(words));
                let to = step.map_or(0, |step| step.targets[usize::from(target)].1);
                self.packing.set_state(words, machine.place(), to);
                self.packing.mark(words, Mark::GoingOn, machine, false);
                let enabled = self.plan.is_enabled(machine, &self.packed(words));
                self.packing.mark(words, Mark::Enabled, machine, enabled);
                machine.place()
            }
            Move::Cancel => {
                self.packing.set_state(words, CANCELLED, 1);
                CANCELLED
            }
        };
        for &machine in &self.plan.mentioning[place] {
            if machine.place() != place {
                self.judge(words, machine);
            }
        }
    }

    /// Marks anew whether the action of a machine is enabled, after the state of another one has changed.
    fn judge(&self, words: &mut [u64], machine: MachineNo) {
        let enabled = self.plan.is_enabled(machine, &self.packed(words));
        if enabled {
            self.packing.mark(words, Mark::Enabled, machine, true);
            self.packing.mark(words, Mark::GoingOn, machine, false);
        } else if self.packing.is_marked(words, Mark::Enabled, machine) {
            let step = self.plan.step(machine, &self.packed(words));
            let goes_on = step.is_some_and(|step| step.goes_on);
            self.packing.mark(words, Mark::Enabled, machine, false);
            self.packing.mark(words, Mark::GoingOn, machine, goes_on);
        }
    }
}
