//! External content in an OCI image layout.

use std::path::Path;

use async_trait::async_trait;
use plugin_sdk::blobs::{Blobs, Error};
use prodspec_gen::BlobDirectory;
use prodspec_model::ExternalRef;

use crate::unpacked::sha256;

/// External content in the blobs of an OCI image layout on disk. The address of a content is the digest that the layout
/// knows it by, such as `sha256:` and 64 hexadecimal digits. Both digests are verified: this one, and the BLAKE3 digest
/// of the reference.
///
/// ```
/// use plugin_sdk::blobs::verified;
/// use plugins_archive::OciBlobs;
/// use prodspec_model::{Digest, ExternalRef};
///
/// let image = tempfile::tempdir()?;
/// let hex = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";
/// std::fs::create_dir_all(image.path().join("blobs/sha256"))?;
/// std::fs::write(image.path().join("blobs/sha256").join(hex), "{}")?;
/// let reference = ExternalRef::new(format!("sha256:{hex}"), Digest::of(b"{}"));
/// let blobs = OciBlobs::new(image.path());
/// assert_eq!(futures::executor::block_on(verified(&blobs, &reference))?, b"{}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct OciBlobs(BlobDirectory);

impl OciBlobs {
    /// The blobs of the layout in the directory at `layout`.
    pub fn new(layout: impl AsRef<Path>) -> Self {
        Self(BlobDirectory::new(layout.as_ref().join("blobs")))
    }
}

#[async_trait]
impl Blobs for OciBlobs {
    async fn fetch(&self, reference: &ExternalRef) -> Result<Vec<u8>, Error> {
        let uri = &reference.uri;
        let hex = uri.strip_prefix("sha256:").unwrap_or_default();
        if hex.len() != 64 || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            let message = format!("`{uri}` is not `sha256:` and 64 hexadecimal digits");
            return Err(Error::Address(message));
        }
        let file = ExternalRef::new(format!("sha256/{hex}"), reference.digest);
        let content = self.0.fetch(&file).await?;
        match sha256(&content) {
            found if found == *uri => Ok(content),
            found => Err(Error::Unavailable(
                format!("the blob has the digest {found}: it is damaged; copy the layout again")
                    .into(),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use plugin_sdk::{blobs::verified, conformance};
    use prodspec_model::Digest;

    use super::*;

    #[test]
    fn blobs_of_a_layout_are_verified() {
        let image = tempfile::tempdir().unwrap();
        let directory = image.path().join("blobs/sha256");
        std::fs::create_dir_all(&directory).unwrap();
        let there = sha256(b"weights");
        let file = directory.join(there.trim_start_matches("sha256:"));
        std::fs::write(&file, b"weights").unwrap();
        let blobs = OciBlobs::new(image.path());
        let none = sha256(b"none");
        let laws = conformance::blobs(&blobs, &there, b"weights", &none);
        futures::executor::block_on(laws).unwrap();

        std::fs::write(&file, b"damaged").unwrap();
        let reference = ExternalRef::new(there, Digest::of(b"weights"));
        let said = futures::executor::block_on(verified(&blobs, &reference)).unwrap_err();
        assert!(matches!(said, Error::Unavailable(_)), "{said}");
    }
}
