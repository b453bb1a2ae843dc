//! The real strategist of each owner, with its stack of policies and its health validator.

use std::{sync::Arc, time::Duration};

use annealing_enforcer::EnforcerBuilder;
use annealing_strategist::{Config, Strategist};
use control_plane_store::{Store, incarnations::Incarnations};
use plugin_sdk::{AssetType, AssetTypes, service::HealthLayer};
use prodspec_model::Message;
use serde::{Deserialize, Serialize};

use crate::{
    executor::{NodeId, NodeRuntime},
    health,
    intent::{Payload, number, partition, policy_number},
    policies::policies,
    store::ProcessStore,
    world::{State, World},
};

/// The wait before a strategist that has ended is started again.
const AGAIN: Duration = Duration::from_secs(1);

/// Adds a strategist to an enforcer; it runs for as long as the process owns the partition.
pub fn beside(
    world: &World,
    node: NodeId,
    builder: EnforcerBuilder<NodeRuntime>,
    incarnations: Arc<Incarnations<dyn Store>>,
) -> EnforcerBuilder<NodeRuntime> {
    let runtime = NodeRuntime::new(world.executor.clone(), node);
    let store = ProcessStore::open(world, node);
    let errors = health::Errors::new(world);
    let strategist = Strategist::builder(runtime, partition(), store, incarnations)
        .types(types())
        .config(config(world))
        .rollouts(|_| policies(world))
        .health(|base| {
            tower::ServiceBuilder::new()
                .layer(HealthLayer::new(errors))
                .service(base)
        })
        .build();
    let world = world.clone();
    builder.while_owner(move |_, enforcement| {
        let (world, strategist) = (world.clone(), strategist.clone());
        async move {
            loop {
                let (attached, handle) = strategist.attach(Arc::new(enforcement.clone()));
                world.state().answers(node, Some(handle));
                attached.run().await;
                world.state().answers(node, None);
                world.sleep(AGAIN).await;
            }
        }
    })
}

fn config(world: &World) -> Config {
    #[cfg(feature = "planted-bugs")]
    annealing_strategist::kernel::plant(world.state().scenario.planted_in_rollouts);
    let _ = world;
    Config::default()
        .validate_every(Duration::from_secs(7))
        .validate_deadline(Duration::from_secs(5))
        .select_deadline(Duration::from_secs(5))
        .select_again(Duration::from_secs(3))
        .unknown_deadline(Duration::from_secs(60))
        .remember_every(Duration::from_secs(10))
        .max_moves_per_step(3)
        .head_lag(8)
}

macro_rules! kinds {
    ($($name:ident)*) => {
        $(
            #[derive(Serialize, Deserialize)]
            #[serde(transparent)]
            struct $name(Payload);

            impl Message for $name {
                const TYPE: &'static str = concat!("simulation.v1.", stringify!($name));
            }
        )*

        /// The asset types, each with the capacities that an asset has and uses.
        fn types() -> AssetTypes {
            let mut types = AssetTypes::default();
            $(types.add(AssetType::<$name>::new().capacity(|it| it.0.capacity()));)*
            types
        }
    };
}

kinds! { Guarded Advisory Gradual }

impl State {
    /// Handle of the strategist on `node`; `None` if the process is down or does not own the partition.
    pub fn rollouts_of(&self, node: NodeId) -> Option<annealing_strategist::Handle<NodeRuntime>> {
        let mut processes = self.processes.iter().flatten();
        let process = processes.find(|process| process.node == node)?;
        process.rollouts.clone()
    }

    /// Describes the state of all rollouts, in lines for people who read a violation.
    pub fn rollouts_told(&self) -> Vec<String> {
        let wishes = self.plan.wishes.iter().enumerate();
        let pool = wishes.filter(|(_, wish)| wish.pool);
        let groups: Vec<_> = pool.map(|(at, wish)| (at, wish.group)).collect();
        let mut lines = vec![format!("groups: {groups:?}")];
        for view in &self.views {
            let group = policy_number(number(view.policy.as_str()));
            let policy = group.map(|group| &self.plan.groups[group].policy);
            lines.push(format!("{} head {:?} {policy:?}", view.policy, view.head));
            let entries = view.rollout.iter().flat_map(|it| &it.history);
            let entries: Vec<_> = entries.collect();
            for entry in &entries[entries.len().saturating_sub(8)..] {
                lines.push(format!("    {} {}", entry.at, entry.what));
            }
            let rollout = view.rollout.as_ref();
            let from = rollout.map(|it| (it.id.0, it.from, it.to, &it.state));
            lines.push(format!("    {from:?} left out {:?}", view.left_out));
            for target in &view.targets {
                lines.push(format!(
                    "    {} {:?} {:?}",
                    target.asset, target.domains, target.progress
                ));
            }
            for wait in &view.waits {
                lines.push(format!("    waits: {}", wait.why));
            }
        }
        for explained in &self.explained {
            for found in &explained.chain {
                lines.push(format!(
                    "  {} {:?} {:?}",
                    found.asset, found.status, found.waiting
                ));
            }
        }
        lines
    }

    /// Sets the handle of the strategist on `node`, or removes it.
    fn answers(
        &mut self,
        node: NodeId,
        rollouts: Option<annealing_strategist::Handle<NodeRuntime>>,
    ) {
        let mut processes = self.processes.iter_mut().flatten();
        if let Some(process) = processes.find(|process| process.node == node) {
            process.rollouts = rollouts;
        }
    }
}
