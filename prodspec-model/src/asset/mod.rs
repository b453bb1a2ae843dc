//! Assets: the units of intent. Each one is an immutable value that describes one resource in production.

mod block;
mod builder;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

pub use block::Block;
pub use block::Damaged;
pub use builder::{AssetBuilder, Error, ReadError};

use crate::{
    digest::Digest,
    external::{self, ExternalRef},
    id::{AssetId, TypeName},
    message::{self, Message},
    reference::{self, LocatedReference},
};

/// The maximum length of the canonical encoding of an asset (id, payload, addons), in bytes.
pub const MAX_BYTES: usize = 150_000;

/// The unit of intent: an id, a payload and addons that describe one resource in production.
///
/// Assets are immutable and cheap to clone. Equal content has an equal digest. The canonical encoding is one JSON
/// object, kept in one block of bytes:
/// `{"addons":{TYPE:VALUE,...},"id":"...","payload":VALUE,"type":"..."}`.
#[derive(Clone)]
pub struct Asset(Block);

/// The generators that made an asset, and the part of a document that it was made from.
///
/// It is kept beside the asset's content and is not part of the digest. It describes the incarnation in which the
/// asset's content last changed. It names no line, because a line would be wrong after the next edit of the document;
/// the path leads to the line of any later day. The revision of the source is in the header of the incarnation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Provenance {
    /// The name of the generator that made the asset.
    pub generator: String,
    /// The names of the generators that amended the asset afterwards, in their order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub amenders: Vec<String>,
    /// The source of truth that contains the document. Empty when unknown.
    pub source: String,
    /// The name of the document in its source, such as `manifest.yaml#0` or `Deployment/prod/web`. Empty when unknown.
    pub document: String,
    /// The path of the field in the document, such as `clusters.eu`. Empty: the whole document.
    pub path: String,
}

impl Asset {
    /// Starts to build an asset with the id `id`.
    pub fn builder(id: AssetId) -> AssetBuilder {
        AssetBuilder::new(id)
    }

    /// Starts to build a changed copy. The builder begins with the same id, payload, addons and provenance.
    pub fn edit(&self) -> AssetBuilder {
        AssetBuilder::from_asset(self)
    }

    /// The block of bytes that holds the asset.
    pub fn block(&self) -> &Block {
        &self.0
    }

    /// Reads the asset in `block` and checks its bytes.
    ///
    /// # Errors
    /// When the bytes are not an asset: cut off, changed, or something else.
    pub fn from_block(block: Block) -> Result<Self, Damaged> {
        block.check()?;
        Ok(Self(block))
    }

    /// As [`Asset::from_block`], without the checks: for bytes that were checked before.
    pub(crate) fn from_checked(block: Block) -> Self {
        Self(block)
    }

    /// The asset's id. Allocates memory; [`Asset::id_str`] does not.
    pub fn id(&self) -> AssetId {
        AssetId::trusted(self.0.id())
    }

    /// The asset's id as text, without an allocation.
    pub fn id_str(&self) -> &str {
        self.0.id()
    }

    /// The type name of the payload, which is also the type of the asset.
    pub fn type_str(&self) -> &str {
        self.0.type_name()
    }

    /// The digest of the canonical encoding; provenance is not part of it.
    pub fn digest(&self) -> Digest {
        self.0.digest()
    }

    /// The canonical encoding of the asset: one JSON object.
    pub fn canonical(&self) -> &str {
        self.0.json()
    }

    /// The payload as canonical JSON.
    pub fn payload_json(&self) -> &str {
        self.0.payload()
    }

    /// Reads the payload as a `T`.
    ///
    /// # Errors
    /// When the asset has another type, or the payload cannot be read as a `T`.
    pub fn payload<T: Message>(&self) -> Result<T, message::Error> {
        if self.type_str() != T::TYPE {
            return Err(self.misread::<T>(format!("a payload of type {}", self.type_str()), None));
        }
        serde_json::from_str(self.payload_json())
            .map_err(|e| self.misread::<T>("the payload".into(), Some(e)))
    }

    /// Reads the addon of type `T`. `None`: the asset has no such addon.
    ///
    /// # Errors
    /// When the asset has the addon, but it cannot be read as a `T`.
    pub fn addon<T: Message>(&self) -> Result<Option<T>, message::Error> {
        let Some(json) = self.addon_json(T::TYPE) else {
            return Ok(None);
        };
        serde_json::from_str(json)
            .map(Some)
            .map_err(|e| self.misread::<T>("the addon".into(), Some(e)))
    }

    /// The addon of the named type as canonical JSON. `None`: the asset has no such addon.
    pub fn addon_json(&self, type_name: &str) -> Option<&str> {
        // Most assets lack most addons. Names need no escapes, so the text of those that have one contains it.
        if !self.0.addons().contains(type_name) {
            return None;
        }
        self.addons()
            .find(|(name, _)| *name == type_name)
            .map(|(_, json)| json)
    }

    /// Whether the asset has an addon of the named type.
    pub fn has_addon(&self, type_name: &str) -> bool {
        self.addon_json(type_name).is_some()
    }

    /// All addons as pairs of type name and canonical JSON, sorted by type name.
    pub fn addons(&self) -> impl Iterator<Item = (&str, &str)> {
        let json = self.0.addons();
        let read: std::collections::BTreeMap<&str, &RawValue> = match json {
            "{}" => std::collections::BTreeMap::new(),
            some => serde_json::from_str(some).unwrap_or_default(),
        };
        read.into_iter().map(|(name, raw)| (name, raw.get()))
    }

    /// The ids of the assets that this one refers to in its payload or addons, sorted, without duplicates.
    pub fn references(&self) -> Vec<AssetId> {
        reference::targets(self.0.json_bytes()).unwrap_or_default()
    }

    /// Every reference in the payload and addons, with the field that holds it.
    pub fn located_references(&self) -> Vec<LocatedReference> {
        let mut found = Vec::new();
        let parse = |json: &str| serde_json::from_str(json).unwrap_or_default();
        reference::located("payload", &parse(self.payload_json()), &mut found);
        for (name, json) in self.addons() {
            reference::located(&format!("addons.{name}"), &parse(json), &mut found);
        }
        found
    }

    /// Every reference to external content as a pair of field path, such as `payload.model`, and reference. Costs one
    /// scan of the bytes if there is none.
    pub fn externals(&self) -> Vec<(String, ExternalRef)> {
        external::located(self.0.json_bytes()).unwrap_or_default()
    }

    /// The generator and the document that the asset came from.
    pub fn provenance(&self) -> Provenance {
        serde_json::from_str(self.0.provenance()).unwrap_or_default()
    }

    fn misread<T: Message>(
        &self,
        part: String,
        source: Option<serde_json::Error>,
    ) -> message::Error {
        message::Error {
            asset: self.id_str().to_owned(),
            part,
            wanted: T::TYPE,
            source,
        }
    }
}

impl PartialEq for Asset {
    fn eq(&self, other: &Self) -> bool {
        self.digest() == other.digest()
    }
}

impl Eq for Asset {}

impl std::fmt::Debug for Asset {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Asset").field(&self.canonical()).finish()
    }
}

/// The checked type name of `T`, for builders.
fn checked_type<T: Message>() -> Result<TypeName, Error> {
    T::type_name().map_err(|source| Error::Type { source })
}

#[cfg(test)]
mod tests;
