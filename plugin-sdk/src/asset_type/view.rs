//! The view of one asset that validators judge. The validators of an asset type take it, and it knows all asset types.

use prodspec_model::{Asset, AssetId, Snapshot};

use super::{AssetTypes, Capacity};
use crate::problem::Problem;

/// One asset of a candidate, with the assets that it refers to and the assets that refer to it. A validator's verdict
/// on the asset may rest on these only.
#[derive(Debug)]
pub struct AssetView<'a> {
    asset: &'a Asset,
    references: Vec<AssetId>,
    snapshot: &'a Snapshot,
    types: &'a AssetTypes,
    incomplete: bool,
}

impl<'a> AssetView<'a> {
    /// A view of `asset` in `snapshot`.
    pub fn new(asset: &'a Asset, snapshot: &'a Snapshot, types: &'a AssetTypes) -> Self {
        Self {
            references: asset.references(),
            asset,
            snapshot,
            types,
            incomplete: false,
        }
    }

    /// Marks the view as incomplete: a generator failed, so other assets may be missing.
    #[must_use]
    pub fn incomplete(mut self) -> Self {
        self.incomplete = true;
        self
    }

    /// Whether a generator failed. If so, do not report missing assets: the failure itself is the problem.
    pub fn is_incomplete(&self) -> bool {
        self.incomplete
    }

    /// The asset to be validated.
    pub fn asset(&self) -> &'a Asset {
        self.asset
    }

    /// Ids of the assets that the asset refers to, sorted.
    pub fn references(&self) -> &[AssetId] {
        &self.references
    }

    /// An asset that the asset refers to. `None`: it does not refer to `id`, or `id` does not exist.
    pub fn get(&self, id: &AssetId) -> Option<Asset> {
        self.references
            .binary_search(id)
            .ok()
            .and_then(|_| self.snapshot.get(id.as_str()))
    }

    /// The assets that refer to the asset, sorted by id.
    pub fn referrers(&self) -> impl Iterator<Item = Asset> + '_ {
        self.snapshot
            .referrers(self.asset.id_str())
            .into_iter()
            .filter_map(|id| self.snapshot.get(id.as_str()))
    }

    /// The asset types that the pipeline knows.
    pub fn types(&self) -> &'a AssetTypes {
        self.types
    }

    /// The capacity that an asset intends. `None`: its type declares no capacity.
    pub fn capacity(&self, asset: &Asset) -> Option<Capacity> {
        self.types.capacity(asset)
    }

    /// Makes a problem of the asset, with the place that the asset came from.
    pub fn problem(&self, message: impl std::fmt::Display) -> Problem {
        Problem::with(self.asset, message)
    }
}
