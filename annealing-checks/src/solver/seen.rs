//! What production has, as far as a push's neighbours go.

use std::collections::BTreeMap;

use plugin_sdk::{Cause, Diff, Effects, Observation, Observed, Shared, Usage};
use prodspec_model::AssetId;

/// The neighbours that were looked at and could be seen, each in sync or to be pushed.
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

    /// What the other consumers use of a provider. `None`: it was not asked for.
    pub fn usage(&self, shared: &Shared) -> Option<&Usage> {
        self.usages.get(shared)
    }

    /// How an asset compares with production. `None`: it was not asked for.
    pub fn diff(&self, asset: &AssetId) -> Option<&Diff> {
        self.find(asset).map(|observation| &observation.diff)
    }

    fn find(&self, asset: &AssetId) -> Option<&Observation> {
        let found = self.observations.binary_search_by(|(id, _)| id.cmp(asset));
        found.ok().map(|at| &self.observations[at].1)
    }

    /// Why a push of an asset would start now. `None`: it has no intent, so enforcement will not push it.
    pub fn cause(&self, asset: &AssetId) -> Option<Cause> {
        self.find(asset)?.cause
    }

    /// What production has of an asset.
    pub fn observed(&self, asset: &AssetId) -> Option<&Observed> {
        match self.diff(asset)? {
            Diff::InSync { observed, .. } | Diff::Differs { observed, .. } => Some(observed),
            _ => None,
        }
    }

    /// What a push of an asset would do, if it is to be pushed.
    pub fn effects(&self, asset: &AssetId) -> Option<&Effects> {
        match self.diff(asset)? {
            Diff::Differs { change, .. } => Some(&change.effects),
            _ => None,
        }
    }

    /// The capacity that production has of an asset. What does not exist has none.
    pub fn capacity(&self, asset: &AssetId, unit: &str) -> u64 {
        let observed = self.observed(asset);
        let capacity = observed.and_then(|observed| observed.capacity.get(unit));
        capacity.copied().unwrap_or_default()
    }

    /// The most capacity that an asset may have soon: what production has, or what a push of it would bring.
    pub fn capacity_soon(&self, asset: &AssetId, unit: &str) -> u64 {
        let effects = self.effects(asset);
        let brings = effects.and_then(|effects| effects.capacity.get(unit));
        let brings = brings.map_or(0, |(_, to)| *to);
        self.capacity(asset, unit).max(brings)
    }

    /// The version that runs of an asset.
    pub fn version(&self, asset: &AssetId) -> Option<u64> {
        self.observed(asset)?.version
    }
}
