//! Putting an enforcer together.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::channel::mpsc;
use plane_runtime::Runtime;
use plane_store::{Store, incarnations::Incarnations, owner::ProcessId};
use plugin_sdk::{
    AssetPlugin, BoxError, CheckRequest, Diff, DiffRequest, FencingToken, Guard, PushRequest,
    Pushed, Turndown, Verdict,
    service::{Checks, Proceed, Stack, checks, stack},
};
use prodspec_model::{Message, PartitionId, TypeName, id::InvalidId};
use tower::Service;

use super::{
    Enforcer, Handle, Membership, TERM, WhileOwner, beside::Troubles, phase::SharedPhase,
    pulse::Pulse,
};
use crate::{
    config::{Config, TypeConfig},
    registry::{Registered, Registry},
};

type Adjust = Box<dyn FnOnce(&mut TypeConfig) + Send>;

/// A plugin with how its type is enforced.
#[must_use]
pub struct Plugin {
    plugin: Arc<dyn AssetPlugin>,
    turndown: Option<Arc<dyn Turndown>>,
    adjust: Vec<Adjust>,
}

impl Plugin {
    /// A plugin with the defaults of [`TypeConfig`].
    pub fn new(plugin: impl AssetPlugin) -> Self {
        Self {
            plugin: Arc::new(plugin),
            turndown: None,
            adjust: Vec::new(),
        }
    }

    /// Who takes assets of the type out of production.
    pub fn turndown(mut self, turndown: impl Turndown) -> Self {
        self.turndown = Some(Arc::new(turndown));
        self.adjust(|config| config.turndown = true)
    }

    /// The provider keeps the greatest `(token, run.n)` of each asset, diffs included, and refuses smaller ones: calls of
    /// old owners, and late ones of this owner.
    pub fn guarded(self) -> Self {
        self.adjust(|config| config.guard = Guard::Guarded)
    }

    /// The plugin answers from memory, without waiting and without blocking its thread: its calls cost no task each. See
    /// [`TypeConfig::in_memory`]. Without effect where [`EnforcerBuilder::diffs`] or [`EnforcerBuilder::pushes`] put
    /// layers around it.
    pub fn in_memory(self) -> Self {
        self.adjust(|config| config.in_memory = true)
    }

    /// Diff, never push.
    pub fn observe_only(self) -> Self {
        self.adjust(|config| config.observe_only = true)
    }

    /// Changes any of the type's numbers.
    pub fn adjust(mut self, change: impl FnOnce(&mut TypeConfig) + Send + 'static) -> Self {
        self.adjust.push(Box::new(change));
        self
    }
}

/// Why an enforcer cannot be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A type was registered twice.
    #[error("{0} has two asset plugins; register one")]
    Twice(TypeName),
    /// A type's name is invalid.
    #[error("an asset plugin is registered for a type with an invalid name")]
    Type(#[from] InvalidId),
    /// The names of checks do not tell them apart.
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
    membership: Option<Membership<R>>,
    term: Duration,
    process: Option<ProcessId>,
    config: Config,
    plugins: Vec<(Result<TypeName, InvalidId>, Plugin)>,
    diffs: Option<DiffStack>,
    pushes: Option<PushStack>,
    checks: Checks,
    while_owner: BTreeMap<&'static str, WhileOwner<R>>,
}

type DiffStack = Box<dyn FnOnce(Registry) -> Stack<DiffRequest, Diff> + Send>;
type PushStack = Box<dyn FnOnce(Registry) -> Stack<PushRequest, Pushed> + Send>;

impl<R: Runtime> Enforcer<R> {
    /// Starts an enforcer of `partition`, whose intent and memory are in `store`.
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
            membership: None,
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
    /// Shares a heartbeat with other enforcers of this process. Default: its own.
    pub fn membership(mut self, membership: Membership<R>) -> Self {
        self.membership = Some(membership);
        self
    }

    /// Reads intent through `incarnations`, which others in this process use too: what is loaded is shared. Default:
    /// its own.
    pub fn incarnations(mut self, incarnations: Arc<Incarnations<dyn Store>>) -> Self {
        self.incarnations = Some(incarnations);
        self
    }

    /// After how long without a heartbeat others take over. Default [`TERM`]; the same for all processes.
    pub fn term(mut self, term: Duration) -> Self {
        self.term = term;
        self
    }

    /// What this process is called. Must be new with every start. Default: a random name.
    pub fn process(mut self, process: ProcessId) -> Self {
        self.process = Some(process);
        self
    }

    /// Every number it goes by.
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// Registers the plugin of the assets whose payload is a `T`.
    pub fn asset_plugin<T: Message>(self, plugin: impl Into<Plugin>) -> Self {
        self.asset_plugin_named(T::type_name(), plugin)
    }

    /// As [`EnforcerBuilder::asset_plugin`], for a type known by name only.
    pub fn asset_plugin_named(
        mut self,
        name: Result<TypeName, InvalidId>,
        plugin: impl Into<Plugin>,
    ) -> Self {
        self.plugins.push((name, plugin.into()));
        self
    }

    /// Puts layers around every diff.
    pub fn diffs<S>(mut self, layers: impl FnOnce(Registry) -> S + Send + 'static) -> Self
    where
        S: Service<DiffRequest, Response = Diff, Error: Into<BoxError>, Future: Send>
            + Clone
            + Send
            + Sync
            + 'static,
    {
        self.diffs = Some(Box::new(|base| stack(layers(base))));
        self
    }

    /// Puts layers around every push.
    pub fn pushes<S>(mut self, layers: impl FnOnce(Registry) -> S + Send + 'static) -> Self
    where
        S: Service<PushRequest, Response = Pushed, Error: Into<BoxError>, Future: Send>
            + Clone
            + Send
            + Sync
            + 'static,
    {
        self.pushes = Some(Box::new(|base| stack(layers(base))));
        self
    }

    /// The checks that every push has to pass. The layers are applied inside `layers`, so that the names of the checks are
    /// known: see [`Checks::assemble`].
    pub fn checks<S>(self, layers: impl FnOnce(Proceed) -> S) -> Self
    where
        S: Service<CheckRequest, Response = Verdict, Error: Into<BoxError>, Future: Send>
            + Clone
            + Send
            + Sync
            + 'static,
    {
        self.assembled_checks(Checks::assemble(layers))
    }

    /// As [`EnforcerBuilder::checks`], for a stack that is assembled already.
    pub fn assembled_checks(mut self, checks: Checks) -> Self {
        self.checks = checks;
        self
    }

    /// Runs `task` beside each ownership of the partition, under its token and with a handle to this enforcer; it is
    /// dropped when the ownership ends. For what only the owner may do, such as generating the partition's intent.
    /// If it panics, that is told by [`Handle::troubles`], and it is started again.
    pub fn while_owner<F>(
        self,
        task: impl Fn(FencingToken, Handle<R>) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.beside("what runs beside", task)
    }

    /// As [`EnforcerBuilder::while_owner`], for one of several tasks, each with a name of its own: one that panics does
    /// not disturb the others.
    pub fn beside<F>(
        mut self,
        name: &'static str,
        task: impl Fn(FencingToken, Handle<R>) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let task: WhileOwner<R> = Arc::new(move |token, handle| Box::pin(task(token, handle)));
        self.while_owner.insert(name, task);
        self
    }

    /// Finishes the enforcer. It does nothing before [`Enforcer::run`].
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
        let membership = self.membership.unwrap_or_else(|| {
            let process = self.process.unwrap_or_else(random_name);
            Membership::join(self.runtime.clone(), self.store.clone(), process, self.term)
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
            membership,
            config: Config {
                checks: self.checks.names().to_vec(),
                ..self.config
            },
            diffs: self.diffs.map(|layers| layers(registry.clone())),
            pushes: self.pushes.map(|layers| layers(registry.clone())),
            registry,
            checks: self.checks,
            while_owner: self.while_owner,
            troubles: Troubles::default(),
            pulse: Pulse::default(),
            phase: SharedPhase::default(),
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
    let id = plane_store::BatchId::fresh();
    format!("process-{:032x}", id.0).as_str().into()
}
