//! Halts processes: they are killed, told to stop, or paused, alone or all at once. Killed processes are started again
//! in the way that each has left with the world.

use std::time::Duration;

use crate::{deadlines::TERM, executor::NodeId, faults::Crash, world::World};

/// Kills the process on `node` and starts it again some time later. Returns false if no process runs there.
pub fn kill(world: &World, node: NodeId) -> bool {
    let (process, sealer, wait) = {
        let mut state = world.state();
        let mut places = state.processes.iter().zip(0..);
        let process = places.find_map(|(process, place)| {
            let process = process.as_ref().filter(|process| process.node == node)?;
            Some((place, process.again))
        });
        let sealer = state
            .sealed
            .again
            .filter(|_| state.sealed.node == Some(node));
        if let Some((place, _)) = process {
            state.processes[place] = None;
        }
        if sealer.is_some() {
            state.sealed.node = None;
        }
        let most = if state.healed { 2 } else { 40 };
        let wait = state
            .random
            .between(Duration::from_millis(100), Duration::from_secs(most));
        (process, sealer, wait)
    };
    if process.is_none() && sealer.is_none() {
        return false;
    }
    world.note("killed", None, [u64::from(node.0), 0]);
    world.executor.kill(node);
    world.state().handles.remove(&node);
    let again = world.clone();
    world.spawn(async move {
        again.sleep(wait).await;
        if let Some((place, start)) = process {
            let vacant = again.state().processes[place].is_none();
            if vacant {
                start(&again, place);
            }
        }
        if let Some(seal) = sealer {
            seal(&again);
        }
    });
    true
}

/// Tells the process on `node` to stop, as SIGTERM does. It is started again after it has ended.
pub fn stop(world: &World, node: NodeId) {
    if world.executor.is_paused(node) {
        return;
    }
    let mut state = world.state();
    let process = state.processes.iter().flatten().find(|p| p.node == node);
    let Some(process) = process.cloned() else {
        return;
    };
    if process.stop.unbounded_send(()).is_ok() {
        state.told_to_stop(node);
    }
    drop(state);
    world.note("told to stop", None, [u64::from(node.0), 0]);
}

/// Pauses the enforcer on `node` for three lease terms. Does nothing on other nodes: the sealer has no lease, and the
/// world must not pause.
pub fn stand_still(world: &World, node: NodeId) {
    let runs = {
        let state = world.state();
        state.processes.iter().flatten().any(|p| p.node == node)
    };
    if !runs || world.executor.is_paused(node) {
        return;
    }
    {
        let mut state = world.state();
        let until = state.now + TERM * 3;
        state.judge.stops.sleeps(node, until);
    }
    world.note("paused", None, [u64::from(node.0), 0]);
    world.executor.pause(node, true);
    let wakes = world.clone();
    world.spawn(async move {
        wakes.sleep(TERM * 3).await;
        wakes.note("resumed", None, [u64::from(node.0), 0]);
        go_on(&wakes, node);
    });
}

/// Resumes a paused process; does nothing if it is not paused.
pub fn go_on(world: &World, node: NodeId) {
    if world.executor.is_paused(node) {
        let mut state = world.state();
        let now = state.now;
        state.woken.insert(node, now);
    }
    world.executor.pause(node, false);
}

/// Kills all processes and drops the store's writes that were not synced. Production goes on.
pub fn power_cut(world: &World) {
    let (nodes, sealer) = {
        let mut state = world.state();
        let nodes: Vec<_> = state.processes.iter().flatten().map(|p| p.node).collect();
        state.store = state.store.crash();
        state.handles.clear();
        (nodes, state.sealed.node)
    };
    world.note("power cut", None, [0, 0]);
    for node in nodes.into_iter().chain(sealer) {
        kill(world, node);
    }
}

/// Passes a point at which the process on `node` may die. Returns true if it died: then the caller must not go on.
pub fn dies_here(world: &World, node: NodeId) -> bool {
    if node == NodeId::WORLD {
        return false;
    }
    let crash = {
        let mut state = world.state();
        let now = state.now;
        state.points.pass(now)
    };
    match crash {
        None => false,
        Some(Crash::Process) => kill(world, node),
        Some(Crash::Power) => {
            power_cut(world);
            true
        }
    }
}

/// Passes a point at which the process on `node` may die. If it died, nothing follows.
pub async fn survive(world: &World, node: NodeId) {
    if dies_here(world, node) {
        futures::future::pending::<()>().await;
    }
}
