//! Putting a control plane together: everything that makes it, in one list.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use annealing_enforcer::{Config, Enforcer, EnforcerBuilder, Plugin};
use annealing_strategist::{
    Strategist, StrategistBuilder,
    policy::{self, NoStall},
};
use plane_runtime::{Runtime, TokioRuntime};
use plane_store::{Store, incarnations::Incarnations, owner::ProcessId};
use plugin_sdk::{
    AssetType, BoxError, CheckRequest, Generator, Health, HealthRequest, SelectRequest, Selection,
    SourceOfTruth, Validator, Verdict,
    service::{AllTargets, Checks, Healthy, Proceed},
};
use prodspec_gen::{Pipeline, pipeline};
use prodspec_model::{Message, PartitionId, id::InvalidId, rollout::RolloutPolicy};
use tokio::sync::watch;
use tower::Service;

use crate::{
    generate,
    plane::{ControlPlane, Shared},
    rollout,
};

/// How many incarnations are kept by default.
const KEEP: usize = 100;

type Generation = Box<dyn FnOnce(pipeline::Builder) -> pipeline::Builder + Send>;
type Strategy<R> = Box<dyn FnOnce(StrategistBuilder<R>) -> StrategistBuilder<R> + Send>;
type Enforcement<R> = Box<dyn FnOnce(EnforcerBuilder<R>) -> EnforcerBuilder<R> + Send>;

/// Why parts do not make a control plane.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// It was built outside a tokio runtime.
    #[error("a control plane is built inside a tokio runtime; call build in async code")]
    NoRuntime,
    /// It has nowhere to keep anything.
    #[error(
        "a control plane needs a store; say where with `.store(SqliteStore::open(\"state\")?)`"
    )]
    NoStore,
    /// The partition's name is invalid.
    #[error("the name of the partition is invalid")]
    Partition(#[from] InvalidId),
    /// Sources and generators do not fit together.
    #[error("the parts do not make a pipeline")]
    Pipeline(#[from] pipeline::Error),
    /// Asset plugins do not fit together.
    #[error("the parts do not make an enforcer")]
    Enforcer(#[from] annealing_enforcer::BuildError),
    /// Nobody would enforce assets of a type.
    #[error(
        "assets of type {0} have no plugin; register one with asset_plugin, or declare the type modelled_only"
    )]
    NoPlugin(&'static str),
    /// A plugin for what is never enforced.
    #[error("{0} is modelled only and has a plugin; remove one of the two")]
    ModelledOnly(&'static str),
}

/// A control plane under construction. See [`ControlPlane::builder`].
#[must_use]
pub struct ControlPlaneBuilder<R = TokioRuntime> {
    runtime: Option<R>,
    partition: String,
    store: Option<Arc<dyn Store>>,
    keep: usize,
    /// Each type that was spoken of, and whether it has a plugin.
    types: BTreeMap<&'static str, bool>,
    /// What plugins imply for generation; what is said explicitly comes after it and counts.
    implied: Vec<Generation>,
    generation: Vec<Generation>,
    enforcement: Vec<Enforcement<R>>,
    strategy: Vec<Strategy<R>>,
    no_stall: NoStall,
}

impl ControlPlane {
    /// Starts the control plane of the partition named `partition`.
    pub fn builder(partition: &str) -> ControlPlaneBuilder {
        let inside = tokio::runtime::Handle::try_current().is_ok();
        ControlPlaneBuilder::on(inside.then(TokioRuntime::current), partition)
    }
}

impl<R: Runtime> ControlPlane<R> {
    /// The same, with time and tasks of `runtime`.
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
            implied: Vec::new(),
            generation: Vec::new(),
            enforcement: Vec::new(),
            strategy: Vec::new(),
            no_stall: NoStall::standard(),
        }
    }

    /// Where incarnations, decisions and everything else durable goes. A directory belongs to one process at a time:
    /// [`SqliteStore::open`](plane_store_sqlite::SqliteStore::open) refuses a second one, `open_wait` waits instead.
    pub fn store(mut self, store: impl Store) -> Self {
        self.store = Some(Arc::new(store));
        self
    }

    /// Adds a source of truth.
    pub fn source(self, source: impl SourceOfTruth) -> Self {
        self.generation(|builder| builder.source(source))
    }

    /// Adds a generator.
    pub fn generator(self, generator: impl Generator) -> Self {
        self.generation(|builder| builder.generator(generator))
    }

    /// Adds a validator.
    pub fn validator(self, validator: impl Validator) -> Self {
        self.generation(|builder| builder.validator(validator))
    }

    /// Adds validators, such as [`prodspec_gen::validators::standard`].
    pub fn validators(
        self,
        validators: impl IntoIterator<Item = Arc<dyn Validator>, IntoIter: Send + 'static>
        + Send
        + 'static,
    ) -> Self {
        self.generation(|builder| builder.validators(validators))
    }

    /// Says more about a type than that it exists: its capacity, what makes it valid.
    pub fn asset_type<T: Message>(mut self, declared: AssetType<T>) -> Self {
        self.types.entry(T::TYPE).or_default();
        self.generation(|builder| builder.asset_type(declared))
    }

    /// Declares a type that no plugin pushes: a concept or a group that others refer to.
    pub fn modelled_only<T: Message>(self) -> Self {
        self.asset_type(AssetType::<T>::new().modelled_only())
    }

    /// Registers the plugin of the assets whose payload is a `T`.
    pub fn asset_plugin<T: Message>(mut self, plugin: impl Into<Plugin>) -> Self {
        self.types.insert(T::TYPE, true);
        let implied = |builder: pipeline::Builder| builder.asset_type(AssetType::<T>::new());
        self.implied.push(Box::new(implied));
        let plugin: Plugin = plugin.into();
        self.enforcement(|builder| builder.asset_plugin::<T>(plugin))
    }

    /// The checks that every push has to pass, as a tower stack around `base`. The layers are applied inside `layers`, so
    /// that the names of the checks are known: see [`Checks::assemble`].
    pub fn checks<S>(self, layers: impl FnOnce(Proceed) -> S) -> Self
    where
        S: Service<CheckRequest, Response = Verdict, Error: Into<BoxError>, Future: Send>
            + Clone
            + Send
            + Sync
            + 'static,
    {
        let checks = Checks::assemble(layers);
        self.enforcement(|builder| builder.assembled_checks(checks))
    }

    /// Which targets of a rollout may be updated when, as a tower stack around all of them. Default: what the policy assets
    /// say, by [`annealing_strategist::policy::standard`]. A policy asset that would stall in it is refused before it is
    /// sealed.
    pub fn rollouts<S>(mut self, layers: impl FnOnce(AllTargets) -> S) -> Self
    where
        S: Service<SelectRequest, Response = Selection, Error: Into<BoxError>, Future: Send>
            + Clone
            + Send
            + Sync
            + 'static,
    {
        let stack = layers(AllTargets);
        self.no_stall = NoStall::of(stack.clone());
        self.strategy(|builder| builder.rollouts(|_| stack))
    }

    /// What judges the updated part of a rollout, as a tower stack around one that finds everything healthy.
    pub fn health<S>(self, layers: impl FnOnce(Healthy) -> S) -> Self
    where
        S: Service<HealthRequest, Response = Health, Error: Into<BoxError>, Future: Send>
            + Clone
            + Send
            + Sync
            + 'static,
    {
        let stack = layers(Healthy);
        self.strategy(|builder| builder.health(|_| stack))
    }

    /// Every number that rollouts go by.
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

    /// Every number that enforcement goes by.
    pub fn config(self, config: Config) -> Self {
        self.enforcement(|builder| builder.config(config))
    }

    /// After how long without a heartbeat another process takes over. The same for all processes.
    pub fn term(self, term: Duration) -> Self {
        self.enforcement(move |builder| builder.term(term))
    }

    /// What this process is called. Must be new with every start. Default: a random name.
    pub fn process(self, process: ProcessId) -> Self {
        self.enforcement(|builder| builder.process(process))
    }

    /// How many of the newest incarnations are kept, beside those that are still spoken of. Default 100.
    pub fn keep(mut self, incarnations: usize) -> Self {
        self.keep = incarnations.max(1);
        self
    }

    /// Says anything else about generation: guards, timing, external validators.
    pub fn generation(
        mut self,
        change: impl FnOnce(pipeline::Builder) -> pipeline::Builder + Send + 'static,
    ) -> Self {
        self.generation.push(Box::new(change));
        self
    }

    /// Says anything else about enforcement: layers around diffs and pushes, a shared membership.
    pub fn enforcement(
        mut self,
        change: impl FnOnce(EnforcerBuilder<R>) -> EnforcerBuilder<R> + Send + 'static,
    ) -> Self {
        self.enforcement.push(Box::new(change));
        self
    }

    /// Finishes the control plane. It does nothing before [`ControlPlane::run`], except to say that this process lives.
    ///
    /// # Errors
    /// When something is missing or does not fit: see [`BuildError`].
    pub fn build(self) -> Result<ControlPlane<R>, BuildError> {
        let runtime = self.runtime.ok_or(BuildError::NoRuntime)?;
        let partition = PartitionId::new(&self.partition)?;
        let store = self.store.ok_or(BuildError::NoStore)?;
        let policies = AssetType::<RolloutPolicy>::new()
            .modelled_only()
            .valid(policy::valid);
        let builder = Pipeline::builder(partition.clone())
            .asset_type(policies)
            .validator(self.no_stall);
        let steps = self.implied.into_iter().chain(self.generation);
        let pipeline = steps.fold(builder, |builder, step| step(builder)).build()?;
        check_types(&self.types, &pipeline)?;
        let incarnations = Arc::new(Incarnations::new(store.clone(), partition.clone()));
        let strategist = Strategist::builder(
            runtime.clone(),
            partition.clone(),
            store.clone(),
            incarnations.clone(),
        )
        .types(pipeline.types().clone());
        let steps = self.strategy.into_iter();
        let strategist = steps
            .fold(strategist, |builder, step| step(builder))
            .build();
        let shared = Arc::new(Shared {
            runtime: runtime.clone(),
            partition: partition.clone(),
            store: store.clone(),
            incarnations: incarnations.clone(),
            pipeline,
            strategist,
            keep: self.keep,
            owned: watch::Sender::new(None),
            rollouts: watch::Sender::new(None),
        });
        let builder = Enforcer::builder(runtime, partition, store).incarnations(incarnations);
        let steps = self.enforcement.into_iter();
        let builder = steps.fold(builder, |builder, step| step(builder));
        let (beside, rolling) = (shared.clone(), shared.clone());
        let enforcer = builder
            .beside("generation", move |token, enforcement| {
                generate::while_owner(beside.clone(), token, enforcement)
            })
            .beside("rollouts", move |_, enforcement| {
                rollout::while_owner(rolling.clone(), enforcement)
            })
            .build()?;
        Ok(ControlPlane { enforcer, shared })
    }
}

/// Every type is enforced or declared not to be.
fn check_types(
    types: &BTreeMap<&'static str, bool>,
    pipeline: &Pipeline,
) -> Result<(), BuildError> {
    for (name, has_plugin) in types {
        match (has_plugin, pipeline.types().is_modelled_only(name)) {
            (false, false) => return Err(BuildError::NoPlugin(name)),
            (true, true) => return Err(BuildError::ModelledOnly(name)),
            _ => {}
        }
    }
    Ok(())
}

impl<R> std::fmt::Debug for ControlPlaneBuilder<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ControlPlaneBuilder")
            .field("partition", &self.partition)
            .field("types", &self.types)
            .finish_non_exhaustive()
    }
}
