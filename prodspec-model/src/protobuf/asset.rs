//! Assets with messages that are known by their descriptors at run time.

use prost_reflect::{DynamicMessage, MessageDescriptor, ReflectMessage};
use serde_json::Value;

use super::{Error, from_json, to_json, type_name};
use crate::{
    asset::{self, Asset, AssetBuilder},
    canonical,
    id::TypeName,
};

impl AssetBuilder {
    /// Sets the payload to a message that is known at run time. Its full name becomes the asset's type.
    ///
    /// # Errors
    /// When the message has unknown fields, no package, or something that canonical JSON cannot hold.
    pub fn payload_dynamic(self, message: &DynamicMessage) -> Result<Self, asset::Error> {
        let (name, value) = self.mapped(message)?;
        self.payload_value(name, &value)
    }

    /// Adds an addon that is a message known at run time.
    ///
    /// # Errors
    /// As [`payload_dynamic`](Self::payload_dynamic). Also if the asset already has an addon of this type.
    pub fn addon_dynamic(self, message: &DynamicMessage) -> Result<Self, asset::Error> {
        let (name, value) = self.mapped(message)?;
        self.addon_value(name, &value)
    }

    fn mapped(&self, message: &DynamicMessage) -> Result<(TypeName, Value), asset::Error> {
        let descriptor = message.descriptor();
        let refused = |why: String| asset::Error::Encode {
            asset: self.id().clone(),
            part: descriptor.full_name().to_owned(),
            source: canonical::Error::Custom(why),
        };
        let name = type_name(&descriptor).map_err(|source| asset::Error::Type { source })?;
        let json = to_json(message).map_err(|error| match error {
            Error::Canonical(source) => asset::Error::Encode {
                asset: self.id().clone(),
                part: descriptor.full_name().to_owned(),
                source,
            },
            other => refused(other.to_string()),
        })?;
        let value = serde_json::from_str(&json).map_err(|error| refused(error.to_string()))?;
        Ok((name, value))
    }
}

impl Asset {
    /// Reads the payload as a message of this type. Fields that the descriptor does not have are ignored.
    ///
    /// # Errors
    /// When the asset has another type, or the payload cannot be read as such a message.
    pub fn payload_dynamic(&self, descriptor: &MessageDescriptor) -> Result<DynamicMessage, Error> {
        if self.type_str() != descriptor.full_name() {
            return Err(Error::Type {
                asset: self.id_str().to_owned(),
                found: self.type_str().to_owned(),
                wanted: descriptor.full_name().to_owned(),
            });
        }
        from_json(descriptor, self.payload_json())
    }

    /// Reads the addon that is a message of this type. `None`: the asset has no such addon.
    ///
    /// # Errors
    /// When the asset has the addon, but it cannot be read as such a message.
    pub fn addon_dynamic(
        &self,
        descriptor: &MessageDescriptor,
    ) -> Result<Option<DynamicMessage>, Error> {
        let json = self.addon_json(descriptor.full_name());
        json.map(|json| from_json(descriptor, json)).transpose()
    }
}
