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
use self::{coverage::Coverage, moves::Here, packing::Packing, seen::Seen};
use super::{
    plan::Plan,
    position::{MachineNo, Position},
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
        stuck = walk::stuck_end(plan, &explorer.first);
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
        stuck: stuck.map(|(path, places)| (path, Position::of(places))),
        coverage,
    }
}

#[derive(Debug)]
struct Explorer<'a> {
    plan: &'a Plan,
    packing: Packing,
    seen: Seen,
    /// The number of the next state to look at.
    next: usize,
    coverage: Coverage,
    first: Here,
    here: Here,
    /// The packed state after a move.
    after: Vec<u64>,
}

impl<'a> Explorer<'a> {
    fn new(plan: &'a Plan, start: &Start<'_>) -> Self {
        let machines = plan.machines.len();
        let mut first = Here {
            places: start.position.places().to_vec(),
            going_on: vec![false; machines],
            enabled: vec![false; machines],
        };
        first.look(plan);
        for machine in start.in_flight {
            first.going_on[machine.index()] = !first.enabled[machine.index()];
        }
        let packing = Packing::of(plan);
        let mut seen = Seen::new(packing.words());
        seen.insert(&packing.pack(&first.places, &first.going_on), None);
        Self {
            plan,
            after: vec![0; packing.words()],
            packing,
            seen,
            next: 0,
            coverage: Coverage::new(plan, start.since),
            here: first.clone(),
            first,
        }
    }

    /// Goes to the state with the number `number`.
    fn go(&mut self, number: usize) {
        let Here {
            places, going_on, ..
        } = &mut self.here;
        self.packing
            .unpack(self.seen.state(number), places, going_on);
        self.here.look(self.plan);
    }

    /// Looks at all states that were found and not looked at yet, while there are at most `limit`. Returns the path to
    /// the first end that is stuck, and the places there.
    fn drain(&mut self, limit: usize) -> Option<(Vec<Move>, Vec<u8>)> {
        let mut moves = Vec::new();
        while self.next < self.seen.len() && self.seen.len() <= limit {
            self.go(self.next);
            self.coverage.note(&self.here);
            moves.clear();
            self.here.moves(self.plan, |by| moves.push(by));
            if moves.is_empty() && self.plan.is_stuck(&self.here.places) {
                return Some((self.seen.path(self.next), self.here.places.clone()));
            }
            for &by in &moves {
                self.make(self.next, by);
            }
            self.next += 1;
        }
        None
    }

    /// Adds the state to which a move leads from the state `from`, which is the present one.
    fn make(&mut self, from: usize, by: Move) {
        self.after.copy_from_slice(self.seen.state(from));
        let (packing, after) = (&self.packing, &mut self.after);
        let undo = self.here.make(self.plan, by, |machine, mark| {
            packing.set_going_on(after, machine.index(), mark);
        });
        if let Some(place) = undo.place() {
            packing.set_place(after, place, self.here.places[place]);
        }
        self.seen.insert(after, Some((from, by)));
        self.here.undo(undo);
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
            self.go(number);
            self.make(number, Move::Cancel);
            self.drain(limit);
        }
        self.coverage.is_complete() || self.seen.len() <= limit
    }
}

#[cfg(test)]
mod tests;
