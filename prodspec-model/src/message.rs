//! Typed messages: the Rust types of payloads and addons.

use serde::{Serialize, de::DeserializeOwned};

use crate::id::TypeName;

/// A Rust type that can be the payload or an addon of an asset.
///
/// ```
/// use prodspec_model::Message;
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct Quota { cores: u32 }
/// impl Message for Quota { const TYPE: &'static str = "compute.v1.Quota"; }
/// ```
pub trait Message: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// The dotted, versioned name under which the message is stored.
    const TYPE: &'static str;

    /// [`Message::TYPE`] as a checked [`TypeName`].
    ///
    /// # Errors
    /// When the constant is not a valid [`TypeName`].
    fn type_name() -> Result<TypeName, crate::id::InvalidId> {
        TypeName::new(Self::TYPE)
    }
}

/// The error for a stored message that cannot be read as the type that the caller asked for.
#[derive(Debug, thiserror::Error)]
#[error("{asset}: {part} is not a valid {wanted}")]
pub struct Error {
    pub(crate) asset: String,
    pub(crate) part: String,
    pub(crate) wanted: &'static str,
    #[source]
    pub(crate) source: Option<serde_json::Error>,
}
