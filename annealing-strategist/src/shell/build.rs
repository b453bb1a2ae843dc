//! Builds a strategist.

use std::sync::Arc;

use control_plane_runtime::Runtime;
use control_plane_store::{Store, Write, incarnations::Incarnations};
use futures::channel::mpsc;
use plugin_sdk::{
    Actuator, AssetTypes, Health, HealthRequest, SelectRequest, Selection, Sources,
    service::{AllTargets, HealthLayer, Healthy, Stack, StackService, stack},
};
use prodspec_model::PartitionId;
use tower_layer::Layer as _;

use super::{Attached, Handle, handle::Trouble};
use crate::{config::Config, health::policies::Policies, policy};

/// The strategist of one partition: rolls out its policy groups. One value serves all ownerships of the partition,
/// one after the other.
pub struct Strategist<R> {
    pub(crate) runtime: R,
    pub(crate) partition: PartitionId,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) incarnations: Arc<Incarnations<dyn Store>>,
    pub(crate) types: Arc<AssetTypes>,
    pub(crate) config: Config,
    pub(crate) select: Stack<SelectRequest, Selection>,
    pub(crate) health: Stack<HealthRequest, Health>,
}

/// A strategist under construction. See [`Strategist::builder`].
#[must_use]
pub struct StrategistBuilder<R> {
    strategist: Strategist<R>,
    sources: Sources,
    health: Judge,
}

/// Makes the health stack, with a layer above it.
type Judge = Box<dyn FnOnce(HealthLayer<Policies>) -> Stack<HealthRequest, Health> + Send>;

impl<R: Runtime> Strategist<R> {
    /// Starts to build a strategist of `partition`. Its incarnations and its records are in `store`. By default it
    /// follows the policies in Prodspec ([`policy::standard`]) and finds all assets healthy.
    pub fn builder(
        runtime: R,
        partition: PartitionId,
        store: Arc<dyn Store>,
        incarnations: Arc<Incarnations<dyn Store>>,
    ) -> StrategistBuilder<R> {
        let strategist = Self {
            runtime,
            partition,
            store,
            incarnations,
            types: Arc::default(),
            config: Config::default(),
            select: stack(policy::standard()),
            health: stack(Healthy),
        };
        StrategistBuilder {
            strategist,
            sources: Sources::default(),
            health: Box::new(|policies| stack(policies.layer(Healthy))),
        }
    }

    /// Attaches the strategist to one ownership, whose enforcement is behind `actuator`. Returns the task to run and
    /// a handle to talk to it.
    pub fn attach(
        self: &Arc<Self>,
        actuator: Arc<dyn Actuator<Write = Write>>,
    ) -> (Attached<R>, Handle<R>) {
        let (sender, inputs) = mpsc::unbounded();
        let task_failure = Trouble::default();
        let handle = Handle::new(self.clone(), sender.clone(), task_failure.clone());
        let attached = Attached {
            strategist: self.clone(),
            actuator,
            edits: None,
            inputs,
            sender,
            task_failure,
        };
        (attached, handle)
    }
}

impl<R: Runtime> StrategistBuilder<R> {
    /// Sets what is known of asset types: which are modelled only, and the capacity of their assets. Default: no
    /// types.
    pub fn types(mut self, types: impl Into<Arc<AssetTypes>>) -> Self {
        self.strategist.types = types.into();
        self
    }

    /// Sets the numbers that the strategist uses. Default: [`Config::default`].
    pub fn config(mut self, config: Config) -> Self {
        self.strategist.config = config;
        self
    }

    /// Sets the selection stack, which decides which targets may be updated when, as tower layers around all targets.
    /// Default: [`policy::standard`].
    pub fn rollouts<S: StackService<SelectRequest, Selection>>(
        mut self,
        layers: impl FnOnce(AllTargets) -> S,
    ) -> Self {
        self.strategist.select = stack(layers(AllTargets));
        self
    }

    /// Sets the health stack, which judges the updated targets, as tower layers around a service that finds all
    /// healthy. Default: no layers.
    pub fn health<S: StackService<HealthRequest, Health>>(
        mut self,
        layers: impl FnOnce(Healthy) -> S,
    ) -> Self {
        let beneath = layers(Healthy);
        self.health = Box::new(|policies| stack(policies.layer(beneath)));
        self
    }

    /// Sets the sources of metrics and alerts that [health policies](Policies) in intent name. Default: none.
    pub fn sources(mut self, sources: Sources) -> Self {
        self.sources = sources;
        self
    }

    /// Finishes the strategist, ready to be attached to an ownership.
    pub fn build(self) -> Arc<Strategist<R>> {
        let policies = HealthLayer::new(Policies::over(&self.sources));
        Arc::new(Strategist {
            health: (self.health)(policies),
            ..self.strategist
        })
    }
}

impl<R> std::fmt::Debug for Strategist<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Strategist")
            .field("partition", &self.partition)
            .finish_non_exhaustive()
    }
}

impl<R> std::fmt::Debug for StrategistBuilder<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StrategistBuilder")
            .field("partition", &self.strategist.partition)
            .finish_non_exhaustive()
    }
}
