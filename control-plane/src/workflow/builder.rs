//! The methods of the builder for workflows: functions, workflows, listeners, dispatch. Beside them, how the builder
//! declares operations and runs executions.

use std::{sync::Arc, time::Duration};

use annealing_enforcer::{EnforcerBuilder, Plugin};
use annealing_workflow::{
    Config, Executions, Listener, WorkflowsBuilder, bridge::OperationPlugin, definition::Workflow,
};
use control_plane_runtime::Runtime;
use plugin_sdk::{
    AssetPlugin, Dispatch, DispatchRequest, OperationFunction, Probe, Turndown,
    service::{ByCause, StackService},
};
use prodspec_gen::pipeline;
use prodspec_model::{
    Message,
    operation::{CronOperation, Limits, Operation, WatchOperation},
};

use super::{Operations, while_owner};
use crate::{
    builder::{ControlPlaneBuilder, own},
    lanes::Lanes,
    shared::Shared,
};

/// Time that the run of a workflow may take before the push that waits for it counts as failed. The run goes on then.
const RUN: Duration = Duration::from_secs(24 * 3600);

/// Workflows. Needs the feature `workflows`.
impl<R: Runtime> ControlPlaneBuilder<R> {
    /// Registers a plugin whose push runs a workflow, such as [`WorkflowPlugin`](crate::workflow::WorkflowPlugin) or
    /// [`FreshPlugin`](crate::workflow::FreshPlugin), for the assets whose payload is a `T`. It is also their turndown,
    /// counts as guarded, because the lane takes no call of an old owner, and a push of it may take 24 hours.
    pub fn bridge<T: Message, P: AssetPlugin + Turndown + Clone>(
        self,
        plugin: impl FnOnce(Executions<R>) -> P,
    ) -> Self {
        let plugin = Plugin::with_turndown(plugin(self.executions()));
        let plugin = plugin.guarded();
        self.asset_plugin::<T>(plugin.adjust(|config| config.push_total = RUN))
    }

    /// Registers a function under the name of its info, for workflows to call.
    pub fn function(self, function: impl OperationFunction) -> Self {
        self.lanes(|builder| builder.function(function))
    }

    /// Registers the probe of the function `name`: it finds out what a call has done whose outcome is not known.
    pub fn probe(self, name: &str, probe: impl Probe) -> Self {
        let name = name.to_owned();
        self.lanes(move |builder| builder.probe(&name, probe))
    }

    /// Registers a workflow under its name. New executions get it; live ones keep to the one that they began with.
    pub fn workflow(self, workflow: Workflow) -> Self {
        self.lanes(|builder| builder.workflow(workflow))
    }

    /// Adds a listener, which hears what executions do and starts workflows: notices, and what follows from an end.
    pub fn listener(self, listener: Listener) -> Self {
        self.lanes(|builder| builder.listener(listener))
    }

    /// The executions of the control plane under construction, for plugins and checks that run workflows: they are
    /// registered before anything runs.
    pub fn executions(&self) -> Executions<R> {
        self.lanes.executions.clone()
    }

    /// Sets in which class a step of a workflow starts, whether it waits, and what it takes, as a tower stack around a
    /// service that decides by cause alone.
    pub fn dispatch<S: StackService<DispatchRequest, Dispatch>>(
        self,
        layers: impl FnOnce(ByCause) -> S,
    ) -> Self {
        let stack = layers(ByCause);
        self.lanes(|builder| builder.dispatch(|_| stack))
    }

    /// Declares that all layers of [`dispatch`](Self::dispatch) answer from memory, without waiting and without blocking
    /// their thread. See [`WorkflowsBuilder::dispatch_in_memory`].
    pub fn dispatch_in_memory(self) -> Self {
        self.lanes(WorkflowsBuilder::dispatch_in_memory)
    }

    /// Sets limits and timings of workflows.
    pub fn workflow_config(self, config: Config) -> Self {
        self.lanes(|builder| builder.config(config))
    }

    fn lanes(
        mut self,
        change: impl FnOnce(WorkflowsBuilder<R>) -> WorkflowsBuilder<R> + Send + 'static,
    ) -> Self {
        self.lanes.push(change);
        self
    }
}

/// Declares schedules, watches and limits, and refuses those that cannot run.
pub(crate) fn declare<R: Runtime>(
    pipeline: pipeline::Builder,
    lanes: &Lanes<R>,
) -> pipeline::Builder {
    pipeline
        .asset_type(own::<CronOperation>().modelled_only())
        .asset_type(own::<WatchOperation>().modelled_only())
        .asset_type(own::<Limits>().modelled_only())
        .validator(Operations(lanes.workflows.clone()))
}

/// Adds the plugin of operations, unless the builder has one.
pub(crate) fn with_operations<R: Runtime>(
    builder: ControlPlaneBuilder<R>,
) -> ControlPlaneBuilder<R> {
    match builder.types.contains_key(Operation::TYPE) {
        true => builder,
        false => builder
            .bridge::<Operation, _>(OperationPlugin::new)
            .asset_type(own::<Operation>()),
    }
}

/// Runs executions beside an enforcer.
pub(crate) fn beside<R: Runtime>(
    enforcer: EnforcerBuilder<R>,
    shared: Arc<Shared<R>>,
) -> EnforcerBuilder<R> {
    enforcer.beside_until_drained("workflows", move |token, enforcement| {
        while_owner(shared.clone(), token, enforcement)
    })
}
