//! Content outside of assets: how the framework reads what an [`ExternalRef`] refers to.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use prodspec_model::{Digest, ExternalRef};

use crate::error::{BoxError, PluginError, with_causes};

/// Maximum size of the content behind one reference, in bytes: 16 MiB. The control plane keeps a copy of the content as
/// long as an incarnation refers to it.
pub const MAX_BYTES: usize = 16 << 20;

/// Reads external content by its address. The framework verifies the digest; an implementation need not.
///
/// ```
/// use async_trait::async_trait;
/// use plugin_sdk::blobs::{self, Blobs};
/// use prodspec_model::{Digest, ExternalRef};
///
/// /// Content in memory.
/// #[derive(Debug)]
/// struct Fixed(&'static str, &'static [u8]);
///
/// #[async_trait]
/// impl Blobs for Fixed {
///     async fn fetch(&self, reference: &ExternalRef) -> Result<Vec<u8>, blobs::Error> {
///         match reference.uri == self.0 {
///             true => Ok(self.1.to_vec()),
///             false => Err(blobs::Error::Missing),
///         }
///     }
/// }
///
/// # futures::executor::block_on(async {
/// let blobs = Fixed("models/fraud.bin", b"weights");
/// let right = ExternalRef::new("models/fraud.bin", Digest::of(b"weights"));
/// assert_eq!(blobs::verified(&blobs, &right).await?, b"weights");
/// let wrong = ExternalRef::new("models/fraud.bin", Digest::of(b"others"));
/// assert!(blobs::verified(&blobs, &wrong).await.is_err());
/// # Ok::<(), blobs::Error>(())
/// # }).unwrap();
/// ```
#[async_trait]
pub trait Blobs: fmt::Debug + Send + Sync + 'static {
    /// Reads the content at `reference`'s address. It need not read more than [`MAX_BYTES`] bytes.
    ///
    /// # Errors
    /// [`Error::Missing`] if there is no content at the address, [`Error::Unavailable`] if that cannot be determined.
    async fn fetch(&self, reference: &ExternalRef) -> Result<Vec<u8>, Error>;
}

#[async_trait]
impl<B: Blobs + ?Sized> Blobs for Arc<B> {
    async fn fetch(&self, reference: &ExternalRef) -> Result<Vec<u8>, Error> {
        (**self).fetch(reference).await
    }
}

/// Reason why external content cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no content at the address.
    #[error("there is no content at this address; put the content there, or correct the address")]
    Missing,
    /// The address is not one that these blobs have content for.
    #[error("not an address of these blobs: {0}")]
    Address(String),
    /// The content has another digest than the reference.
    #[error(
        "the content has the digest {found}; if that is the content you want, refer to this digest"
    )]
    Digest {
        /// Digest of the content that is there.
        found: Digest,
    },
    /// The content is larger than [`MAX_BYTES`].
    #[error("the content has more than {MAX_BYTES} bytes, the most that is kept; split it")]
    TooLarge,
    /// No blobs were given to the control plane or the request.
    #[error("no blobs are configured; add them with `.blobs(...)` to the builder")]
    Nowhere,
    /// The content cannot be read now.
    #[error("the content cannot be read now")]
    Unavailable(#[source] BoxError),
}

impl From<Error> for PluginError {
    fn from(error: Error) -> Self {
        match error {
            Error::Unavailable(_) => PluginError::transient(with_causes(&error)),
            error => PluginError::permanent(error.to_string()),
        }
    }
}

/// Reads the content that `reference` refers to, and verifies its size and its digest.
///
/// # Errors
/// See [`Error`].
pub async fn verified(
    blobs: &(impl Blobs + ?Sized),
    reference: &ExternalRef,
) -> Result<Vec<u8>, Error> {
    let content = blobs.fetch(reference).await?;
    if content.len() > MAX_BYTES {
        return Err(Error::TooLarge);
    }
    match Digest::of(&content) {
        found if found == reference.digest => Ok(content),
        found => Err(Error::Digest { found }),
    }
}
