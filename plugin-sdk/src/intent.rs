//! The intent of one asset: the asset and the incarnation that a request is about.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use prodspec_model::{Asset, AssetId, Incarnation, IncarnationId};
use serde::{Deserialize, Serialize};

use crate::{blobs::Blobs, error::PluginError, reader::IncarnationReader};

/// The asset that a request is about, and the incarnation whose content counts.
///
/// Serialized as the two ids, as fields `asset` and `incarnation`. A deserialized intent has no content until it is
/// [bound](Self::bind).
#[derive(Clone, Serialize, Deserialize)]
#[serde(into = "Ids", from = "Ids")]
pub struct AssetIntent {
    /// Made from `asset` when it is first asked for. Always set without an asset.
    id: OnceLock<AssetId>,
    asset: Option<Asset>,
    reader: IncarnationReader,
    /// Id of the incarnation. `None`: the reader knows it.
    incarnation: Option<IncarnationId>,
}

/// The serialized form of [`AssetIntent`].
#[derive(Serialize, Deserialize)]
struct Ids {
    asset: AssetId,
    incarnation: IncarnationId,
}

impl AssetIntent {
    /// The intent of `asset`, which is an asset of `incarnation`. Allocates nothing.
    pub fn new(incarnation: Incarnation, asset: Asset) -> Self {
        Self {
            id: OnceLock::new(),
            asset: Some(asset),
            reader: IncarnationReader::new(incarnation),
            incarnation: None,
        }
    }

    /// The intent of the asset `id` in `incarnation`, which may not contain it.
    pub fn find(incarnation: Incarnation, id: AssetId) -> Self {
        Self {
            asset: incarnation.asset(&id),
            id: id.into(),
            reader: IncarnationReader::new(incarnation),
            incarnation: None,
        }
    }

    /// The same intent, whose reader gets external content from `blobs`.
    #[must_use]
    pub fn with_blobs(mut self, blobs: Arc<dyn Blobs>) -> Self {
        self.reader = self.reader.with_blobs(blobs);
        self
    }

    /// An intent that is known by its ids only, as in a request from another process. It has no content.
    pub fn named(incarnation: IncarnationId, id: AssetId) -> Self {
        Self {
            id: id.into(),
            asset: None,
            reader: IncarnationReader::default(),
            incarnation: Some(incarnation),
        }
    }

    /// Gives a deserialized intent its content.
    ///
    /// # Errors
    /// [`PluginError::Permanent`] if `incarnation` is not the one that the intent names.
    pub fn bind(self, incarnation: Incarnation) -> Result<Self, PluginError> {
        if self.incarnation() != incarnation.id() {
            let message = format!(
                "the request is about {}, and cannot be bound to {}; bind the incarnation that it names",
                self.incarnation(),
                incarnation.id()
            );
            return Err(PluginError::permanent(message));
        }
        Ok(Self::find(incarnation, self.id().clone()))
    }

    /// The id of the asset.
    pub fn id(&self) -> &AssetId {
        self.id.get_or_init(|| match &self.asset {
            Some(asset) => asset.id(),
            None => unreachable!("an intent without an asset is made from an id"),
        })
    }

    /// The asset.
    ///
    /// # Errors
    /// [`PluginError::Permanent`] if the incarnation does not contain the asset, or if the intent has no content.
    pub fn asset(&self) -> Result<Asset, PluginError> {
        match &self.asset {
            Some(asset) => Ok(asset.clone()),
            None => self.reader.asset(self.id()),
        }
    }

    /// The id of the incarnation.
    pub fn incarnation(&self) -> &IncarnationId {
        match self.reader.incarnation().or(self.incarnation.as_ref()) {
            Some(incarnation) => incarnation,
            None => {
                unreachable!("an intent without a reader is made from the id of its incarnation")
            }
        }
    }

    /// Reads the assets of the incarnation.
    pub fn reader(&self) -> &IncarnationReader {
        &self.reader
    }
}

impl fmt::Debug for AssetIntent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Shows the two ids: `job/eu at prod@42`.
impl fmt::Display for AssetIntent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.id(), self.incarnation())
    }
}

impl From<Ids> for AssetIntent {
    fn from(ids: Ids) -> Self {
        Self::named(ids.incarnation, ids.asset)
    }
}

impl From<AssetIntent> for Ids {
    fn from(intent: AssetIntent) -> Self {
        Self {
            asset: intent.id().clone(),
            incarnation: intent.incarnation().clone(),
        }
    }
}

/// Writes the accessors of a request whose field `intent` says what it is about.
macro_rules! about_one_asset {
    () => {
        /// The id of the asset.
        pub fn asset_id(&self) -> &prodspec_model::AssetId {
            self.intent.id()
        }

        /// The asset, as `incarnation` has it.
        ///
        /// # Errors
        /// [`PluginError::Permanent`](crate::error::PluginError::Permanent) if the incarnation does not contain the
        /// asset, or if the request came from another process and is not bound to an incarnation.
        pub fn asset(&self) -> Result<prodspec_model::Asset, crate::error::PluginError> {
            self.intent.asset()
        }

        /// The id of the incarnation whose content counts.
        pub fn incarnation(&self) -> &prodspec_model::IncarnationId {
            self.intent.incarnation()
        }

        /// Reads the assets of `incarnation`.
        pub fn reader(&self) -> &crate::reader::IncarnationReader {
            self.intent.reader()
        }
    };
}

pub(crate) use about_one_asset;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DiffRequest, FencingToken, Run, testing};

    #[test]
    fn a_request_crosses_a_process_boundary_as_ids_and_is_bound_there() {
        let asset = testing::asset("asset/x");
        let incarnation = testing::incarnation(1, [asset.clone()]);
        let run = Run {
            slot: 0,
            n: 1,
            incarnation: incarnation.no(),
        };
        let intent = AssetIntent::new(incarnation.clone(), asset.clone());
        let sent = serde_json::to_value(DiffRequest::new(intent, FencingToken(1), run)).unwrap();
        assert_eq!(sent["asset"], "asset/x");

        let mut received: DiffRequest = serde_json::from_value(sent).unwrap();
        assert_eq!(received.asset_id(), &asset.id());
        assert_eq!(received.incarnation(), incarnation.id());
        let unbound = received.asset().unwrap_err().to_string();
        assert!(unbound.contains("bind"), "{unbound}");
        let other = testing::incarnation(2, [asset.clone()]);
        let wrong = received.intent.clone().bind(other).unwrap_err().to_string();
        assert!(wrong.contains("cannot be bound to test@2"), "{wrong}");
        received.intent = received.intent.bind(incarnation).unwrap();
        assert_eq!(received.asset().unwrap(), asset);
    }

    #[test]
    fn an_asset_that_the_incarnation_lacks_is_an_error_that_names_both() {
        let incarnation = testing::incarnation(1, [testing::asset("asset/x")]);
        let intent = AssetIntent::find(incarnation, AssetId::new("asset/y").unwrap());
        let missing = intent.asset().unwrap_err().to_string();
        assert!(
            missing.contains("test@1 has no asset `asset/y`"),
            "{missing}"
        );
        assert_eq!(intent.to_string(), "asset/y at test@1");
    }
}
