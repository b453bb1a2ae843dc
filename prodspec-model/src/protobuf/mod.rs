//! Protobuf messages as payloads and addons, with the feature `protobuf`.
//!
//! A message is stored as its [JSON mapping](https://protobuf.dev/programming-guides/json/) in canonical JSON: fields by
//! their JSON names, without those that have their default; 64-bit integers as strings, which is exact; enums by name;
//! the well-known types by their own rules. Other than in the mapping, NaN and infinity are refused, as in all payloads.
//!
//! Writing is strict, because a field that the descriptor does not have would be lost. Reading is tolerant: an older
//! reader ignores fields that it does not know. [`check`] reads strictly.
//!
//! ```
//! use prodspec_model::{Asset, AssetId, protobuf};
//! # use prodspec_model::protobuf::prost_reflect;
//! use prost_reflect::{DescriptorPool, DynamicMessage, Value};
//!
//! // A program has its own descriptors: from a file, from protox, or from its build.
//! let pool = DescriptorPool::global();
//! let duration = pool.get_message_by_name("google.protobuf.Duration").ok_or("no such message")?;
//! let mut hour = DynamicMessage::new(duration.clone());
//! hour.set_field_by_name("seconds", Value::I64(3_600));
//!
//! let asset = Asset::builder(AssetId::new("timeouts/build")?).payload_dynamic(&hour)?.build()?;
//! assert_eq!(asset.type_str(), "google.protobuf.Duration");
//! assert_eq!(asset.payload_json(), r#""3600s""#);
//! assert_eq!(asset.payload_dynamic(&duration)?, hour);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod asset;
mod check;
mod proto;

use prost_reflect::{DeserializeOptions, DynamicMessage, MessageDescriptor};

pub use prost_reflect;
pub use proto::Proto;

use crate::{
    canonical,
    id::{InvalidId, TypeName},
};

/// The reasons for which a message cannot be written as canonical JSON, or read from it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The message was decoded from bytes with a field that its descriptor does not have.
    #[error(
        "{at}has the unknown field number {number}; use the descriptor that it was written with, or remove the field"
    )]
    Unknown {
        /// The path of the message that has the field, followed by a colon and a space. Empty for the outermost message.
        at: String,
        /// The number of the unknown field, as on the wire.
        number: u32,
    },
    /// A float is NaN or infinite.
    #[error("{field}: {number} is not a JSON number; leave the field out or use a finite number")]
    NotFinite {
        /// The path of the float, such as `limits[0].cores`.
        field: String,
        /// The float as text: `NaN`, `inf` or `-inf`.
        number: String,
    },
    /// A packed message cannot be unpacked.
    #[error("{field}: a packed message of the type `{type_url}` cannot be read: {why}")]
    Packed {
        /// The path of the `google.protobuf.Any`.
        field: String,
        /// The type that it names.
        type_url: String,
        /// The reason, and what to do.
        why: String,
    },
    /// The message has no canonical JSON.
    #[error("the message has no canonical JSON")]
    Canonical(#[from] canonical::Error),
    /// The JSON is not that of such a message.
    #[error("not the JSON of a `{message}`")]
    Json {
        /// The full name of the message.
        message: String,
        /// The reason, with its position in the JSON.
        source: serde_json::Error,
    },
    /// The asset has a payload of another type.
    #[error("{asset} has a payload of the type `{found}`, not `{wanted}`")]
    Type {
        /// The id of the asset that was read.
        asset: String,
        /// The type of its payload.
        found: String,
        /// The full name of the message that was asked for.
        wanted: String,
    },
}

/// The canonical JSON of a message.
///
/// # Errors
/// When the message has unknown fields, or something that JSON cannot hold.
pub fn to_json(message: &DynamicMessage) -> Result<String, Error> {
    check::check(message)?;
    let bytes = canonical::to_bytes(message)?;
    // Canonical JSON is always UTF-8.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Reads a message from its JSON. Fields that the descriptor does not have are ignored.
///
/// # Errors
/// When the JSON is not that of such a message.
pub fn from_json(descriptor: &MessageDescriptor, json: &str) -> Result<DynamicMessage, Error> {
    read(descriptor, json, false)
}

/// Checks JSON as the seal does: it has to be that of a message of this type, without unknown fields. For validators of
/// types that are known by their descriptor only.
///
/// # Errors
/// When the JSON is not that of such a message, or has a field that the descriptor does not have.
pub fn check(descriptor: &MessageDescriptor, json: &str) -> Result<(), Error> {
    to_json(&read(descriptor, json, true)?).map(drop)
}

/// The name of a message as the type of payloads and addons: its full name, such as `shakespeare.v1.FrontendJob`.
///
/// # Errors
/// When the message has no package.
pub fn type_name(descriptor: &MessageDescriptor) -> Result<TypeName, InvalidId> {
    TypeName::new(descriptor.full_name())
}

fn read(descriptor: &MessageDescriptor, json: &str, strict: bool) -> Result<DynamicMessage, Error> {
    let options = DeserializeOptions::new().deny_unknown_fields(strict);
    let mut json = serde_json::Deserializer::from_str(json);
    let read = DynamicMessage::deserialize_with_options(descriptor.clone(), &mut json, &options);
    let read = read.and_then(|message| json.end().map(|()| message));
    read.map_err(|source| Error::Json {
        message: descriptor.full_name().into(),
        source,
    })
}

#[cfg(test)]
mod tests;
