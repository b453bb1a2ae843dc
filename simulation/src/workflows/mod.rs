//! The real workflows of each owner, with people who start executions and functions that act on a simulated provider.
//!
//! The judge observes the provider's ledger of effects, true time and the durable rows of the store. It evaluates guards
//! and ends from the definitions as data, and never asks the engine.
//!
//! - `source`: what executions edit. `edits`: the way to it. `schedules`: slots. `watches`: runs of watches. `provider`: the ledger, and the calls
//!   that travel to it. The workflows, and what the judge knows, are in `flows`.
//! - `people`: starts, answers and other words. `call`, `commit`: what the judge checks at each call, and after each
//!   commit. `stored`: the durable rows of an execution.

mod call;
mod commit;
mod edits;
mod people;
mod provider;
mod schedules;
mod source;
mod stored;
mod watches;

use std::{sync::Arc, time::Duration};

use annealing_checks::dispatch::{ClaimLayer, Work};
use annealing_enforcer::EnforcerBuilder;
use annealing_workflow::{Config, End, Handle, Workflows};

pub use people::{begin, order};

use self::{edits::Port, provider::Caller};
use crate::{
    executor::{NodeId, NodeRuntime},
    faults::Fault,
    flows::definitions::{FUNCTIONS, PRINT, PUBLISH, newer, workflows},
    intent::partition,
    store::ProcessStore,
    world::{State, World},
};

/// The wait before a lane that has ended is started again.
const AGAIN: Duration = Duration::from_secs(1);

/// Adds the workflows to an enforcer; they run for as long as the process owns the partition.
pub fn beside(
    world: &World,
    node: NodeId,
    builder: EnforcerBuilder<NodeRuntime>,
) -> EnforcerBuilder<NodeRuntime> {
    if world.state().scenario.executions == 0 {
        return builder;
    }
    let Some(workflows) = lane(world, node) else {
        return builder;
    };
    let world = world.clone();
    builder.beside_until_drained("workflows", move |token, enforcement| {
        let (world, workflows) = (world.clone(), workflows.clone());
        async move {
            loop {
                world.state().owner_begins(token.0);
                let (attached, handle) = workflows.attach(token, Arc::new(enforcement.clone()));
                let attached = attached.with_edits(Arc::new(Port::new(&world, node, token.0)));
                world.state().lane_is(node, Some(handle));
                let end = attached.run().await;
                world.state().lane_is(node, None);
                if end == End::Drained {
                    return;
                }
                world.sleep(AGAIN).await;
            }
        }
    })
}

fn lane(world: &World, node: NodeId) -> Option<Arc<Workflows<NodeRuntime>>> {
    let runtime = NodeRuntime::new(world.executor.clone(), node);
    let mut builder = Workflows::builder(runtime, partition(), ProcessStore::open(world, node))
        .config(config(world))
        .dispatch(|base| {
            tower::ServiceBuilder::new()
                .layer(ClaimLayer::exclusive("press", Work::of_function(PRINT)))
                .service(base)
        });
    for function in &FUNCTIONS {
        builder = builder.function(Caller::new(world, node, function));
    }
    builder = builder.probe(PUBLISH, Caller::new(world, node, &FUNCTIONS[0]));
    // Every other process is of a newer program.
    let workflows: Vec<_> = match node.0.is_multiple_of(2) {
        true => workflows().iter().collect(),
        false => newer().collect(),
    };
    let all = workflows.into_iter().cloned();
    all.fold(builder, |builder, workflow| builder.workflow(workflow))
        .build()
        .ok()
}

fn config(world: &World) -> Config {
    let mut config = Config::default();
    config.backoff_cap = Duration::from_secs(30);
    #[cfg(feature = "planted-bugs")]
    let config = config.planted(world.state().scenario.planted_in_workflows);
    let _ = world;
    config
}

impl State {
    /// Sets the handle of the lane on `node`, or removes it.
    fn lane_is(&mut self, node: NodeId, lane: Option<Handle<NodeRuntime>>) {
        let mut processes = self.processes.iter_mut().flatten();
        if let Some(process) = processes.find(|process| process.node == node) {
            process.lane = lane;
        }
    }

    /// The workflows of a process that owns the partition begin.
    fn owner_begins(&mut self, token: u64) {
        if token > self.flows.owner {
            self.flows.owner = token;
        }
    }

    /// Draws whether a fault of workflows strikes now, and counts it if so.
    fn flow_strikes(&mut self, fault: Fault) -> bool {
        let rate = self.scenario.rates.of(fault);
        let strikes = !self.healed && self.flows.random.per_mille(rate);
        if strikes {
            *self.struck.entry(fault).or_default() += 1;
        }
        strikes
    }
}
