//! Enforcer processes with the real shell, kernel, checks and ownership, from their start to their end.

use std::{sync::Arc, time::Duration};

use annealing_enforcer::{AskError, Config, Enforcer, Handle, Plugin, TypeConfig};
use control_plane_store::{Store, incarnations::Incarnations};
use futures::{StreamExt, channel::mpsc};
use prodspec_model::{AssetId, TypeName};

use crate::{
    checks::checks,
    deadlines::{DIFF, PUSH, TERM},
    executor::{NodeId, NodeRuntime},
    faults::Fault,
    halt::{kill, power_cut},
    intent::{Kind, partition},
    people::words,
    plugin::Network,
    rollouts,
    store::ProcessStore,
    workflows,
    world::{Process, World},
};

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
        let config = Config::default()
            .observe_only(state.strikes(Fault::Observes))
            .drift_period(state.scenario.drift_period)
            .backoff_cap(state.scenario.drift_period)
            .breaker_failures(6)
            .seed(seed);
        #[cfg(feature = "planted-bugs")]
        let config = config.planted(state.scenario.planted);
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
        lane: None,
        again: start,
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
    let store = ProcessStore::open(world, node);
    let incarnations = Arc::new(Incarnations::new(store.clone(), partition()));
    let mut builder = Enforcer::builder(runtime, partition(), store)
        .incarnations(incarnations.clone())
        .process_id(format!("process-{}", node.0).as_str().into())
        .lease_term(TERM)
        .config(config)
        .checks(|_| checks(world, node));
    builder = rollouts::beside(world, node, builder, incarnations);
    builder = workflows::beside(world, node, builder);
    for kind in Kind::ENFORCED {
        let network = Network {
            world: world.clone(),
            node,
        };
        let plugin = Plugin::new(network.clone()).renames();
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
