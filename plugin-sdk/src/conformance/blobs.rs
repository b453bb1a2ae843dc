//! Laws of external content.

use prodspec_model::{Digest, ExternalRef};

use super::Violation;
use crate::blobs::{self, Blobs, verified};

/// Tests blobs that have the content `content` at the address `there`, and nothing at the address `nowhere`.
///
/// ```
/// # use async_trait::async_trait;
/// # use plugin_sdk::blobs::{self, Blobs};
/// # use prodspec_model::ExternalRef;
/// # #[derive(Debug)]
/// # struct Fixed(&'static str, &'static [u8]);
/// # #[async_trait]
/// # impl Blobs for Fixed {
/// #     async fn fetch(&self, reference: &ExternalRef) -> Result<Vec<u8>, blobs::Error> {
/// #         if reference.uri == self.0 { Ok(self.1.to_vec()) } else { Err(blobs::Error::Missing) }
/// #     }
/// # }
/// let fixed = Fixed("models/fraud.bin", b"weights");
/// let tested = plugin_sdk::conformance::blobs(&fixed, "models/fraud.bin", b"weights", "models/none.bin");
/// futures::executor::block_on(tested).unwrap();
/// ```
///
/// # Errors
/// The first law that does not hold.
pub async fn blobs(
    blobs: &dyn Blobs,
    there: &str,
    content: &[u8],
    nowhere: &str,
) -> Result<(), Violation> {
    let broken = |law, found: &dyn std::fmt::Debug| Err(Violation::new("blobs", law, found));
    let digest = Digest::of(content);
    for _ in 0..2 {
        match verified(blobs, &ExternalRef::new(there, digest)).await {
            Ok(read) if read == content => {}
            found => return broken("the content at an address is read, each time", &found),
        }
    }
    let found = verified(
        blobs,
        &ExternalRef::new(there, Digest::of(b"another content")),
    )
    .await;
    if found.is_ok() {
        return broken("content of another digest is refused", &found);
    }
    match verified(blobs, &ExternalRef::new(nowhere, digest)).await {
        Err(blobs::Error::Missing | blobs::Error::Address(_)) => Ok(()),
        found => broken(
            "an address without content is missing, not unavailable",
            &found,
        ),
    }
}
