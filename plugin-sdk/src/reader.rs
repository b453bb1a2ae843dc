//! Readers: how a plugin reads the intent of one incarnation, and of no newer one.

use std::sync::Arc;

use prodspec_model::{Asset, AssetId, ExternalRef, Filter, Incarnation, IncarnationId};

use crate::{
    blobs::{self, Blobs},
    error::PluginError,
};

/// Reads the assets of one sealed incarnation. Cheap to clone. The default reader is not bound to an incarnation and
/// finds no asset.
#[derive(Debug, Clone, Default)]
pub struct IncarnationReader {
    incarnation: Option<Incarnation>,
    blobs: Option<Arc<dyn Blobs>>,
}

impl IncarnationReader {
    /// Makes a reader of `incarnation`.
    pub fn new(incarnation: Incarnation) -> Self {
        Self {
            incarnation: Some(incarnation),
            blobs: None,
        }
    }

    /// The same reader, with external content from `blobs`.
    #[must_use]
    pub fn with_blobs(mut self, blobs: Arc<dyn Blobs>) -> Self {
        self.blobs = Some(blobs);
        self
    }

    /// The content that `reference` refers to. The control plane keeps it as long as an incarnation refers to it; its
    /// digest is verified at each read.
    ///
    /// # Errors
    /// See [`blobs::Error`]. It converts to a [`PluginError`].
    pub async fn external(&self, reference: &ExternalRef) -> Result<Vec<u8>, blobs::Error> {
        match &self.blobs {
            Some(blobs) => blobs::verified(blobs, reference).await,
            None => Err(blobs::Error::Nowhere),
        }
    }

    /// Id of the incarnation that is read. `None`: the reader is not bound to one. This is so for requests that crossed
    /// a process boundary, and for requests of the stall check, which tests a policy before it is sealed.
    pub fn incarnation(&self) -> Option<&IncarnationId> {
        self.incarnation.as_ref().map(Incarnation::id)
    }

    /// The incarnation that is read, as a whole. `None`: see [`IncarnationReader::incarnation`].
    pub fn bound_to(&self) -> Option<&Incarnation> {
        self.incarnation.as_ref()
    }

    /// The asset with this id. `None`: the incarnation does not contain it.
    pub fn get(&self, id: &AssetId) -> Option<Asset> {
        self.incarnation.as_ref()?.asset(id)
    }

    /// The asset with this id, or an error.
    ///
    /// # Errors
    /// [`PluginError::Permanent`] if the incarnation does not contain the asset.
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

    /// The assets that match `filter`, sorted by id.
    pub fn matching<'a>(&'a self, filter: &'a Filter) -> impl Iterator<Item = Asset> + 'a {
        let read = self.incarnation.iter();
        read.flat_map(|read| filter.find(read.snapshot()))
    }

    /// Ids of the assets that refer to `target` in their payload or addons, sorted.
    pub fn referrers(&self, target: &AssetId) -> Vec<AssetId> {
        self.incarnation
            .as_ref()
            .map(|read| read.snapshot().referrers(target.as_str()))
            .unwrap_or_default()
    }
}
