//! Enforcer processes with the real shell, kernel, checks and ownership: they are started, killed, paused and
//! restarted.

use std::{sync::Arc, time::Duration};

use annealing_enforcer::{AskError, Config, Enforcer, Handle, Plugin, TypeConfig};
use control_plane_store::{Store, incarnations::Incarnations};
use futures::{StreamExt, channel::mpsc};
use prodspec_model::{AssetId, TypeName};

use crate::{
    checks::checks,
    executor::{NodeId, NodeRuntime},
    faults::{Fault, clock, words},
    intent::{Kind, partition},
    plugin::Network,
    rollouts,
    store::ProcessStore,
    world::{Process, World},
};

/// Lease term: other processes take over after this time without a heartbeat.
pub const TERM: Duration = Duration::from_secs(15);
/// Deadline of a diff call.
pub const DIFF: Duration = Duration::from_secs(10);
/// Deadline of a push call.
pub const PUSH: Duration = Duration::from_secs(40);
/// Interval at which the kernel's branch counters are read.
const TELL_EVERY: Duration = Duration::from_secs(7);

/// Starts an enforcer in `place` (0 or 1), on the store as it was opened last.
pub fn start(world: &World, place: usize) {
    let (node, config) = {
        let mut state = world.state();
        let wrong = state.random.below(2_000_000_000) as i64 - 1_000_000_000;
        let wrong = if state.healed { 0 } else { wrong };
        let node = world.executor.boot(&mut state.random, wrong);
        let seed = state.random.bits();
        #[allow(unused_mut, reason = "only planted bugs change it")]
        let mut config = Config {
            observe_only: state.strikes(Fault::Observes),
            drift_period: state.scenario.drift_period,
            backoff_cap: state.scenario.drift_period,
            breaker_failures: 6,
            seed,
            ..Config::default()
        };
        #[cfg(feature = "planted-bugs")]
        {
            config.planted = state.scenario.planted;
        }
        (node, config)
    };
    world.note("started", None, [place as u64, u64::from(node.0)]);
    let observes = config.observe_only;
    let Some(enforcer) = build(world, node, config) else {
        return;
    };
    let handle = enforcer.handle();
    let (stop, stopped) = mpsc::unbounded();
    world.state().processes[place] = Some(Process {
        node,
        handle: handle.clone(),
        stop,
        observes,
        rollouts: None,
    });
    world
        .executor
        .spawn(node, Box::pin(tell(world.clone(), node, handle)));
    world
        .executor
        .spawn(node, Box::pin(live(world.clone(), node, enforcer, stopped)));
}

/// Reads the kernel's branch counters and the strategist's views at intervals, for reports.
async fn tell(world: World, node: NodeId, handle: Handle<NodeRuntime>) {
    loop {
        world.sleep(TELL_EVERY).await;
        let branches = handle.branches().await;
        if let Err(AskError::Stopped { stopped, .. }) = &branches {
            world.state().violated("guard", stopped.why.clone());
        }
        if let Ok(branches) = branches {
            let mut state = world.state();
            let token = state.judge.token;
            let counts = state.branches.entry((node.0, token)).or_default();
            for (branch, count) in branches {
                let most = counts.entry(branch).or_default();
                *most = count.max(*most);
            }
        }
        let rollouts = world.state().rollouts_of(node);
        if let Some(rollouts) = rollouts
            && let Ok(views) = rollouts.views().await
        {
            let held_up = views.iter().flat_map(words::held_up).collect();
            world.state().views = views;
            if world.state().healed {
                explain(&world, &handle, held_up).await;
            }
        }
    }
}

/// Keeps the enforcer's explanations of these assets.
async fn explain(world: &World, handle: &Handle<NodeRuntime>, assets: Vec<AssetId>) {
    let mut explained = Vec::new();
    for asset in assets {
        explained.extend(handle.explain(&asset).await);
    }
    world.state().explained = explained;
}

/// Runs the enforcer until it ends by itself or is told to stop.
async fn live(
    world: World,
    node: NodeId,
    enforcer: Enforcer<NodeRuntime>,
    mut stop: mpsc::UnboundedReceiver<()>,
) {
    let shutdown = async move {
        stop.next().await;
    };
    let ended = enforcer.run(shutdown).await;
    world.note("ended", None, [u64::from(ended.is_ok()), 0]);
    world.state().judge_drained(node, ended.is_ok());
    world.verdict();
    let store = world.state().store.clone();
    let operator = world.clone();
    world.spawn(async move {
        // A failed sync poisons the store: it refuses all calls until it is opened again.
        let probe = store.get(&["probe".into()]).await;
        if matches!(probe, Err(control_plane_store::Error::Poisoned { .. })) {
            power_cut(&operator);
        }
    });
    kill(&world, node);
}

fn build(world: &World, node: NodeId, config: Config) -> Option<Enforcer<NodeRuntime>> {
    let runtime = NodeRuntime::new(world.executor.clone(), node);
    let store = ProcessStore::open(world);
    let incarnations = Arc::new(Incarnations::new(store.clone(), partition()));
    let mut builder = Enforcer::builder(runtime, partition(), store)
        .incarnations(incarnations.clone())
        .process_id(format!("process-{}", node.0).as_str().into())
        .lease_term(TERM)
        .config(config)
        .checks(|_| checks(world, node));
    builder = rollouts::beside(world, node, builder, incarnations);
    for kind in Kind::ENFORCED {
        let network = Network {
            world: world.clone(),
            node,
        };
        let plugin = Plugin::new(network.clone());
        // Gradual types have no turndown, so their turndowns are never carried out.
        let plugin = if kind == Kind::Gradual {
            plugin
        } else {
            plugin.turndown(network)
        };
        let plugin = if kind == Kind::Advisory {
            plugin
        } else {
            plugin.guarded()
        };
        let name = TypeName::new(kind.type_name());
        builder = builder.asset_plugin_named(name, plugin.adjust(limits));
    }
    builder.build().ok()
}

fn limits(config: &mut TypeConfig) {
    (config.diffs, config.pushes) = (8, 4);
    config.diff_deadline = DIFF;
    config.push_deadline = PUSH;
    config.push_total = Duration::from_secs(120);
}

/// Kills the process on `node` and starts it again some time later. Returns false if no process runs there.
pub fn kill(world: &World, node: NodeId) -> bool {
    let (place, sealer, wait) = {
        let mut state = world.state();
        let runs = |process: &Option<Process>| process.as_ref().is_some_and(|p| p.node == node);
        let place = state.processes.iter().position(runs);
        let sealer = state.sealed.node == Some(node);
        if let Some(place) = place {
            state.processes[place] = None;
        }
        if sealer {
            state.sealed.node = None;
        }
        let most = if state.healed { 2 } else { 40 };
        let wait = state
            .random
            .between(Duration::from_millis(100), Duration::from_secs(most));
        (place, sealer, wait)
    };
    if place.is_none() && !sealer {
        return false;
    }
    world.note("killed", None, [u64::from(node.0), 0]);
    world.executor.kill(node);
    let again = world.clone();
    world.spawn(async move {
        again.sleep(wait).await;
        if let Some(place) = place {
            let vacant = again.state().processes[place].is_none();
            if vacant {
                start(&again, place);
            }
        }
        if sealer {
            crate::intent::seal_for_ever(&again);
        }
    });
    true
}

/// Tells the process on `node` to stop, as SIGTERM does. It is started again after it has ended.
fn stop(world: &World, node: NodeId) {
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
        (nodes, state.sealed.node)
    };
    world.note("power cut", None, [0, 0]);
    for node in nodes.into_iter().chain(sealer) {
        kill(world, node);
    }
}

/// Draws the faults that may strike the process in `place` at any time.
pub fn disturb(world: &World, place: usize) {
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
