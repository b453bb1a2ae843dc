//! Builds a strategist.

use std::sync::Arc;

use control_plane_runtime::Runtime;
use control_plane_store::{Store, Write, incarnations::Incarnations};
use futures::channel::mpsc;
use plugin_sdk::{
    Actuator, AssetTypes, Health, HealthRequest, SelectRequest, Selection,
    service::{AllTargets, Healthy, Stack, StackService, stack},
};
use prodspec_model::PartitionId;

use super::{Attached, Handle, handle::Trouble};
use crate::{config::Config, policy};

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
pub struct StrategistBuilder<R>(Strategist<R>);

impl<R: Runtime> Strategist<R> {
    /// Starts to build a strategist of `partition`. Its incarnations and its records are in `store`. By default it
    /// follows the policies in Prodspec ([`policy::standard`]) and finds all assets healthy.
    pub fn builder(
        runtime: R,
        partition: PartitionId,
        store: Arc<dyn Store>,
        incarnations: Arc<Incarnations<dyn Store>>,
    ) -> StrategistBuilder<R> {
        StrategistBuilder(Self {
            runtime,
            partition,
            store,
            incarnations,
            types: Arc::default(),
            config: Config::default(),
            select: stack(policy::standard()),
            health: stack(Healthy),
        })
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
        self.0.types = types.into();
        self
    }

    /// Sets the numbers that the strategist uses. Default: [`Config::default`].
    pub fn config(mut self, config: Config) -> Self {
        self.0.config = config;
        self
    }

    /// Sets the selection stack, which decides which targets may be updated when, as tower layers around all targets.
    /// Default: [`policy::standard`].
    pub fn rollouts<S: StackService<SelectRequest, Selection>>(
        mut self,
        layers: impl FnOnce(AllTargets) -> S,
    ) -> Self {
        self.0.select = stack(layers(AllTargets));
        self
    }

    /// Sets the health stack, which judges the updated targets, as tower layers around a service that finds all
    /// healthy. Default: no layers.
    pub fn health<S: StackService<HealthRequest, Health>>(
        mut self,
        layers: impl FnOnce(Healthy) -> S,
    ) -> Self {
        self.0.health = stack(layers(Healthy));
        self
    }

    /// Finishes the strategist, ready to be attached to an ownership.
    pub fn build(self) -> Arc<Strategist<R>> {
        Arc::new(self.0)
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
            .field("partition", &self.0.partition)
            .finish_non_exhaustive()
    }
}
