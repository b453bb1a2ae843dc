//! Faults of wall clocks: they jump forwards or backwards, and stand still.

use std::time::Duration;

use crate::{executor::NodeId, faults::Fault, world::World};

const HOUR: Duration = Duration::from_secs(3600);

/// Draws the faults that may strike the wall clock of a process at any time.
pub(super) fn disturb(world: &World, node: NodeId) {
    let (hour, month, back, stops) = {
        let mut state = world.state();
        let (hour, month) = (
            state.strikes(Fault::ClockHour),
            state.strikes(Fault::ClockMonth),
        );
        let stops = state.strikes(Fault::ClockStops);
        if hour || month {
            state.judge.jumped = Some(state.now);
        }
        (hour, month, state.random.per_mille(500), stops)
    };
    if hour {
        world.executor.jump(node, HOUR, back);
    }
    if month {
        world.executor.jump(node, HOUR * 24 * 30, back);
    }
    if stops {
        stop(world, node);
    }
}

/// Stops a wall clock for a while. Afterwards it shows the correct time again: a clock that stayed behind would make
/// old metrics look new, and a process without a second clock could not detect that.
fn stop(world: &World, node: NodeId) {
    let long = {
        let mut state = world.state();
        let most = Duration::from_secs(if state.random.per_mille(300) { 900 } else { 90 });
        state.random.between(Duration::from_secs(1), most)
    };
    world.note("clock stopped", None, [u64::from(node.0), long.as_secs()]);
    world.executor.stop_clock(node);
    world.state().still_clocks += 1;
    let goes = world.clone();
    world.spawn(async move {
        goes.sleep(long).await;
        goes.note("clock runs again", None, [u64::from(node.0), 0]);
        if !goes.state().healed {
            goes.state().still_clocks -= 1;
            goes.executor.let_clock_go(node);
        }
    });
}
