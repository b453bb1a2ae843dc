//! Building assets. The builder checks every limit, so each existing [`Asset`] is within the limits.

use std::collections::BTreeMap;

use serde_json::{Value, value::RawValue};

use super::{
    Asset, MAX_BYTES, Provenance,
    block::{Block, Layout},
    checked_type,
};
use crate::{
    canonical,
    external::{self, InvalidExternal},
    id::{AssetId, InvalidId, TypeName},
    message::Message,
    reference::{self, InvalidReference},
};

/// The reasons for which an asset cannot be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The canonical encoding is longer than [`MAX_BYTES`].
    #[error(
        "{asset} has {bytes} bytes, {MAX_BYTES} are allowed; keep large configuration behind an ExternalRef"
    )]
    TooLarge {
        /// The id of the asset under construction.
        asset: AssetId,
        /// The length of its canonical encoding, in bytes.
        bytes: usize,
    },
    /// No payload was given to the builder.
    #[error("{0} has no payload; set one: it gives the asset its type")]
    NoPayload(AssetId),
    /// The asset has two addons of the same type.
    #[error("{asset} has two addons of type {addon}; merge them")]
    DuplicateAddon {
        /// The id of the asset under construction.
        asset: AssetId,
        /// The type that two addons have.
        addon: TypeName,
    },
    /// The payload or an addon has no canonical JSON.
    #[error("{part} of {asset} cannot be written as canonical JSON")]
    Encode {
        /// The id of the asset under construction.
        asset: AssetId,
        /// The type name of the payload or addon.
        part: String,
        /// The reason from the canonical encoder.
        source: canonical::Error,
    },
    /// The constant [`Message::TYPE`] is not a valid type name.
    #[error("a message type has an invalid name")]
    Type {
        /// The rule that the name breaks.
        source: InvalidId,
    },
    /// An object with the key `$asset` has other keys, or its value is not a valid asset id.
    #[error("{asset} holds an invalid reference")]
    Reference {
        /// The id of the asset under construction.
        asset: AssetId,
        /// The reason why the reference is invalid.
        source: InvalidReference,
    },
    /// An object with the key `$external` is not a reference with a digest.
    #[error("{asset} holds an invalid reference to external content")]
    External {
        /// The id of the asset under construction.
        asset: AssetId,
        /// The reason why the reference is invalid.
        source: InvalidExternal,
    },
}

/// An asset under construction. [`AssetBuilder::build`] checks it.
#[derive(Debug, Clone)]
#[must_use]
pub struct AssetBuilder {
    id: AssetId,
    payload: Option<(TypeName, Vec<u8>)>,
    addons: BTreeMap<TypeName, Vec<u8>>,
    provenance: Provenance,
}

impl AssetBuilder {
    pub(super) fn new(id: AssetId) -> Self {
        Self {
            id,
            payload: None,
            addons: BTreeMap::new(),
            provenance: Provenance::default(),
        }
    }

    pub(super) fn from_asset(asset: &Asset) -> Self {
        // Invariant: names in an existing asset were checked when it was built or loaded.
        let named = |(name, json): (&str, &str)| {
            Some((TypeName::new(name).ok()?, json.as_bytes().to_vec()))
        };
        Self {
            id: asset.id(),
            payload: named((asset.type_str(), asset.payload_json())),
            addons: asset.addons().filter_map(named).collect(),
            provenance: asset.provenance(),
        }
    }

    /// Sets the payload, and with it the asset's type.
    ///
    /// # Errors
    /// When the payload has no canonical JSON.
    pub fn payload<T: Message>(self, payload: &T) -> Result<Self, Error> {
        let json = self.encode(T::TYPE, payload)?;
        Ok(Self {
            payload: Some((checked_type::<T>()?, json)),
            ..self
        })
    }

    /// Sets the payload from a type name and JSON, for callers that do not know the Rust type.
    ///
    /// # Errors
    /// When the value has no canonical JSON.
    pub fn payload_value(self, type_name: TypeName, value: &Value) -> Result<Self, Error> {
        let json = self.encode(type_name.as_str(), value)?;
        Ok(Self {
            payload: Some((type_name, json)),
            ..self
        })
    }

    /// Adds an addon to the asset.
    ///
    /// # Errors
    /// When the asset already has an addon of this type, or the addon has no canonical JSON.
    pub fn addon<T: Message>(mut self, addon: &T) -> Result<Self, Error> {
        let json = self.encode(T::TYPE, addon)?;
        self.insert(checked_type::<T>()?, json)?;
        Ok(self)
    }

    /// Adds an addon from a type name and JSON, for callers that do not know the Rust type.
    ///
    /// # Errors
    /// As [`AssetBuilder::addon`].
    pub fn addon_value(mut self, type_name: TypeName, value: &Value) -> Result<Self, Error> {
        let json = self.encode(type_name.as_str(), value)?;
        self.insert(type_name, json)?;
        Ok(self)
    }

    /// Removes the addon of type `T`. Does nothing if the asset has none.
    pub fn without_addon<T: Message>(mut self) -> Self {
        self.addons.retain(|name, _| name.as_str() != T::TYPE);
        self
    }

    /// Adds a generator to those that amended the asset.
    pub fn amended_by(mut self, generator: &str) -> Self {
        self.provenance.amenders.push(generator.to_owned());
        self
    }

    /// Sets the provenance: the generators and the document that the asset comes from.
    pub fn provenance(mut self, provenance: Provenance) -> Self {
        self.provenance = provenance;
        self
    }

    /// The provenance that was set last.
    pub fn origin(&self) -> &Provenance {
        &self.provenance
    }

    /// Checks all limits and builds the asset.
    ///
    /// # Errors
    /// When there is no payload, the encoding is longer than [`MAX_BYTES`], or a reference is invalid.
    pub fn build(&self) -> Result<Asset, Error> {
        let Some((type_name, payload)) = &self.payload else {
            return Err(Error::NoPayload(self.id.clone()));
        };
        let mut json = Vec::with_capacity(payload.len() + 300);
        json.extend_from_slice(br#"{"addons":{"#);
        for (at, (name, value)) in self.addons.iter().enumerate() {
            json.extend_from_slice(if at == 0 { b"\"" } else { b",\"" });
            json.extend_from_slice(name.as_str().as_bytes());
            json.extend_from_slice(b"\":");
            json.extend_from_slice(value);
        }
        json.extend_from_slice(br#"},"id":""#);
        let id = json.len();
        json.extend_from_slice(self.id.as_str().as_bytes());
        json.extend_from_slice(br#"","payload":"#);
        let at_payload = json.len();
        json.extend_from_slice(payload);
        json.extend_from_slice(br#","type":""#);
        let at_type = json.len();
        json.extend_from_slice(type_name.as_str().as_bytes());
        json.extend_from_slice(br#""}"#);
        if json.len() > MAX_BYTES {
            return Err(Error::TooLarge {
                bytes: json.len(),
                asset: self.id.clone(),
            });
        }
        if let Err(source) = reference::targets(&json) {
            return Err(Error::Reference {
                asset: self.id.clone(),
                source,
            });
        }
        if let Err(source) = external::located(&json) {
            return Err(Error::External {
                asset: self.id.clone(),
                source,
            });
        }
        // The encoding cannot fail: a struct of strings and integers always has canonical JSON.
        let provenance = canonical::to_bytes(&self.provenance).unwrap_or_else(|_| b"{}".to_vec());
        Ok(Asset(Block::encode(
            &json,
            &provenance,
            &Layout {
                id,
                payload: at_payload,
                type_name: at_type,
            },
        )))
    }

    /// The id of the asset under construction.
    #[cfg(feature = "protobuf")]
    pub(crate) fn id(&self) -> &AssetId {
        &self.id
    }

    fn encode<T: serde::Serialize>(&self, part: &str, value: &T) -> Result<Vec<u8>, Error> {
        canonical::to_bytes(value).map_err(|source| Error::Encode {
            asset: self.id.clone(),
            part: part.into(),
            source,
        })
    }

    fn insert(&mut self, name: TypeName, json: Vec<u8>) -> Result<(), Error> {
        match self.addons.entry(name) {
            std::collections::btree_map::Entry::Vacant(place) => {
                place.insert(json);
                Ok(())
            }
            std::collections::btree_map::Entry::Occupied(there) => Err(Error::DuplicateAddon {
                asset: self.id.clone(),
                addon: there.key().clone(),
            }),
        }
    }
}

/// Reads an asset from its canonical JSON.
impl TryFrom<&str> for Asset {
    type Error = ReadError;

    fn try_from(json: &str) -> Result<Self, ReadError> {
        #[derive(serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Wire<'a> {
            #[serde(borrow, default)]
            addons: BTreeMap<TypeName, &'a RawValue>,
            id: AssetId,
            #[serde(borrow)]
            payload: &'a RawValue,
            r#type: TypeName,
        }
        let wire: Wire<'_> = serde_json::from_str(json)?;
        let mut builder = Asset::builder(wire.id)
            .payload_value(wire.r#type, &serde_json::from_str(wire.payload.get())?)?;
        for (name, raw) in wire.addons {
            builder = builder.addon_value(name, &serde_json::from_str(raw.get())?)?;
        }
        Ok(builder.build()?)
    }
}

/// The reasons for which a text cannot be read as an asset.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The text is not JSON with the fields of an asset.
    #[error("not the JSON of an asset")]
    Json(#[from] serde_json::Error),
    /// The fields were read, but do not make a valid asset.
    #[error("not a valid asset")]
    Asset(#[from] Error),
}
