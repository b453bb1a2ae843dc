//! Outages of the store: for all processes or for one of them, short or long, and power cuts that lose unsynced writes.

use std::time::Duration;

use crate::{
    executor::NodeId,
    faults::Fault,
    halt::power_cut,
    world::{State, World},
};

/// Duration for which a single process is cut off from the store.
const ALONE: Duration = Duration::from_secs(60);

/// Draws the faults that may strike the store at any time.
pub(super) fn disturb(world: &World) {
    let (unreachable, long, cut, alone) = {
        let mut state = world.state();
        let long = state.random.per_mille(200);
        let most = Duration::from_secs(if long { 900 } else { 40 });
        let unreachable = state.strikes(Fault::Unreachable);
        let long = state.random.between(Duration::from_secs(1), most);
        let cut = state.strikes(Fault::PowerCut);
        (unreachable, long, cut, state.choose_lonely())
    };
    if cut {
        power_cut(world);
    }
    if unreachable {
        go_away(world, long);
    }
    if let Some(node) = alone {
        cut_off(world, node);
    }
}

/// Makes the store unreachable for all processes, for the duration `long`. The end of a shorter outage ends a longer one
/// that began before it.
pub fn go_away(world: &World, long: Duration) {
    world.note("unreachable", None, [long.as_secs(), 0]);
    let mut state = world.state();
    state.store.set_unreachable(true);
    let now = state.now;
    state.unreachable_since.get_or_insert(now);
    drop(state);
    let back = world.clone();
    world.spawn(async move {
        back.sleep(long).await;
        back.note("reachable", None, [0, 0]);
        let mut state = back.state();
        state.store.set_unreachable(false);
        if let Some(since) = state.unreachable_since.take() {
            state.words_waited(since);
        }
    });
}

/// Cuts one process off from the store for a while. Other processes reach it, and all of them reach production.
fn cut_off(world: &World, node: NodeId) {
    world.note("cut off", None, [u64::from(node.0), 0]);
    world.state().cut_off.insert(node);
    let since = world.state().now;
    let back = world.clone();
    world.spawn(async move {
        back.sleep(ALONE).await;
        back.note("reconnected", None, [u64::from(node.0), 0]);
        let mut state = back.state();
        state.cut_off.remove(&node);
        state.words_waited(since);
    });
}

impl State {
    /// Draws the process that is cut off from now on; `None` if there is only one, or if the fault does not strike.
    fn choose_lonely(&mut self) -> Option<NodeId> {
        let nodes: Vec<_> = self.processes.iter().flatten().map(|p| p.node).collect();
        if nodes.len() < 2 || !self.cut_off.is_empty() || !self.strikes(Fault::CutOff) {
            return None;
        }
        // Prefer the owner: its loss has more consequences.
        let owner = self.owner.filter(|owner| nodes.contains(owner));
        let any = self.random.pick(&nodes);
        if self.random.per_mille(700) {
            owner.or(any)
        } else {
            any
        }
    }
}
