//! Assets: one resource of one provider, as an immutable value.

mod block;
mod builder;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

pub use block::Block;
pub use block::Damaged;
pub use builder::{AssetBuilder, Error, ReadError};

use crate::{
    digest::Digest,
    id::{AssetId, TypeName},
    message::{self, Message},
    reference,
};

/// The longest canonical encoding of an asset (id, payload, addons), in bytes.
pub const MAX_BYTES: usize = 150_000;

/// One resource of one provider: id, payload, addons. Immutable, cheap to clone; equal content has an equal digest.
///
/// Its canonical encoding is one JSON object, kept in one block of bytes:
/// `{"addons":{TYPE:VALUE,...},"id":"...","payload":VALUE,"type":"..."}`.
#[derive(Clone)]
pub struct Asset(Block);

/// Where an asset came from: kept beside its content, not part of its digest.
///
/// It is true for the incarnation in which the asset's content last changed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Provenance {
    /// The generator that made it.
    pub generator: String,
    /// The document it was made from, such as `manifest.yaml#0`.
    pub document: String,
    /// Line in the document, from 1; 0 when unknown.
    pub line: u32,
    /// Column in the document, from 1; 0 when unknown.
    pub column: u32,
}

impl Asset {
    /// Starts an asset named `id`.
    pub fn builder(id: AssetId) -> AssetBuilder {
        AssetBuilder::new(id)
    }

    /// Starts a changed copy of this asset: the same id, payload, addons and provenance.
    pub fn edit(&self) -> AssetBuilder {
        AssetBuilder::from_asset(self)
    }

    /// The asset's block of bytes.
    pub fn block(&self) -> &Block {
        &self.0
    }

    /// The asset in `block`.
    ///
    /// # Errors
    /// When the bytes are no asset: torn, changed, or something else.
    pub fn from_block(block: Block) -> Result<Self, Damaged> {
        block.check()?;
        Ok(Self(block))
    }

    /// As [`Asset::from_block`], for bytes that were checked before.
    pub(crate) fn from_checked(block: Block) -> Self {
        Self(block)
    }

    /// The asset's id. Allocates; compare with [`Asset::id_str`] instead where that is enough.
    pub fn id(&self) -> AssetId {
        AssetId::trusted(self.0.id())
    }

    /// The asset's id as text.
    pub fn id_str(&self) -> &str {
        self.0.id()
    }

    /// The payload's type, which is the asset's type.
    pub fn type_str(&self) -> &str {
        self.0.type_name()
    }

    /// The digest of the canonical encoding.
    pub fn digest(&self) -> Digest {
        self.0.digest()
    }

    /// The canonical encoding.
    pub fn canonical(&self) -> &str {
        self.0.json()
    }

    /// The payload as canonical JSON.
    pub fn payload_json(&self) -> &str {
        self.0.payload()
    }

    /// The payload as a `T`.
    ///
    /// # Errors
    /// When the asset has another type, or the payload does not read as a `T`.
    pub fn payload<T: Message>(&self) -> Result<T, message::Error> {
        if self.type_str() != T::TYPE {
            return Err(self.misread::<T>(format!("a payload of type {}", self.type_str()), None));
        }
        serde_json::from_str(self.payload_json())
            .map_err(|e| self.misread::<T>("the payload".into(), Some(e)))
    }

    /// The addon of type `T`, if the asset carries one.
    ///
    /// # Errors
    /// When there is one and it does not read as a `T`.
    pub fn addon<T: Message>(&self) -> Result<Option<T>, message::Error> {
        let Some(json) = self.addon_json(T::TYPE) else {
            return Ok(None);
        };
        serde_json::from_str(json)
            .map(Some)
            .map_err(|e| self.misread::<T>("the addon".into(), Some(e)))
    }

    /// The addon of the named type as canonical JSON, if the asset carries one.
    pub fn addon_json(&self, type_name: &str) -> Option<&str> {
        self.addons()
            .find(|(name, _)| *name == type_name)
            .map(|(_, json)| json)
    }

    /// Whether the asset carries an addon of the named type.
    pub fn has_addon(&self, type_name: &str) -> bool {
        self.addon_json(type_name).is_some()
    }

    /// Every addon as its type and canonical JSON, by type.
    pub fn addons(&self) -> impl Iterator<Item = (&str, &str)> {
        let json = self.0.addons();
        let read: std::collections::BTreeMap<&str, &RawValue> = match json {
            "{}" => std::collections::BTreeMap::new(),
            some => serde_json::from_str(some).unwrap_or_default(),
        };
        read.into_iter().map(|(name, raw)| (name, raw.get()))
    }

    /// The assets this one refers to in payload or addons, sorted, each once.
    pub fn references(&self) -> Vec<AssetId> {
        reference::targets(self.0.json_bytes()).unwrap_or_default()
    }

    /// Every reference with its field path, such as `addons.prodspec.v1.DependsOn.edges[0].provider`.
    pub fn located_references(&self) -> Vec<(String, AssetId)> {
        let mut found = Vec::new();
        let parse = |json: &str| serde_json::from_str(json).unwrap_or_default();
        reference::located("payload", &parse(self.payload_json()), &mut found);
        for (name, json) in self.addons() {
            reference::located(&format!("addons.{name}"), &parse(json), &mut found);
        }
        found
    }

    /// Where the asset came from.
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

/// Checks that a type name is one, for builders.
fn checked_type<T: Message>() -> Result<TypeName, Error> {
    T::type_name().map_err(|source| Error::Type { source })
}

#[cfg(test)]
mod tests;
