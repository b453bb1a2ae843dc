//! A control plane on a node: its start, its crashes and its restarts.

use std::time::Duration;

use control_plane::{
    ControlPlane,
    enforcer::{Config, Plugin},
    generation::validators,
    sdk::service::{CheckLayer, HealthLayer},
    store::{
        Store as _,
        memory::{Point, Rates},
        owner::ProcessId,
    },
    strategist,
};
use futures::future::BoxFuture;
use tower::ServiceBuilder;

use super::{
    manifest::{Model, Service},
    plugin::{Freeze, Provider, Seen},
    source::Source,
    world::{Process, World},
};
use crate::executor::{NodeId, NodeRuntime};

/// Name of the partition.
pub(super) const PARTITION: &str = "changes";

/// Prepares the store, and starts the first process.
pub(super) fn begin(world: &World) {
    let (store, faults, seed) = {
        let mut state = world.state();
        (state.store.clone(), state.faults, state.random.bits())
    };
    let rates = Rates {
        unavailable: faults * 100,
        unknown: faults * 100,
        ..Rates::default()
    };
    store.set_faults(rates.seeded(seed));
    let at = world.clone();
    store.set_pause(move |point| at_point(&at, point));
    start(world);
}

/// Runs at each point of each operation of the store: it takes time, and the process may die there.
fn at_point(world: &World, point: Point) -> BoxFuture<'static, ()> {
    let node = world.executor.current();
    let deadly = node != NodeId::WORLD && point != Point::BeforeRead;
    let (dies, latency) = {
        let mut state = world.state();
        let most = Duration::from_millis(3);
        let latency = state.random.between(Duration::ZERO, most);
        // A run has thousands of these points.
        let dies = deadly && state.strikes(1) && state.random.per_mille(50);
        (dies, latency)
    };
    if dies && kill(world, node) {
        return Box::pin(futures::future::pending());
    }
    Box::pin(world.executor.sleep(latency))
}

/// Starts the process on a node of its own.
pub(super) fn start(world: &World) {
    let (node, seed, id) = {
        let mut state = world.state();
        let node = world.executor.boot(&mut state.random, 0);
        let seed = state.random.bits();
        (node, seed, format!("process-{}", node.0))
    };
    let Some(plane) = build(world, node, seed, &id) else {
        return;
    };
    let handle = plane.handle();
    world.state().process = Some(Process { node, handle });
    let ends = world.clone();
    let run = async move {
        // It ends only if the store refuses it: then it is started again.
        drop(plane.run(futures::future::pending()).await);
        let again = ends.clone();
        ends.spawn(async move {
            kill(&again, node);
        });
    };
    world.executor.spawn(node, Box::pin(run));
}

fn build(world: &World, node: NodeId, seed: u64, id: &str) -> Option<ControlPlane<NodeRuntime>> {
    let runtime = NodeRuntime::new(world.executor.clone(), node);
    let store = world.state().store.other();
    let health = HealthLayer::new(Seen(world.clone()));
    let freeze = Freeze(world.clone());
    let times = if world.state().is_calm { 10 } else { 1 };
    let rollouts = strategist::Config::default()
        .validate_every(Duration::from_secs(7) * times)
        .select_again(Duration::from_secs(3) * times)
        .remember_every(Duration::from_secs(10) * times)
        .unknown_deadline(Duration::from_secs(60) * times)
        .max_moves_per_step(3);
    let config = Config::default()
        .drift_period(Duration::from_secs(60) * times)
        .backoff_cap(Duration::from_secs(60))
        .seed(seed);
    let plane = ControlPlane::builder_on(runtime, PARTITION)
        .store(store)
        .process_id(ProcessId::from(id))
        .editable(Source(world.clone()))
        .generator(Model)
        .validators(validators::standard())
        .asset_plugin::<Service>(Plugin::new(Provider(world.clone())))
        .config(config)
        .rollout_config(rollouts)
        .checks(|base| {
            ServiceBuilder::new()
                .layer(CheckLayer::new(freeze))
                .service(base)
        })
        .health(|healthy| ServiceBuilder::new().layer(health).service(healthy))
        .build();
    match plane {
        Ok(plane) => Some(plane),
        Err(error) => {
            world.state().violated("builder", error.to_string());
            world.verdict();
            None
        }
    }
}

/// Kills the process on `node` and starts it again some time later. Returns false if it does not run there.
pub(super) fn kill(world: &World, node: NodeId) -> bool {
    let wait = {
        let mut state = world.state();
        if state.process.as_ref().is_none_or(|it| it.node != node) {
            return false;
        }
        state.process = None;
        state.count("kill");
        let most = if state.healed { 2 } else { 30 };
        let (least, most) = (Duration::from_millis(100), Duration::from_secs(most));
        state.random.between(least, most)
    };
    world.executor.kill(node);
    let again = world.clone();
    world.spawn(async move {
        again.sleep(wait).await;
        start(&again);
    });
    true
}

/// Kills the process, and loses the writes that the store has not synced.
pub(super) fn power_cut(world: &World) {
    let node = {
        let mut state = world.state();
        state.store = state.store.crash();
        state.process.as_ref().map(|it| it.node)
    };
    if let Some(node) = node {
        kill(world, node);
    }
}

/// Ends all faults.
pub(super) fn heal(world: &World) {
    let store = {
        let mut state = world.state();
        state.healed = true;
        state.store.heal();
        state.store.clone()
    };
    let world = world.clone();
    world.clone().spawn(async move {
        // It may be poisoned, which only opening it again ends.
        if store.get(&["probe".into()]).await.is_err() {
            power_cut(&world);
        }
    });
}
