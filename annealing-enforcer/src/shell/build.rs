//! The builder of an enforcer: its plugins, checks, layers and defaults.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use control_plane_runtime::Runtime;
use control_plane_store::{Store, incarnations::Incarnations, owner::ProcessId};
use futures::channel::mpsc;
use plugin_sdk::{
    AssetPlugin, CheckRequest, Diff, DiffRequest, FencingToken, Guard, PushRequest, Pushed,
    Turndown, Verdict,
    service::{Checks, Proceed, Stack, StackService, checks, stack},
};
use prodspec_model::{Message, PartitionId, TypeName, id::InvalidId};

use super::{
    ProcessLease, TERM,
    attached::FeedNumbers,
    beside::OnShutdown,
    enforcer::{Enforcer, WhileOwner},
    handle::Handle,
    into_plugin::IntoPlugin,
    phase::SharedPhase,
    pulse::Pulse,
    task_failures::TaskFailures,
};
use crate::{
    config::{Config, TypeConfig},
    registry::{Registered, Registry},
};

type Adjust = Box<dyn FnOnce(&mut TypeConfig) + Send>;

/// An asset plugin with the configuration of its type: guard, limits, deadlines.
#[must_use]
pub struct Plugin {
    plugin: Arc<dyn AssetPlugin>,
    turndown: Option<Arc<dyn Turndown>>,
    adjust: Vec<Adjust>,
}

impl Plugin {
    /// Wraps a plugin, or an `Arc` of one, with the defaults of [`TypeConfig`].
    pub fn new<Form>(plugin: impl IntoPlugin<Form>) -> Self {
        Self {
            plugin: plugin.into_plugin(),
            turndown: None,
            adjust: Vec::new(),
        }
    }

    /// Wraps a plugin that can also remove its resources.
    pub fn with_turndown(plugin: impl AssetPlugin + Turndown + Clone) -> Self {
        Self::new(plugin.clone()).turndown(plugin)
    }

    /// Sets the code that removes the resources of turned-down assets from production. Default: none, and assets of the
    /// type cannot be turned down.
    pub fn turndown(mut self, turndown: impl Turndown) -> Self {
        self.turndown = Some(Arc::new(turndown));
        self.adjust(|config| config.turndown = true)
    }

    /// Declares that the provider keeps the greatest `(token, run.n)` of each asset, diffs included, and refuses
    /// smaller ones: calls of earlier owners, and late calls of this owner.
    pub fn guarded(self) -> Self {
        self.adjust(|config| config.guard = Guard::Guarded)
    }

    /// Declares that the plugin renames resources. Its diff of an asset with the `Moved` addon also looks for the resource
    /// under the old id, and reports what it finds there; its push leaves nothing under the old id. Default: it does not,
    /// and a renamed asset is a new one and an orphan.
    pub fn renames(self) -> Self {
        self.adjust(|config| config.renames = true)
    }

    /// Declares that the plugin answers from memory, without waiting and without blocking its thread: its calls cost no
    /// task each. See [`TypeConfig::in_memory`]. Without effect where [`EnforcerBuilder::diffs`] or
    /// [`EnforcerBuilder::pushes`] put layers around it.
    pub fn in_memory(self) -> Self {
        self.adjust(|config| config.in_memory = true)
    }

    /// Diffs assets of the type, and never pushes them: the first step of onboarding.
    pub fn observe_only(self) -> Self {
        self.adjust(|config| config.observe_only = true)
    }

    /// Changes the configuration of the type, such as deadlines and limits.
    pub fn adjust(mut self, change: impl FnOnce(&mut TypeConfig) + Send + 'static) -> Self {
        self.adjust.push(Box::new(change));
        self
    }
}

/// Why an enforcer cannot be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// Two plugins are registered for one type.
    #[error("{0} has two asset plugins; register one")]
    Twice(TypeName),
    /// The name of a registered type is invalid.
    #[error("an asset plugin is registered for a type with an invalid name")]
    Type(#[from] InvalidId),
    /// Two checks of the stack have the same name.
    #[error(transparent)]
    Checks(#[from] checks::Error),
}

/// An enforcer under construction. See [`Enforcer::builder`].
#[must_use]
pub struct EnforcerBuilder<R> {
    runtime: R,
    partition: PartitionId,
    store: Arc<dyn Store>,
    incarnations: Option<Arc<Incarnations<dyn Store>>>,
    process_lease: Option<ProcessLease<R>>,
    term: Duration,
    process: Option<ProcessId>,
    config: Config,
    plugins: Vec<(Result<TypeName, InvalidId>, Plugin)>,
    diffs: Option<DiffStack>,
    pushes: Option<PushStack>,
    checks: Checks,
    while_owner: BTreeMap<&'static str, (WhileOwner<R>, OnShutdown)>,
}

type DiffStack = Box<dyn FnOnce(Registry) -> Stack<DiffRequest, Diff> + Send>;
type PushStack = Box<dyn FnOnce(Registry) -> Stack<PushRequest, Pushed> + Send>;

impl<R: Runtime> Enforcer<R> {
    /// Begins to build an enforcer of `partition`, whose incarnations and records are in `store`.
    pub fn builder(
        runtime: R,
        partition: PartitionId,
        store: Arc<dyn Store>,
    ) -> EnforcerBuilder<R> {
        EnforcerBuilder {
            runtime,
            partition,
            store,
            incarnations: None,
            process_lease: None,
            term: TERM,
            process: None,
            config: Config::default(),
            plugins: Vec::new(),
            diffs: None,
            pushes: None,
            checks: Checks::default(),
            while_owner: BTreeMap::new(),
        }
    }
}

impl<R: Runtime> EnforcerBuilder<R> {
    /// Shares the heartbeat `process_lease` with other enforcers of this process. Default: a heartbeat of its own.
    pub fn process_lease(mut self, process_lease: ProcessLease<R>) -> Self {
        self.process_lease = Some(process_lease);
        self
    }

    /// Reads intent through `incarnations`, so that incarnations loaded by other users of it in this process are
    /// shared. Default: a reader of its own.
    pub fn incarnations(mut self, incarnations: Arc<Incarnations<dyn Store>>) -> Self {
        self.incarnations = Some(incarnations);
        self
    }

    /// Sets the time without a heartbeat after which other processes take over. Default [`TERM`]; must be the same for
    /// all processes. Without effect on a heartbeat given with [`EnforcerBuilder::process_lease`].
    pub fn lease_term(mut self, term: Duration) -> Self {
        self.term = term;
        self
    }

    /// Sets the name of this process. Must be new with every start. Default: a random name. Without effect on a
    /// heartbeat given with [`EnforcerBuilder::process_lease`].
    pub fn process_id(mut self, process: ProcessId) -> Self {
        self.process = Some(process);
        self
    }

    /// Sets the configuration of the partition: periods, ages, deadlines. Default: [`Config::default`].
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// Registers the plugin of the assets whose payload is a `T`.
    pub fn asset_plugin<T: Message>(self, plugin: impl Into<Plugin>) -> Self {
        self.asset_plugin_named(T::type_name(), plugin)
    }

    /// As [`EnforcerBuilder::asset_plugin`], for a type that is known by name only. An invalid name is reported by
    /// [`EnforcerBuilder::build`].
    pub fn asset_plugin_named(
        mut self,
        name: Result<TypeName, InvalidId>,
        plugin: impl Into<Plugin>,
    ) -> Self {
        self.plugins.push((name, plugin.into()));
        self
    }

    /// Puts layers around every diff. `layers` gets the service that calls the plugins and returns the service to use.
    pub fn diffs<S: StackService<DiffRequest, Diff>>(
        mut self,
        layers: impl FnOnce(Registry) -> S + Send + 'static,
    ) -> Self {
        self.diffs = Some(Box::new(|base| stack(layers(base))));
        self
    }

    /// Puts layers around every push. `layers` gets the service that calls the plugins and returns the service to use.
    pub fn pushes<S: StackService<PushRequest, Pushed>>(
        mut self,
        layers: impl FnOnce(Registry) -> S + Send + 'static,
    ) -> Self {
        self.pushes = Some(Box::new(|base| stack(layers(base))));
        self
    }

    /// Sets the checks that every push has to pass. Default: none. The layers are applied inside `layers`, so that the
    /// names of the checks are known: see [`Checks::assemble`].
    pub fn checks<S: StackService<CheckRequest, Verdict>>(
        self,
        layers: impl FnOnce(Proceed) -> S,
    ) -> Self {
        self.assembled_checks(Checks::assemble(layers))
    }

    /// As [`EnforcerBuilder::checks`], for a stack that was assembled before.
    pub fn assembled_checks(mut self, checks: Checks) -> Self {
        self.checks = checks;
        self
    }

    /// Runs `task` beside each ownership of the partition, with its fencing token and a handle to this enforcer. The
    /// task is dropped when the ownership ends. Use it for work that only the owner may do, such as generating the
    /// partition's intent. A task that panics is started again, and [`Handle::task_failures`] reports it.
    pub fn while_owner<F>(
        self,
        task: impl Fn(FencingToken, Handle<R>) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.beside("the task beside enforcement", task)
    }

    /// As [`EnforcerBuilder::while_owner`], for one of several tasks, each with a unique `name`: a task that panics
    /// does not disturb the others. A second task with the same name replaces the first.
    pub fn beside<F>(
        mut self,
        name: &'static str,
        task: impl Fn(FencingToken, Handle<R>) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.run_beside(name, task, OnShutdown::Ends);
        self
    }

    /// As [`EnforcerBuilder::beside`], for a task that makes calls of its own, which a shutdown must not cut off. It gets
    /// [`FeedItem::Drains`](plugin_sdk::FeedItem::Drains) and ends by itself; it is waited for as pushes are.
    pub fn beside_until_drained<F>(
        mut self,
        name: &'static str,
        task: impl Fn(FencingToken, Handle<R>) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.run_beside(name, task, OnShutdown::Drains);
        self
    }

    fn run_beside<F>(
        &mut self,
        name: &'static str,
        task: impl Fn(FencingToken, Handle<R>) -> F + Send + Sync + 'static,
        on_shutdown: OnShutdown,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        let task: WhileOwner<R> = Arc::new(move |token, handle| Box::pin(task(token, handle)));
        self.while_owner.insert(name, (task, on_shutdown));
    }

    /// Builds the enforcer. It does nothing before [`Enforcer::run`].
    ///
    /// # Errors
    /// When a type is registered twice or has an invalid name, or two checks have one name.
    pub fn build(self) -> Result<Enforcer<R>, BuildError> {
        self.checks.validate()?;
        let mut all: Vec<Registered> = Vec::new();
        for (name, plugin) in self.plugins {
            let mut config = TypeConfig::new(name?);
            if all.iter().any(|known| known.config.name == config.name) {
                return Err(BuildError::Twice(config.name));
            }
            plugin
                .adjust
                .into_iter()
                .for_each(|change| change(&mut config));
            all.push(Registered {
                config,
                plugin: plugin.plugin,
                turndown: plugin.turndown,
            });
        }
        let registry = Registry::new(all);
        let (sender, inputs) = mpsc::unbounded();
        let process_lease = self.process_lease.unwrap_or_else(|| {
            let process = self.process.unwrap_or_else(random_name);
            ProcessLease::join(self.runtime.clone(), self.store.clone(), process, self.term)
        });
        let incarnations = self.incarnations.unwrap_or_else(|| {
            Arc::new(Incarnations::new(
                self.store.clone(),
                self.partition.clone(),
            ))
        });
        Ok(Enforcer {
            runtime: self.runtime,
            partition: self.partition,
            store: self.store,
            incarnations,
            process_lease,
            config: Config {
                checks: self.checks.names().to_vec(),
                ..self.config
            },
            diffs: self.diffs.map(|layers| layers(registry.clone())),
            pushes: self.pushes.map(|layers| layers(registry.clone())),
            registry,
            checks: self.checks,
            while_owner: self.while_owner,
            task_failures: TaskFailures::default(),
            pulse: Pulse::default(),
            phase: SharedPhase::default(),
            feeds: FeedNumbers::default(),
            inputs,
            sender,
        })
    }
}

impl<P: AssetPlugin> From<P> for Plugin {
    fn from(plugin: P) -> Self {
        Self::new(plugin)
    }
}

fn random_name() -> ProcessId {
    let id = control_plane_store::BatchId::fresh();
    format!("process-{:032x}", id.0).as_str().into()
}

impl std::fmt::Debug for Plugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plugin").finish_non_exhaustive()
    }
}

impl<R> std::fmt::Debug for EnforcerBuilder<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EnforcerBuilder")
            .field("partition", &self.partition)
            .finish_non_exhaustive()
    }
}
