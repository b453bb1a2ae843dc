//! Wall clocks go wrong: they jump, there and back, and stand still.

use std::time::Duration;

use super::Fault;
use crate::{executor::NodeId, world::World};

const HOUR: Duration = Duration::from_secs(3600);

/// What may happen to a process's wall clock at any time.
pub fn disturb(world: &World, node: NodeId) {
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

/// Makes a clock stand still for a while. Then it shows again what it would have shown: one that stays behind takes old
/// metrics for new ones, which nobody can tell who has no other clock.
fn stop(world: &World, node: NodeId) {
    let long = {
        let mut state = world.state();
        let most = Duration::from_secs(if state.random.per_mille(300) { 900 } else { 90 });
        state.random.between(Duration::from_secs(1), most)
    };
    world.note("clock stops", None, [u64::from(node.0), long.as_secs()]);
    world.executor.stop_clock(node);
    world.state().still_clocks += 1;
    let goes = world.clone();
    world.spawn(async move {
        goes.sleep(long).await;
        goes.note("clock goes", None, [u64::from(node.0), 0]);
        if !goes.state().healed {
            goes.state().still_clocks -= 1;
            goes.executor.let_clock_go(node);
        }
    });
}
