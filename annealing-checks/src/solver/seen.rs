//! The observed state of a push's neighbours in production.

use std::collections::{BTreeMap, BTreeSet};

use plugin_sdk::{Cause, Diff, Effects, Observation, Observed, Shared, Usage};
use prodspec_model::AssetId;

/// The neighbours whose state is known: each is in sync, to be pushed, or gone. Neighbours with another diff result are
/// not contained.
#[derive(Debug, Default)]
pub struct Seen {
    observations: BTreeMap<AssetId, Observation>,
    gone: BTreeSet<AssetId>,
    modelled_only: BTreeSet<AssetId>,
    usages: BTreeMap<Shared, Usage>,
}

impl Seen {
    pub(super) fn observe(&mut self, asset: AssetId, observation: Observation) {
        self.observations.insert(asset, observation);
    }

    /// Notes that an asset is gone.
    pub(super) fn miss(&mut self, asset: AssetId) {
        self.gone.insert(asset);
    }

    /// Notes that an asset is modelled only.
    pub(super) fn model(&mut self, asset: AssetId) {
        self.modelled_only.insert(asset);
    }

    pub(super) fn use_of(&mut self, shared: Shared, usage: Usage) {
        self.usages.insert(shared, usage);
    }

    /// The use of a shared capacity by the other consumers. `None`: no question asked for it, or it is unknown.
    pub fn usage(&self, shared: &Shared) -> Option<&Usage> {
        self.usages.get(shared)
    }

    /// The diff of an asset. `None`: no question asked for it, or it is gone or modelled only.
    pub fn diff(&self, asset: &AssetId) -> Option<&Diff> {
        let observation = self.observations.get(asset)?;
        Some(&observation.diff)
    }

    /// Whether an asset is gone: it has no capacity, runs no version and uses nothing. See
    /// [`observe::Error::Gone`](plugin_sdk::observe::Error::Gone).
    pub fn is_gone(&self, asset: &AssetId) -> bool {
        self.gone.contains(asset)
    }

    /// Whether no plugin enforces the type of an asset. Its capacity, version and use are unknown.
    pub fn is_modelled_only(&self, asset: &AssetId) -> bool {
        self.modelled_only.contains(asset)
    }

    /// The cause that a push of an asset would have now. `None`: the asset has no intent, so it will not be pushed, or
    /// it has no diff.
    pub fn cause(&self, asset: &AssetId) -> Option<Cause> {
        self.observations.get(asset)?.cause
    }

    /// Whether an asset has no intent *yet*: the rollout of its policy group has not reached it.
    pub fn is_not_yet(&self, asset: &AssetId) -> bool {
        let observation = self.observations.get(asset);
        observation.is_some_and(|observation| observation.not_yet)
    }

    /// The state of an asset in production. `None`: it was not observed.
    pub fn observed(&self, asset: &AssetId) -> Option<&Observed> {
        match self.diff(asset)? {
            Diff::InSync { observed, .. } | Diff::Differs { observed, .. } => Some(observed),
            _ => None,
        }
    }

    /// The effects of a push of an asset. `None`: the asset is in sync, or was not observed.
    pub fn effects(&self, asset: &AssetId) -> Option<&Effects> {
        match self.diff(asset)? {
            Diff::Differs { change, .. } => Some(&change.effects),
            _ => None,
        }
    }

    /// The capacity of an asset in production. A resource that does not exist has 0.
    pub fn capacity(&self, asset: &AssetId, unit: &str) -> u64 {
        let observed = self.observed(asset);
        let capacity = observed.and_then(|observed| observed.capacity.get(unit));
        capacity.copied().unwrap_or_default()
    }

    /// The greater of an asset's capacity in production and its capacity after a push that is to come.
    pub fn capacity_soon(&self, asset: &AssetId, unit: &str) -> u64 {
        let effects = self.effects(asset);
        let brings = effects.and_then(|effects| effects.capacity.get(unit));
        let brings = brings.map_or(0, |it| it.to);
        self.capacity(asset, unit).max(brings)
    }

    /// The version of an asset that runs in production. `None`: nothing runs, or it was not observed.
    pub fn version(&self, asset: &AssetId) -> Option<u64> {
        self.observed(asset)?.version
    }
}
