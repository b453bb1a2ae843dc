//! Builds the workflows of a partition.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use control_plane_runtime::Runtime;
use control_plane_store::{Store, incarnations::Incarnations};
use plugin_sdk::{
    Dispatch, DispatchRequest, OperationFunction, Probe,
    operation::FunctionInfo,
    service::{ByCause, Stack, StackService, stack},
};
use prodspec_model::PartitionId;
use tokio::sync::watch;

use super::listener::Listener;
use crate::{
    config::Config,
    definition::Workflow,
    kernel::{Function, Settings},
};

/// The workflows of one partition and the functions that they call. One value serves all ownerships of the partition, one
/// after the other.
pub struct Workflows<R> {
    pub(crate) runtime: R,
    pub(crate) partition: PartitionId,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) incarnations: Arc<Incarnations<dyn Store>>,
    pub(crate) settings: Settings,
    pub(crate) functions: BTreeMap<Arc<str>, Arc<dyn OperationFunction>>,
    pub(crate) probes: BTreeMap<Arc<str>, Arc<dyn Probe>>,
    pub(crate) dispatch: Stack<DispatchRequest, Dispatch>,
    /// Whether its layers answer from memory.
    pub(crate) dispatch_in_memory: bool,
    pub(crate) listeners: Vec<Listener>,
    /// Changes when something was added to the feed.
    pub(crate) told: watch::Sender<()>,
}

/// Workflows under construction. See [`Workflows::builder`].
#[must_use]
pub struct WorkflowsBuilder<R>(Workflows<R>);

/// Why workflows cannot be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A workflow calls a function that is not registered.
    #[error(
        "the machine `{machine}` of the workflow `{workflow}` calls `{function}`, which is not registered; register it with `.function(..)`"
    )]
    NoFunction {
        /// Name of the workflow that has the machine.
        workflow: String,
        /// The machine that calls it.
        machine: String,
        /// The function that is missing.
        function: String,
    },
    /// A machine starts a workflow that is not registered.
    #[error(
        "the machine `{machine}` of the workflow `{workflow}` starts `{child}`, which is not registered; register it with `.workflow(..)`"
    )]
    NoWorkflow {
        /// Name of the workflow that has the machine.
        workflow: String,
        /// The machine that starts it.
        machine: String,
        /// The workflow that is missing.
        child: String,
    },
    /// A probe belongs to a function that is not registered.
    #[error(
        "the probe `{0}` belongs to no function; register the function, or leave the probe out"
    )]
    NoFunctionOfProbe(String),
    /// Two listeners have the same name, or one has a name that is no part of a key.
    #[error(
        "the name `{0}` of a listener is used twice, is empty, or has a slash; give it its own"
    )]
    Listener(String),
}

impl<R: Runtime> Workflows<R> {
    /// Starts to build the workflows of `partition`. Their records are in `store`.
    pub fn builder(
        runtime: R,
        partition: PartitionId,
        store: Arc<dyn Store>,
    ) -> WorkflowsBuilder<R> {
        WorkflowsBuilder(Self {
            runtime,
            incarnations: Arc::new(Incarnations::new(store.clone(), partition.clone())),
            partition,
            store,
            settings: Settings::default(),
            functions: BTreeMap::new(),
            probes: BTreeMap::new(),
            dispatch: stack(ByCause),
            dispatch_in_memory: false,
            listeners: Vec::new(),
            told: watch::Sender::new(()),
        })
    }

    /// Whether a function is registered under this name.
    pub fn has_function(&self, name: &str) -> bool {
        self.settings.functions.contains_key(name)
    }

    /// The function that is registered under this name. `None`: there is none.
    pub fn function(&self, name: &str) -> Option<&FunctionInfo> {
        let function = self.settings.functions.get(name)?;
        Some(&function.info)
    }
}

impl<R: Runtime> WorkflowsBuilder<R> {
    /// Registers a function under the name of its info.
    pub fn function(self, function: impl OperationFunction) -> Self {
        self.shared_function(Arc::new(function))
    }

    /// Registers a function that others share.
    pub fn shared_function(mut self, function: Arc<dyn OperationFunction>) -> Self {
        let info = function.info();
        let name = info.name.clone();
        let has_probe = self.0.probes.contains_key(&name);
        self.0
            .settings
            .functions
            .insert(name.clone(), Function { info, has_probe });
        self.0.functions.insert(name, function);
        self
    }

    /// Registers the probe of the function `name`: it finds out what a call has done whose outcome is not known.
    pub fn probe(mut self, name: &str, probe: impl Probe) -> Self {
        if let Some(function) = self.0.settings.functions.get_mut(name) {
            function.has_probe = true;
        }
        self.0.probes.insert(name.into(), Arc::new(probe));
        self
    }

    /// Registers a workflow under its name. New executions get it; live ones keep to the one that they began with.
    pub fn workflow(mut self, workflow: Workflow) -> Self {
        self.0
            .settings
            .workflows
            .insert(workflow.name().clone(), workflow);
        self
    }

    /// Sets the dispatch stack, which decides in which class a step starts, whether it waits, and what it takes. Default:
    /// the class by cause, nothing else.
    pub fn dispatch<S: StackService<DispatchRequest, Dispatch>>(
        mut self,
        layers: impl FnOnce(ByCause) -> S,
    ) -> Self {
        self.0.settings.dispatches = true;
        self.0.dispatch = stack(layers(ByCause));
        self
    }

    /// Declares that all layers of the dispatch stack answer from memory, without waiting and without blocking their
    /// thread, as those of `annealing-checks` do: they are then asked inside the loop of the workflows and cost no task. A
    /// layer that blocks nevertheless stops the loop. A question that has no answer at once is asked outside of the loop.
    /// Default: they are asked outside of the loop.
    pub fn dispatch_in_memory(mut self) -> Self {
        self.0.dispatch_in_memory = true;
        self
    }

    /// Adds a listener, which hears what executions do and starts workflows.
    pub fn listener(mut self, listener: Listener) -> Self {
        self.0.listeners.push(listener);
        self
    }

    /// Shares the incarnations of the partition with other parts of the program, so that both keep them in memory once.
    pub fn incarnations(mut self, incarnations: Arc<Incarnations<dyn Store>>) -> Self {
        self.0.incarnations = incarnations;
        self
    }

    /// Sets the numbers that workflows use. Default: [`Config::default`].
    pub fn config(mut self, config: Config) -> Self {
        self.0.settings.config = config;
        self
    }

    /// Whether neither a function nor a workflow is registered.
    pub fn is_empty(&self) -> bool {
        self.0.functions.is_empty() && self.0.settings.workflows.is_empty()
    }

    /// Finishes the workflows, ready to be attached to an ownership.
    ///
    /// # Errors
    /// When a registered workflow calls a function, or starts a workflow, that is not registered.
    pub fn build(self) -> Result<Arc<Workflows<R>>, BuildError> {
        let settings = &self.0.settings;
        for workflow in settings.workflows.values() {
            check(settings, workflow)?;
        }
        let mut names = BTreeSet::new();
        for name in self.0.listeners.iter().map(|it| &it.name) {
            if name.is_empty() || name.contains('/') || !names.insert(name) {
                return Err(BuildError::Listener(name.to_string()));
            }
        }
        match self
            .0
            .probes
            .keys()
            .find(|name| !settings.functions.contains_key(*name))
        {
            Some(name) => Err(BuildError::NoFunctionOfProbe(name.to_string())),
            None => Ok(Arc::new(self.0)),
        }
    }
}

fn check(settings: &Settings, workflow: &Workflow) -> Result<(), BuildError> {
    use plugin_sdk::workflow::Task;

    for machine in &workflow.definition().machines {
        for action in machine.actions.values() {
            match &action.task {
                Task::Call { function } if !settings.functions.contains_key(function) => {
                    return Err(BuildError::NoFunction {
                        workflow: workflow.name().to_string(),
                        machine: machine.name.to_string(),
                        function: function.to_string(),
                    });
                }
                Task::Start { workflow: child } if !settings.workflows.contains_key(child) => {
                    return Err(BuildError::NoWorkflow {
                        workflow: workflow.name().to_string(),
                        machine: machine.name.to_string(),
                        child: child.to_string(),
                    });
                }
                _ => {}
            }
        }
    }
    Ok(())
}

impl<R> std::fmt::Debug for Workflows<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Workflows")
            .field("partition", &self.partition)
            .field("workflows", &self.settings.workflows.keys())
            .field("functions", &self.functions.keys())
            .finish_non_exhaustive()
    }
}

impl<R> std::fmt::Debug for WorkflowsBuilder<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("WorkflowsBuilder").field(&self.0).finish()
    }
}
