//! Reads one incarnation: how a plugin sees the intent it is asked about, and nothing newer.

use prodspec_model::{Asset, AssetId, Incarnation, IncarnationId};

use crate::error::PluginError;

/// A window on one sealed incarnation. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct IncarnationReader {
    incarnation: Option<Incarnation>,
    /// The asset that the request is about, which nearly everybody reads.
    at_hand: Option<Asset>,
}

impl IncarnationReader {
    /// Reads `incarnation`.
    pub fn new(incarnation: Incarnation) -> Self {
        Self {
            incarnation: Some(incarnation),
            at_hand: None,
        }
    }

    /// Reads `incarnation`, of which `asset` is at hand already.
    pub fn at(incarnation: Incarnation, asset: Asset) -> Self {
        Self {
            incarnation: Some(incarnation),
            at_hand: Some(asset),
        }
    }

    /// The incarnation read, if the request was bound to one. Requests that crossed a process boundary
    /// are not, nor those of the stall check, which plays a policy before it is sealed.
    pub fn incarnation(&self) -> Option<&IncarnationId> {
        self.incarnation.as_ref().map(Incarnation::id)
    }

    /// The asset named `id`, if the incarnation has it.
    pub fn get(&self, id: &AssetId) -> Option<Asset> {
        match &self.at_hand {
            Some(asset) if asset.id_str() == id.as_str() => Some(asset.clone()),
            _ => self.incarnation.as_ref()?.asset(id),
        }
    }

    /// The asset named `id`.
    ///
    /// # Errors
    /// Permanent, when the incarnation does not have it.
    pub fn asset(&self, id: &AssetId) -> Result<Asset, PluginError> {
        self.get(id).ok_or_else(|| match self.incarnation() {
            Some(incarnation) => {
                PluginError::permanent(format!("{incarnation} has no asset `{id}`"))
            }
            None => PluginError::permanent(
                "the request is not bound to an incarnation; bind a reader first",
            ),
        })
    }

    /// The assets that refer to `target` in payload or addons, sorted.
    pub fn referrers(&self, target: &AssetId) -> Vec<AssetId> {
        self.incarnation
            .as_ref()
            .map(|read| read.snapshot().referrers(target.as_str()))
            .unwrap_or_default()
    }
}
