//! A sample of whole executions, for workflows with more states than are explored.

use plugin_sdk::workflow::StateName;

use super::moves::{Move, Moves};
use crate::definition::position::Position;

/// Maximum number of executions in the sample.
const WALKS: usize = 2_000;

/// Maximum number of transitions of one execution in the sample.
const LENGTH: usize = 10_000;

/// Maximum number of moves that are looked at for the sample. It bounds the time that the sample takes.
const LOOKS: usize = 2_000_000;

/// Runs executions whose next move is drawn, always the same ones. Returns the moves to an end that is stuck, and the
/// position there, if one was found.
pub(super) fn stuck_end(moves: &Moves<'_>, start: &[u64]) -> Option<(Vec<Move>, Position)> {
    let mut draws = Draws(0x2545_F491_4F6C_DD1D);
    let mut looks = 0;
    let mut open = Vec::new();
    for _ in 0..WALKS {
        let mut here = start.to_vec();
        let mut path = Vec::new();
        while path.len() < LENGTH && looks < LOOKS {
            moves.list(&here, &mut open);
            looks += open.len();
            let Some(by) = draws.one_move(moves, &here, &open) else {
                if moves.plan.is_stuck(&moves.packed(&here)) {
                    return Some((path, moves.packing.position(&here)));
                }
                break;
            };
            moves.make(&mut here, by);
            path.push(by);
        }
    }
    None
}

/// Whether a move is an outcome `failed` or `expired`.
fn fails(moves: &Moves<'_>, here: &[u64], by: Move) -> bool {
    let Move::Outcome(machine, target) = by else {
        return false;
    };
    let step = moves.plan.step(machine, &moves.packed(here));
    step.is_some_and(|step| {
        let outcome = step.targets[usize::from(target)].0.as_str();
        [StateName::FAILED, StateName::EXPIRED].contains(&outcome)
    })
}

/// Numbers that look random and are the same on every run (xorshift64).
struct Draws(u64);

impl Draws {
    /// Draws one of the moves. One that fails is drawn again most times, so that long workflows come to their ends.
    fn one_move(&mut self, moves: &Moves<'_>, here: &[u64], open: &[Move]) -> Option<Move> {
        let by = *self.one_of(open)?;
        let again =
            fails(moves, here, by) && self.one_of(&[true, true, true, false]) == Some(&true);
        if again {
            self.one_of(open).copied()
        } else {
            Some(by)
        }
    }

    fn one_of<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        let at = self.0 % items.len().max(1) as u64;
        items.get(at as usize)
    }
}
