//! Faults of processes: they crash, pause and stop, and their wall clocks go wrong.

use super::clock;
use crate::{
    faults::Fault,
    halt::{kill, stand_still, stop},
    world::World,
};

/// Draws the faults that may strike the process in `place` at any time.
pub(super) fn disturb(world: &World, place: usize) {
    let (node, crash, pause, stops) = {
        let mut state = world.state();
        let Some(process) = state.processes[place].clone() else {
            return;
        };
        (
            process.node,
            state.strikes(Fault::Crash),
            state.strikes(Fault::Pause),
            state.strikes(Fault::Stop),
        )
    };
    clock::disturb(world, node);
    if stops {
        stop(world, node);
    }
    if pause {
        stand_still(world, node);
    }
    if crash {
        kill(world, node);
    }
}
