//! The naive peer of snapshots: an ordered map that is copied whole for each change.

use std::{collections::BTreeMap, sync::Arc};

use prodspec_model::{Asset, AssetId};

/// All assets of one incarnation in a plain map.
#[derive(Debug, Clone, Default)]
pub(crate) struct Map(BTreeMap<Arc<str>, Asset>);

impl Map {
    /// Copies the map, adds or replaces the assets in `put`, and removes those in `removed`.
    pub(crate) fn edit(&self, put: Vec<Asset>, removed: &[AssetId]) -> Self {
        let mut copy = self.clone();
        for id in removed {
            copy.0.remove(id.as_str());
        }
        for asset in put {
            copy.0.insert(asset.id_str().into(), asset);
        }
        copy
    }

    /// The asset with this id, if there is one.
    pub(crate) fn get(&self, id: &str) -> Option<Asset> {
        self.0.get(id).cloned()
    }

    /// Number of assets that differ between this map and `newer`; reads both whole.
    pub(crate) fn diff(&self, newer: &Self) -> usize {
        let gone = |id: &&Arc<str>| !newer.0.contains_key(&**id);
        let differs = |(id, asset): &(&Arc<str>, &Asset)| {
            let before = self.0.get(&**id);
            before.is_none_or(|before| before.digest() != asset.digest())
        };
        self.0.keys().filter(gone).count() + newer.0.iter().filter(differs).count()
    }
}
