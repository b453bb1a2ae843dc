//! The steps about workflows and operations, one module per kind. Each kills the control plane at moments that the seed
//! picks, and is judged by the press's journal, the cells, the manifest's text and the client.

pub(super) mod edited;
pub(super) mod fresh;
pub(super) mod noticed;
pub(super) mod poison;
pub(super) mod seasons;
pub(super) mod slots;

use super::Session;

/// Maximum pause before a kill while a season is printed, in milliseconds.
const MIDDLE: usize = 900;

/// Returns one or two moments at which the control plane is killed.
fn moments(session: &mut Session) -> Vec<u64> {
    let kills = 1 + session.dice.below(2);
    let moments = (0..kills).map(|_| session.dice.below(MIDDLE) as u64);
    moments.collect()
}
