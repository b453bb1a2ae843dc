//! The builder of a control plane, with a method for each part.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use annealing_enforcer::{Config, EnforcerBuilder, Plugin};
use annealing_strategist::{StrategistBuilder, policy::NoStall};
use control_plane_runtime::{Runtime, TokioRuntime};
use control_plane_store::{Store, owner::ProcessId};
use plugin_sdk::{
    AddonType, AssetType, Blobs, CheckRequest, EditTemplate, EditableSource, Generator, Health,
    HealthRequest, MetricSource, SelectRequest, Selection, SignalSource, SourceOfTruth, Sources,
    Validator, Verdict,
    service::{AllTargets, Checks, Healthy, Proceed, StackService},
};
use prodspec_gen::pipeline;
use prodspec_model::{Message, PartitionId, SourceName, TypeName, id::InvalidId};
use serde::de::DeserializeOwned;

use crate::{lanes::LanesBuilder, plane::ControlPlane, shared::Templates};

/// Number of newest incarnations that are kept by default.
const KEEP: usize = 100;

type Generation = Box<dyn FnOnce(pipeline::Builder) -> pipeline::Builder + Send>;
type Strategy<R> = Box<dyn FnOnce(StrategistBuilder<R>) -> StrategistBuilder<R> + Send>;
type Stored =
    Box<dyn FnOnce(pipeline::Builder, &Arc<dyn Store>, &PartitionId) -> pipeline::Builder + Send>;
type Enforcement<R> = Box<dyn FnOnce(EnforcerBuilder<R>) -> EnforcerBuilder<R> + Send>;

/// Reason why a control plane cannot be built from its parts.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// `build` was called outside a tokio runtime.
    #[error("a control plane must be built inside a tokio runtime; call `build` in async code")]
    NoRuntime,
    /// No store was given to the builder.
    #[error("a control plane needs a store; add one with `.store(SqliteStore::open(\"state\")?)`")]
    NoStore,
    /// The name of the partition is invalid.
    #[error(transparent)]
    Partition(#[from] InvalidId),
    /// Sources, generators and validators do not fit together.
    #[error(transparent)]
    Pipeline(#[from] pipeline::Error),
    /// Asset plugins and checks do not fit together.
    #[error(transparent)]
    Enforcer(#[from] annealing_enforcer::BuildError),
    /// A workflow calls a function that is not registered, or starts a workflow that is not. Needs the feature `workflows`.
    #[cfg(feature = "workflows")]
    #[error(transparent)]
    Workflow(#[from] annealing_workflow::BuildError),
    /// A type has neither a plugin nor is it declared as modelled only, so its assets would not be enforced.
    #[error(
        "assets of type {0} have no plugin; register one with asset_plugin, or declare the type modelled_only"
    )]
    NoPlugin(String),
    /// A type is declared as modelled only, and has a plugin that would never be called.
    #[error("type {0} is declared modelled_only and has a plugin; remove one of the two")]
    ModelledOnly(String),
}

/// Builder of a control plane. Created by [`ControlPlane::builder`] and finished by [`build`](Self::build).
///
/// A store, at least one source and a generator are required; see the [crate's example](crate).
#[must_use]
pub struct ControlPlaneBuilder<R = TokioRuntime> {
    pub(crate) runtime: Option<R>,
    pub(crate) partition: String,
    pub(crate) store: Option<Arc<dyn Store>>,
    pub(crate) keep: usize,
    /// Each type that was mentioned, and whether it has a plugin.
    pub(crate) types: BTreeMap<Arc<str>, bool>,
    /// Sources that are in the store of the control plane.
    pub(crate) stored: Vec<Stored>,
    /// Declarations that follow from plugins. Explicit ones are applied after them and take precedence.
    pub(crate) implied: Vec<Generation>,
    pub(crate) generation: Vec<Generation>,
    pub(crate) enforcement: Vec<Enforcement<R>>,
    pub(crate) strategy: Vec<Strategy<R>>,
    pub(crate) lanes: LanesBuilder<R>,
    pub(crate) no_stall: NoStall,
    pub(crate) sources: Sources,
    pub(crate) checks: Checks,
    pub(crate) templates: Templates,
}

impl ControlPlane {
    /// Starts to build the control plane of the partition named `partition`, on the tokio runtime of the caller.
    ///
    /// The name is checked by [`build`](ControlPlaneBuilder::build): 1 to 63 lower-case letters, digits and hyphens,
    /// with a letter or digit first and last.
    pub fn builder(partition: &str) -> ControlPlaneBuilder {
        let inside = tokio::runtime::Handle::try_current().is_ok();
        ControlPlaneBuilder::on(inside.then(TokioRuntime::current), partition)
    }
}

impl<R: Runtime> ControlPlane<R> {
    /// Same as [`ControlPlane::builder`], but with time and tasks from `runtime`.
    pub fn builder_on(runtime: R, partition: &str) -> ControlPlaneBuilder<R> {
        ControlPlaneBuilder::on(Some(runtime), partition)
    }
}

impl<R: Runtime> ControlPlaneBuilder<R> {
    fn on(runtime: Option<R>, partition: &str) -> Self {
        Self {
            runtime,
            partition: partition.to_owned(),
            store: None,
            keep: KEEP,
            types: BTreeMap::new(),
            stored: Vec::new(),
            implied: Vec::new(),
            generation: Vec::new(),
            enforcement: Vec::new(),
            strategy: Vec::new(),
            lanes: LanesBuilder::default(),
            no_stall: NoStall::standard(),
            sources: Sources::default(),
            checks: Checks::default(),
            templates: Templates::new(),
        }
    }

    /// Sets the store for incarnations, decisions and everything else durable. Required.
    ///
    /// A directory belongs to one process at a time: [`SqliteStore::open`](control_plane_store_sqlite::SqliteStore::open)
    /// refuses one that another process has open, [`open_wait`](control_plane_store_sqlite::SqliteStore::open_wait) waits until
    /// it is free.
    pub fn store(mut self, store: impl Store) -> Self {
        self.store = Some(Arc::new(store));
        self
    }

    /// Adds a source of truth. At least one is required, and each needs a name of its own.
    pub fn source(self, source: impl SourceOfTruth) -> Self {
        self.generation(|builder| builder.source(source))
    }

    /// Adds a source of truth whose fields programs may change, with [`Handle::edit`](crate::Handle::edit).
    pub fn editable(self, source: impl EditableSource) -> Self {
        self.generation(|builder| builder.editable(source))
    }

    /// Adds a table in the store of the control plane as a source of truth. Programs change it, with
    /// [`Handle::edit`](crate::Handle::edit). Needs the feature `files`.
    #[cfg(feature = "files")]
    pub fn table(mut self, name: &str) -> Self {
        let name = name.to_owned();
        self.stored.push(Box::new(move |builder, store, partition| {
            let table = prodspec_gen::Table::new(&name, store.clone(), partition.clone());
            builder.table(table)
        }));
        self
    }

    /// Adds a generator, which makes assets from documents or from other assets.
    pub fn generator(self, generator: impl Generator) -> Self {
        self.generation(|builder| builder.generator(generator))
    }

    /// Adds a validator, which can refuse assets or a whole incarnation before it is sealed.
    pub fn validator(self, validator: impl Validator) -> Self {
        self.generation(|builder| builder.validator(validator))
    }

    /// Adds several validators, such as [`prodspec_gen::validators::standard`].
    pub fn validators(
        self,
        validators: impl IntoIterator<Item = Arc<dyn Validator>, IntoIter: Send + 'static>
        + Send
        + 'static,
    ) -> Self {
        self.generation(|builder| builder.validators(validators))
    }

    /// Declares properties of a type, such as its capacity or the validity of its payload. Not needed for types that
    /// have a plugin and no such properties.
    pub fn asset_type<T: DeserializeOwned + 'static>(mut self, declared: AssetType<T>) -> Self {
        self.types.entry(declared.name().into()).or_default();
        self.generation(|builder| builder.asset_type(declared))
    }

    /// Sets where the content of external references is: see [`pipeline::Builder::blobs`]. Plugins read it with
    /// [`IncarnationReader::external`](plugin_sdk::IncarnationReader::external).
    pub fn blobs(self, blobs: impl Blobs) -> Self {
        self.generation(|builder| builder.blobs(blobs))
    }

    /// Declares an addon type: what an addon of this type must be.
    pub fn addon_type<A: Message>(self, declared: AddonType<A>) -> Self {
        self.generation(|builder| builder.addon_type(declared))
    }

    /// Declares a type that no plugin pushes: a concept or a group to which other assets refer.
    pub fn modelled_only<T: Message>(self) -> Self {
        self.asset_type(AssetType::<T>::new().modelled_only())
    }

    /// Registers the plugin that diffs and pushes the assets whose payload is a `T`.
    pub fn asset_plugin<T: Message>(mut self, plugin: impl Into<Plugin>) -> Self {
        self.types.insert(T::TYPE.into(), true);
        let implied = |builder: pipeline::Builder| builder.asset_type(AssetType::<T>::new());
        self.implied.push(Box::new(implied));
        let plugin: Plugin = plugin.into();
        self.enforcement(|builder| builder.asset_plugin::<T>(plugin))
    }

    /// As [`asset_plugin`](Self::asset_plugin), for a type that is known by name only. See [`AssetType::named`].
    pub fn asset_plugin_named(mut self, name: &TypeName, plugin: impl Into<Plugin>) -> Self {
        self.types.insert(name.as_str().into(), true);
        let declared = AssetType::named(name);
        let implied = |builder: pipeline::Builder| builder.asset_type(declared);
        self.implied.push(Box::new(implied));
        let (plugin, name) = (plugin.into(), name.clone());
        self.enforcement(|builder| builder.asset_plugin_named(Ok(name), plugin))
    }

    /// Sets where changes find their fields for targets whose payload is a `T`: in the source with this name, as `template`
    /// says. Without it they are in the entry that each target is made from.
    pub fn edit_template<T: Message>(mut self, source: &str, template: impl EditTemplate) -> Self {
        let template = (SourceName(source.into()), Arc::new(template) as _);
        self.templates.insert(T::TYPE.into(), template);
        self
    }

    /// Sets the checks that every push has to pass, as a tower stack around `base`. Without this call there are no
    /// checks. [`Checks::assemble`] calls `layers`, and so learns the names of the checks.
    pub fn checks<S: StackService<CheckRequest, Verdict>>(
        mut self,
        layers: impl FnOnce(Proceed) -> S,
    ) -> Self {
        self.checks = Checks::assemble(layers);
        self
    }

    /// Sets which targets of a rollout may be updated when, as a tower stack around a service that selects all of them.
    /// The default is [`annealing_strategist::policy::standard`], which follows the policy assets. A policy asset that
    /// would stall in the stack is refused before it is sealed.
    pub fn rollouts<S: StackService<SelectRequest, Selection>>(
        mut self,
        layers: impl FnOnce(AllTargets) -> S,
    ) -> Self {
        let stack = layers(AllTargets);
        self.no_stall = NoStall::of(stack.clone());
        self.strategy(|builder| builder.rollouts(|_| stack))
    }

    /// Sets the health validators of rollouts, as a tower stack around a service that reports everything healthy.
    /// Without this call everything counts as healthy.
    pub fn health<S: StackService<HealthRequest, Health>>(
        self,
        layers: impl FnOnce(Healthy) -> S,
    ) -> Self {
        let stack = layers(Healthy);
        self.strategy(|builder| builder.health(|_| stack))
    }

    /// Adds a source of metrics, which [health policies](prodspec_model::policy::HealthPolicy) in intent read by this name.
    pub fn metrics(mut self, name: &str, source: impl MetricSource) -> Self {
        self.sources = self.sources.metrics(name, source);
        self
    }

    /// Adds a source of alerts, which [health policies](prodspec_model::policy::HealthPolicy) in intent read by this name.
    pub fn signals(mut self, name: &str, source: impl SignalSource) -> Self {
        self.sources = self.sources.signals(name, source);
        self
    }

    /// Sets limits and timings of rollouts.
    pub fn rollout_config(self, config: annealing_strategist::Config) -> Self {
        self.strategy(|builder| builder.config(config))
    }

    fn strategy(
        mut self,
        change: impl FnOnce(StrategistBuilder<R>) -> StrategistBuilder<R> + Send + 'static,
    ) -> Self {
        self.strategy.push(Box::new(change));
        self
    }

    /// Sets limits and timings of enforcement.
    pub fn config(self, config: Config) -> Self {
        self.enforcement(|builder| builder.config(config))
    }

    /// Sets the time without a heartbeat after which another process takes over. Must be the same in all processes.
    /// Default 6 seconds: a process that dies is replaced 4.7 to 7.2 seconds later. Heartbeats come every two ninths of
    /// a term, so a commit of the store has to be faster than that.
    pub fn lease_term(self, term: Duration) -> Self {
        self.enforcement(move |builder| builder.lease_term(term))
    }

    /// Sets the id of this process. It must be new at every start. Default: a random id.
    pub fn process_id(self, process: ProcessId) -> Self {
        self.enforcement(|builder| builder.process_id(process))
    }

    /// Sets how many of the newest incarnations are kept, in addition to those that something still refers to. At least
    /// 1, default 100.
    pub fn retain(mut self, incarnations: usize) -> Self {
        self.keep = incarnations.max(1);
        self
    }

    /// Changes anything else about generation: guards, timing, external validators. `change` is called by
    /// [`build`](Self::build).
    pub fn generation(
        mut self,
        change: impl FnOnce(pipeline::Builder) -> pipeline::Builder + Send + 'static,
    ) -> Self {
        self.generation.push(Box::new(change));
        self
    }

    /// Changes anything else about enforcement: layers around diffs and pushes, a shared lease. `change` is called
    /// by [`build`](Self::build).
    pub fn enforcement(
        mut self,
        change: impl FnOnce(EnforcerBuilder<R>) -> EnforcerBuilder<R> + Send + 'static,
    ) -> Self {
        self.enforcement.push(Box::new(change));
        self
    }
}

/// A type of the control plane itself. Its validators check it, whatever other validators there are.
pub(crate) fn own<T: Message>() -> AssetType<T> {
    AssetType::<T>::new().valid(|_, _, _| {})
}

impl<R> std::fmt::Debug for ControlPlaneBuilder<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ControlPlaneBuilder")
            .field("partition", &self.partition)
            .field("types", &self.types)
            .finish_non_exhaustive()
    }
}
