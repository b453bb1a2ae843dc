//! A sample of whole executions, for workflows with more states than are explored.

use plugin_sdk::workflow::StateName;

use super::moves::{Here, Move};
use crate::definition::plan::Plan;

/// Maximum number of executions in the sample.
const WALKS: usize = 2_000;

/// Maximum number of transitions of one execution in the sample.
const LENGTH: usize = 10_000;

/// Maximum number of actions that are looked at for the sample. It bounds the time that the sample takes.
const LOOKS: usize = 5_000_000;

/// Runs executions whose next move is drawn, always the same ones. Returns the moves to an end that is stuck, and the
/// places there, if one was found.
pub(super) fn stuck_end(plan: &Plan, start: &Here) -> Option<(Vec<Move>, Vec<u8>)> {
    let mut draws = Draws(0x2545_F491_4F6C_DD1D);
    let mut looks = 0;
    let mut moves = Vec::new();
    for _ in 0..WALKS {
        let mut here = start.clone();
        let mut path = Vec::new();
        while path.len() < LENGTH && looks < LOOKS {
            looks += plan.machines.len();
            here.look(plan);
            moves.clear();
            here.moves(plan, |by| moves.push(by));
            let Some(by) = draws.one_move(plan, &here, &moves) else {
                if plan.is_stuck(&here.places) {
                    return Some((path, here.places));
                }
                break;
            };
            let mut marks = Vec::new();
            here.make(plan, by, |machine, mark| marks.push((machine, mark)));
            for (machine, mark) in marks {
                here.going_on[machine.index()] = mark;
            }
            path.push(by);
        }
    }
    None
}

/// Whether a move is an outcome `failed` or `expired`.
fn fails(plan: &Plan, here: &Here, by: Move) -> bool {
    let Move::Outcome(machine, target) = by else {
        return false;
    };
    plan.step(machine, &here.places).is_some_and(|step| {
        let outcome = step.targets[usize::from(target)].0.as_str();
        [StateName::FAILED, StateName::EXPIRED].contains(&outcome)
    })
}

/// Numbers that look random and are the same on every run (xorshift64).
struct Draws(u64);

impl Draws {
    /// Draws one of the moves. One that fails is drawn again most times, so that long workflows come to their ends.
    fn one_move(&mut self, plan: &Plan, here: &Here, moves: &[Move]) -> Option<Move> {
        let by = *self.one_of(moves)?;
        let again = fails(plan, here, by) && self.one_of(&[true, true, true, false]) == Some(&true);
        if again {
            self.one_of(moves).copied()
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
