//! Prost's generated messages as typed payloads and addons.

use prost::Name;
use prost_reflect::{DeserializeOptions, DynamicMessage, ReflectMessage};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};

use super::check;
use crate::message::Message;

/// A message that prost has generated, as a [`Message`]: `Asset::payload::<Proto<FrontendJob>>()`.
///
/// The generated type needs its name and its descriptor: `enable_type_names` of `prost-build`, and
/// `prost-reflect-build`. Only messages that are not nested in others can be payloads and addons. Prost drops unknown
/// fields when it decodes a message from bytes; decode a `DynamicMessage` where they have to be refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Proto<M>(pub M);

impl<M: Name + ReflectMessage + Default + 'static> Message for Proto<M> {
    const TYPE: &'static str = joined(&Self::NAME);
}

impl<M: Name> Proto<M> {
    const NAME: FullName = FullName::of(M::PACKAGE, M::NAME);
}

/// The longest name of a type, and the length of the name that the bytes begin with.
struct FullName([u8; 253], usize);

impl FullName {
    /// The package and the name, joined by a dot. Empty, which no type is named, if that is too long.
    const fn of(package: &str, name: &str) -> Self {
        let (package, name) = (package.as_bytes(), name.as_bytes());
        let mut bytes = [b'.'; 253];
        let length = package.len() + 1 + name.len();
        if length > bytes.len() {
            return Self(bytes, 0);
        }
        let mut at = 0;
        while at < package.len() {
            bytes[at] = package[at];
            at += 1;
        }
        let mut at = 0;
        while at < name.len() {
            bytes[package.len() + 1 + at] = name[at];
            at += 1;
        }
        Self(bytes, length)
    }
}

const fn joined(name: &'static FullName) -> &'static str {
    let (name, _) = name.0.split_at(name.1);
    match std::str::from_utf8(name) {
        Ok(name) => name,
        Err(_) => "",
    }
}

/// Writes the JSON mapping of the message.
impl<M: Name + ReflectMessage + Default + 'static> Serialize for Proto<M> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let descriptor = self.0.descriptor();
        if descriptor.full_name() != Self::TYPE {
            return Err(ser::Error::custom(misnamed(
                descriptor.full_name(),
                Self::TYPE,
            )));
        }
        let mut dynamic = DynamicMessage::new(descriptor);
        dynamic
            .transcode_from(&self.0)
            .map_err(ser::Error::custom)?;
        check::check(&dynamic).map_err(ser::Error::custom)?;
        dynamic.serialize(serializer)
    }
}

/// Reads the JSON mapping of the message. Unknown fields are ignored.
impl<'de, M: Name + ReflectMessage + Default + 'static> Deserialize<'de> for Proto<M> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let descriptor = M::default().descriptor();
        if descriptor.full_name() != Self::TYPE {
            return Err(de::Error::custom(misnamed(
                descriptor.full_name(),
                Self::TYPE,
            )));
        }
        let options = DeserializeOptions::new().deny_unknown_fields(false);
        let dynamic = DynamicMessage::deserialize_with_options(descriptor, deserializer, &options)?;
        dynamic.transcode_to().map(Self).map_err(de::Error::custom)
    }
}

fn misnamed(descriptor: &str, name: &str) -> String {
    format!(
        "the descriptor is that of `{descriptor}`, but the message is called `{name}`; use a message that is not nested in another, with its own descriptor"
    )
}
