//! Exploration of all positions that an execution can reach, breadth first, so that paths to what is found are shortest.
//!
//! Ends are judged before cancelling only: once cancelling was asked for, an end is never stuck. Positions after a cancel
//! are explored only until every state and action has been seen.

mod coverage;
mod moves;
mod packing;
mod seen;
mod walk;

pub(super) use self::moves::Move;
use self::{coverage::Coverage, moves::Moves, packing::Mark, seen::Seen};
use super::{
    condition::Places,
    plan::Plan,
    position::{CANCELLED, MachineNo, Position},
};

/// Maximum number of positions that are explored.
pub const MAX_EXPLORED: usize = 100_000;

/// What was explored when a workflow was built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Exploration {
    /// The number of positions that were explored, at most 100,000.
    pub states: usize,
    /// Whether these were all positions before a cancel, which proves that no end is stuck. If not, a sample of whole
    /// executions was run as well, and an execution could still end as
    /// [`Outcome::Stuck`](super::Outcome::Stuck).
    pub complete: bool,
}

/// Where an exploration starts.
#[derive(Debug)]
pub(super) struct Start<'a> {
    pub(super) position: &'a Position,
    /// Machines with a call in flight.
    pub(super) in_flight: &'a [MachineNo],
    /// The number of the first machine whose states and actions have to be reached.
    pub(super) since: usize,
}

/// What an exploration found.
#[derive(Debug)]
pub(super) struct Explored {
    pub(super) exploration: Exploration,
    pub(super) stuck: Option<(Vec<Move>, Position)>,
    pub(super) coverage: Coverage,
}

/// Explores the positions from `start`.
pub(super) fn explore(plan: &Plan, start: &Start<'_>) -> Explored {
    let mut explorer = Explorer::new(plan, start);
    let mut stuck = explorer.drain(MAX_EXPLORED);
    let complete = explorer.seen.len() <= MAX_EXPLORED;
    if !complete && stuck.is_none() {
        stuck = walk::stuck_end(&explorer.moves, explorer.seen.state(0));
    }
    let covered = stuck.is_some() || explorer.cancel(MAX_EXPLORED, true);
    let coverage = match covered {
        true => explorer.coverage,
        false => Coverage::at_most(plan, start.position.places()),
    };
    Explored {
        exploration: Exploration {
            states: explorer.seen.len().min(MAX_EXPLORED),
            complete,
        },
        stuck,
        coverage,
    }
}

#[derive(Debug)]
struct Explorer<'a> {
    moves: Moves<'a>,
    seen: Seen,
    /// The number of the next state to look at.
    next: usize,
    coverage: Coverage,
    /// The packed state after a move.
    after: Vec<u64>,
}

impl<'a> Explorer<'a> {
    fn new(plan: &'a Plan, start: &Start<'_>) -> Self {
        let moves = Moves::of(plan);
        let first = moves.first(start.position, start.in_flight);
        let mut seen = Seen::new(moves.packing.words(), moves.packing.key());
        seen.insert(&first, None);
        let mut explorer = Self {
            moves,
            seen,
            next: 0,
            coverage: Coverage::new(plan, start.since),
            after: first,
        };
        plan.numbers().for_each(|machine| explorer.note(machine));
        explorer
    }

    /// Looks at all states that were found and not looked at yet, while there are at most `limit`. Returns the path to
    /// the first end that is stuck, and the position there.
    fn drain(&mut self, limit: usize) -> Option<(Vec<Move>, Position)> {
        let mut open = Vec::new();
        while self.next < self.seen.len() && self.seen.len() <= limit {
            let here = self.seen.state(self.next);
            self.moves.list(here, &mut open);
            if open.is_empty() && self.moves.plan.is_stuck(&self.moves.packed(here)) {
                return Some((self.seen.path(self.next), self.moves.packing.position(here)));
            }
            for &by in &open {
                self.make(self.next, by);
            }
            self.next += 1;
        }
        None
    }

    /// Adds the state to which a move leads from the state `from`.
    fn make(&mut self, from: usize, by: Move) {
        self.after.copy_from_slice(self.seen.state(from));
        self.moves.make(&mut self.after, by);
        if !self.seen.insert(&self.after, Some((from, by))) || self.coverage.is_complete() {
            return;
        }
        let place = match by {
            Move::Outcome(machine, _) => {
                self.note(machine);
                machine.place()
            }
            Move::Cancel => CANCELLED,
            Move::Withdraw(_) => return,
        };
        let plan = self.moves.plan;
        plan.mentioning[place]
            .iter()
            .for_each(|machine| self.note(*machine));
    }

    /// Notes the state of a machine after a move.
    fn note(&mut self, machine: MachineNo) {
        let state = self.moves.packed(&self.after).state(machine.place());
        let enabled = self
            .moves
            .packing
            .is_marked(&self.after, Mark::Enabled, machine);
        self.coverage.note(machine, state, enabled);
    }

    /// Explores the states after a cancel, while there are at most `limit` states in all. `enough`: stops as soon as
    /// everything is covered. Returns whether the coverage is exact.
    fn cancel(&mut self, limit: usize, enough: bool) -> bool {
        let before = self.seen.len();
        for number in 0..before {
            if enough && self.coverage.is_complete() {
                return true;
            }
            if self.seen.len() > limit {
                return false;
            }
            self.make(number, Move::Cancel);
            self.drain(limit);
        }
        self.coverage.is_complete() || self.seen.len() <= limit
    }
}

#[cfg(test)]
mod tests;
