//! The last step of the builder: makes the engines of a control plane from its parts, and connects them.

use std::{collections::BTreeMap, sync::Arc};

use annealing_checks::{PoliciesLayer, policies};
use annealing_enforcer::Enforcer;
use annealing_strategist::{Strategist, health, policy::NoStall, train};
use control_plane_runtime::Runtime;
use control_plane_store::incarnations::Incarnations;
use plugin_sdk::{AssetType, Sources, service::Checks};
use prodspec_gen::{Pipeline, pipeline};
use prodspec_model::{
    PartitionId,
    goal::Goal,
    policy::{
        AlertPolicy, ApprovalPolicy, BlastRadiusPolicy, CalendarPolicy, CapacityPolicy,
        FreezePolicy, HealthPolicy, OverloadPolicy, RatePolicy,
    },
    rollout::{RollOut, RolloutPolicy},
    train::Train,
};
use tokio::sync::{Notify, watch};
use tower::Layer as _;

use crate::{
    builder::{BuildError, ControlPlaneBuilder, own},
    declared, generate, goals,
    plane::ControlPlane,
    rollout,
    shared::Shared,
    workflow,
};

impl<R: Runtime> ControlPlaneBuilder<R> {
    /// Finishes the control plane. Before [`ControlPlane::run`] it only renews the heartbeat of this process.
    ///
    /// # Errors
    /// [`BuildError`] if a part is missing, or parts do not fit together.
    pub fn build(self) -> Result<ControlPlane<R>, BuildError> {
        workflow::with_operations(self).assemble()
    }

    fn assemble(self) -> Result<ControlPlane<R>, BuildError> {
        let runtime = self.runtime.ok_or(BuildError::NoRuntime)?;
        let partition = PartitionId::new(&self.partition)?;
        let store = self.store.ok_or(BuildError::NoStore)?;
        let incarnations = Arc::new(Incarnations::new(store.clone(), partition.clone()));
        let lanes = self
            .lanes
            .build(&runtime, &partition, &store, &incarnations)?;
        let declared = workflow::declare(Pipeline::builder(partition.clone()), &lanes);
        let builder = own_validators(declared, self.no_stall, self.sources.clone());
        let stored = self.stored.into_iter();
        let builder = stored.fold(builder, |builder, add| add(builder, &store, &partition));
        let steps = self.implied.into_iter().chain(self.generation);
        let pipeline = steps.fold(builder, |builder, step| step(builder)).build()?;
        check_types(&self.types, &pipeline)?;
        let strategist = Strategist::builder(
            runtime.clone(),
            partition.clone(),
            store.clone(),
            incarnations.clone(),
        )
        .types(pipeline.types().clone())
        .sources(self.sources.clone());
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
            lanes,
            keep: self.keep,
            owned: watch::Sender::new(None),
            desk: watch::Sender::new(None),
            rollouts: watch::Sender::new(None),
            trains: Notify::new(),
            goals: watch::Sender::default(),
            undone: watch::Sender::default(),
            templates: self.templates,
        });
        let builder = Enforcer::builder(runtime, partition, store)
            .incarnations(incarnations)
            .assembled_checks(self.checks.beside(by_policies(&self.sources)));
        let steps = self.enforcement.into_iter();
        let builder = steps.fold(builder, |builder, step| step(builder));
        let (beside, rolling) = (shared.clone(), shared.clone());
        let builder = builder
            .beside("generation", move |token, enforcement| {
                generate::while_owner(beside.clone(), token, enforcement)
            })
            .beside("rollouts", move |_, enforcement| {
                rollout::while_owner(rolling.clone(), enforcement)
            });
        let enforcer = workflow::beside(builder, shared.clone()).build()?;
        Ok(ControlPlane { enforcer, shared })
    }
}

/// The checks by policies in intent.
fn by_policies(sources: &Sources) -> Checks {
    let policies = PoliciesLayer::reading(sources);
    Checks::assemble(|base| policies.layer(base))
}

/// A pipeline that knows the policies of the framework, and refuses rollout policies that would stall.
fn own_validators(
    pipeline: pipeline::Builder,
    no_stall: NoStall,
    sources: Sources,
) -> pipeline::Builder {
    let judged = AssetType::<HealthPolicy>::new().modelled_only();
    let valid = health::policies::valid;
    let read = sources.clone();
    let judged = judged.valid(move |policy, view, problems| valid(&read, policy, view, problems));
    pipeline
        .asset_type(own::<RolloutPolicy>().modelled_only())
        .asset_type(
            AssetType::<Train>::new()
                .modelled_only()
                .valid(train::valid),
        )
        .asset_type(AssetType::<Goal>::new().modelled_only().valid(goals::valid))
        .asset_type(
            AssetType::<RollOut>::new()
                .modelled_only()
                .valid(declared::valid),
        )
        .asset_type(judged)
        .asset_type(policies::declared::<AlertPolicy>(&sources))
        .asset_type(policies::declared::<ApprovalPolicy>(&sources))
        .asset_type(policies::declared::<BlastRadiusPolicy>(&sources))
        .asset_type(policies::declared::<CalendarPolicy>(&sources))
        .asset_type(policies::declared::<CapacityPolicy>(&sources))
        .asset_type(policies::declared::<FreezePolicy>(&sources))
        .asset_type(policies::declared::<OverloadPolicy>(&sources))
        .asset_type(policies::declared::<RatePolicy>(&sources))
        .validator(no_stall)
}

/// Checks that every type either has a plugin or is declared modelled only.
fn check_types(types: &BTreeMap<Arc<str>, bool>, pipeline: &Pipeline) -> Result<(), BuildError> {
    for (name, has_plugin) in types {
        match (has_plugin, pipeline.types().is_modelled_only(name)) {
            (false, false) => return Err(BuildError::NoPlugin(name.to_string())),
            (true, true) => return Err(BuildError::ModelledOnly(name.to_string())),
            _ => {}
        }
    }
    Ok(())
}
