//! The observed state of a push's neighbours in production.

use std::collections::BTreeMap;

use plugin_sdk::{Cause, Diff, Effects, Observation, Observed, Shared, Usage};
use prodspec_model::AssetId;

/// The neighbours that could be observed: each is in sync or to be pushed. Neighbours with another diff result are not
/// contained.
#[derive(Debug, Default)]
pub struct Seen {
    observations: Vec<(AssetId, Observation)>,
    usages: BTreeMap<Shared, Usage>,
}

impl Seen {
    /// `observations` must be sorted by asset.
    pub(super) fn new(
        observations: Vec<(AssetId, Observation)>,
        usages: BTreeMap<Shared, Usage>,
    ) -> Self {
        Self {
            observations,
            usages,
        }
    }

    /// The use of a shared capacity by the other consumers. `None`: no question asked for it, or it is unknown.
    pub fn usage(&self, shared: &Shared) -> Option<&Usage> {
        self.usages.get(shared)
    }

    /// The diff of an asset. `None`: no question asked for it, or it could not be observed.
    pub fn diff(&self, asset: &AssetId) -> Option<&Diff> {
        self.find(asset).map(|observation| &observation.diff)
    }

    fn find(&self, asset: &AssetId) -> Option<&Observation> {
        let found = self.observations.binary_search_by(|(id, _)| id.cmp(asset));
        found.ok().map(|at| &self.observations[at].1)
    }

    /// The cause that a push of an asset would have now. `None`: the asset has no intent, so it will not be pushed, or
    /// it was not observed.
    pub fn cause(&self, asset: &AssetId) -> Option<Cause> {
        self.find(asset)?.cause
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
