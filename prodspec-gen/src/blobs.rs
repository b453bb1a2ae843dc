//! External content in a directory.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::{Component, Path, PathBuf},
};

use async_trait::async_trait;
use plugin_sdk::blobs::{Blobs, Error, MAX_BYTES};
use prodspec_model::ExternalRef;

/// External content in the files of a directory. The address of a content is the path of its file in the directory, such
/// as `models/fraud.bin`. Links that lead out of the directory are refused.
///
/// ```
/// use plugin_sdk::blobs::verified;
/// use prodspec_gen::BlobDirectory;
/// use prodspec_model::{Digest, ExternalRef};
///
/// let dir = tempfile::tempdir()?;
/// std::fs::write(dir.path().join("fraud.bin"), b"weights")?;
/// let blobs = BlobDirectory::new(dir.path());
/// let reference = ExternalRef::new("fraud.bin", Digest::of(b"weights"));
/// assert_eq!(futures::executor::block_on(verified(&blobs, &reference))?, b"weights");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct BlobDirectory(PathBuf);

impl BlobDirectory {
    /// The files of `directory`, which is read anew for each content.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self(directory.into())
    }

    fn read(&self, uri: &str) -> Result<Vec<u8>, Error> {
        let path = Path::new(uri);
        let inside = |part: Component<'_>| matches!(part, Component::Normal(_));
        if uri.is_empty() || !path.components().all(inside) {
            let directory = self.0.display();
            let message = format!("`{uri}` is not the path of a file in `{directory}`");
            return Err(Error::Address(message));
        }
        let root = fs::canonicalize(&self.0).map_err(unreadable)?;
        let file = fs::canonicalize(root.join(path)).map_err(unreadable)?;
        if !file.starts_with(&root) || !fs::metadata(&file).map_err(unreadable)?.is_file() {
            let message = format!("`{uri}` is not a regular file in `{}`", root.display());
            return Err(Error::Address(message));
        }
        let mut content = Vec::new();
        let most = MAX_BYTES as u64 + 1;
        let read = File::open(file).and_then(|file| file.take(most).read_to_end(&mut content));
        read.map_err(unreadable)?;
        Ok(content)
    }
}

fn unreadable(error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Error::Missing,
        _ => Error::Unavailable(error.into()),
    }
}

#[async_trait]
impl Blobs for BlobDirectory {
    async fn fetch(&self, reference: &ExternalRef) -> Result<Vec<u8>, Error> {
        self.read(&reference.uri)
    }
}

#[cfg(test)]
mod tests {
    use plugin_sdk::{blobs::verified, conformance};
    use prodspec_model::Digest;

    use super::*;

    #[test]
    fn files_of_a_directory_are_blobs() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("models")).unwrap();
        fs::write(dir.path().join("models/fraud.bin"), b"weights").unwrap();
        let blobs = BlobDirectory::new(dir.path());
        let laws = conformance::blobs(&blobs, "models/fraud.bin", b"weights", "models/none");
        futures::executor::block_on(laws).unwrap();
    }

    #[test]
    fn only_regular_files_inside_of_the_directory_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("inner");
        fs::create_dir(&inner).unwrap();
        fs::write(dir.path().join("secret"), b"x").unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink("../secret", inner.join("link")).unwrap();
        let blobs = BlobDirectory::new(&inner);
        for uri in [
            "../secret",
            "/etc/passwd",
            "",
            ".",
            "link",
            "a/../../secret",
        ] {
            let reference = ExternalRef::new(uri, Digest::of(b"x"));
            let said = futures::executor::block_on(verified(&blobs, &reference)).unwrap_err();
            assert!(matches!(said, Error::Address(_)), "{uri}: {said}");
        }
    }

    #[test]
    fn content_above_the_limit_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let large = File::create(dir.path().join("large")).unwrap();
        large.set_len(MAX_BYTES as u64 + 1).unwrap();
        let reference = ExternalRef::new("large", Digest::of(b"x"));
        let blobs = BlobDirectory::new(dir.path());
        let said = futures::executor::block_on(verified(&blobs, &reference)).unwrap_err();
        assert!(matches!(said, Error::TooLarge), "{said}");
    }
}
