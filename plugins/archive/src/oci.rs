//! An OCI image layout on disk as a tree of files, pinned by the digest of its manifest.

use std::{path::PathBuf, time::SystemTime};

use plugin_sdk::{Problem, Problems};
use prodspec_gen::{
    file::FileReader,
    format::{Format, Json, Toml, Yaml},
    tree::{Snapshot, Stop, Tree, TreeSource},
};
use prodspec_model::Revision;
use serde::{Deserialize, de::DeserializeOwned};

use crate::{
    files::{Files, Limits},
    unpacked::{Unpacked, sha256},
};

/// Maximum length of the files that describe a layout, in bytes.
const DESCRIPTION: u64 = 4 << 20;
/// Maximum number of layers, as in most tools.
const LAYERS: usize = 127;
/// The ends of the media types of layers that can be read.
const TAR: [&str; 3] = [".tar", ".tar+gzip", ".tar.gzip"];

/// An image in an OCI image layout, whose files are a source of truth. The revision is the digest of its manifest.
///
/// The manifest is pinned by its digest, so that the content never changes: a layout of another content is refused, and
/// once it was read, nothing is opened again. All digests are verified. The layers are laid on top of each other, and
/// whiteouts remove files of lower ones.
///
/// ```
/// use plugin_sdk::SourceOfTruth;
/// use plugins_archive::OciLayout;
///
/// # let dir = std::env::temp_dir();
/// let digest = "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";
/// let clusters = OciLayout::new(dir.join("image")).digest(digest).yaml().path("configs");
/// assert_eq!(clusters.name().0.as_ref(), "image");
/// ```
#[derive(Debug)]
pub struct OciLayout {
    path: PathBuf,
    digest: String,
    limits: Limits,
}

impl OciLayout {
    /// A source that reads the layout in the directory at `path`. It needs a [digest](Self::digest).
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            digest: String::new(),
            limits: Limits::default(),
        }
    }

    /// Pins the manifest of the image: `sha256:` and 64 hexadecimal digits. Without it, readings fail and tell the digests
    /// in the layout.
    #[must_use]
    pub fn digest(mut self, digest: &str) -> Self {
        self.digest = digest.into();
        self
    }

    /// Sets the limits of the layers. Those of the files in them are set at the source.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Makes a source of the YAML files of the image.
    pub fn yaml(self) -> TreeSource<Self, Yaml> {
        self.files()
    }

    /// Makes a source of the JSON files of the image.
    pub fn json(self) -> TreeSource<Self, Json> {
        self.files()
    }

    /// Makes a source of the TOML files of the image.
    pub fn toml(self) -> TreeSource<Self, Toml> {
        self.files()
    }

    /// Makes a source of the files of another format in the image. Its name is that of the directory.
    pub fn files<F: Format>(self) -> TreeSource<Self, F> {
        let name = self.path.file_name().unwrap_or(self.path.as_os_str());
        let name = name.to_string_lossy().into_owned();
        TreeSource::new(&name, self)
    }

    fn problem(&self, message: impl std::fmt::Display) -> Problem {
        Problem::new(message).at(self.path.to_string_lossy(), 0, 0)
    }

    /// Reads a file of the layout, which may have at most `cap` bytes.
    fn file(&self, name: &str, cap: u64) -> Result<Vec<u8>, Problems> {
        let mut reader = FileReader::new(self.path.join(name));
        let read = reader.read(cap, SystemTime::UNIX_EPOCH)?;
        Ok(read.unwrap_or_default())
    }

    /// Reads a blob and verifies its digest.
    fn blob(&self, digest: &str, cap: u64) -> Result<Vec<u8>, Problems> {
        let hex = digest.strip_prefix("sha256:").unwrap_or_default();
        let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if hex.len() != 64 || !hex.bytes().all(is_hex) {
            let message = format!("`{digest}` is no digest; name one as `sha256:` with 64 digits");
            return Err(self.problem(message).into());
        }
        let bytes = self.file(&format!("blobs/sha256/{hex}"), cap)?;
        let found = sha256(&bytes);
        if found != digest {
            let message = format!(
                "the blob {digest} has the digest {found}: it is damaged or was changed; copy the layout again"
            );
            return Err(self.problem(message).into());
        }
        Ok(bytes)
    }

    fn parse<T: DeserializeOwned>(&self, name: &str, bytes: &[u8]) -> Result<T, Problem> {
        serde_json::from_slice(bytes)
            .map_err(|error| self.problem(format!("{name}: {error}; copy the layout again")))
    }

    /// The digests in the index of the layout, for messages.
    fn choice(&self) -> Result<String, Problems> {
        let index: Index = self.parse("index.json", &self.file("index.json", DESCRIPTION)?)?;
        Ok(index.choice())
    }

    /// The layers of the pinned manifest, lowest first.
    fn layers(&self) -> Result<Vec<Descriptor>, Problems> {
        let layout: Layout = self.parse("oci-layout", &self.file("oci-layout", DESCRIPTION)?)?;
        if layout.version != "1.0.0" {
            let message = format!(
                "has the layout version {}, not 1.0.0; write it with another tool",
                layout.version
            );
            return Err(self.problem(message).into());
        }
        let hex = self.digest.strip_prefix("sha256:").unwrap_or_default();
        if hex.is_empty() || !self.path.join("blobs/sha256").join(hex).exists() {
            let message = match &*self.digest {
                "" => "no digest is pinned".to_owned(),
                digest => format!("has no blob {digest}"),
            };
            let message = format!("{message}; pin one of: {}", self.choice()?);
            return Err(self.problem(message).into());
        }
        let bytes = self.blob(&self.digest, DESCRIPTION)?;
        let manifest: Manifest = self.parse(&self.digest, &bytes)?;
        if let Some(manifests) = manifest.manifests {
            let choice = Index { manifests }.choice();
            let message = format!("{} names several images; pin one of: {choice}", self.digest);
            return Err(self.problem(message).into());
        }
        match manifest.layers {
            Some(layers) if !layers.is_empty() && layers.len() <= LAYERS => Ok(layers),
            Some(layers) => {
                let message = format!(
                    "has {} layers, 1 to {LAYERS} are allowed; build it again",
                    layers.len()
                );
                Err(self.problem(message).into())
            }
            None => {
                let message = format!(
                    "{} is no manifest of an image; pin one of: {}",
                    self.digest,
                    self.choice()?
                );
                Err(self.problem(message).into())
            }
        }
    }

    /// The bytes of all layers, verified.
    fn archives(&self, stop: &Stop) -> Result<Vec<(String, Vec<u8>)>, Problems> {
        let mut left = self.limits.packed;
        let mut archives = Vec::new();
        for layer in self.layers()? {
            if stop.is_stopped() {
                return Err(self.problem("reading it was given up").into());
            }
            if !TAR.iter().any(|end| layer.media_type.ends_with(end)) {
                let message = format!(
                    "the layer {} is a `{}`; only tar archives, plain or compressed with gzip, can be read",
                    layer.digest, layer.media_type
                );
                return Err(self.problem(message).into());
            }
            let bytes = self.blob(&layer.digest, left)?;
            if bytes.len() as u64 != layer.size {
                let message = format!(
                    "the layer {} has {} bytes, not {}; build it again",
                    layer.digest,
                    bytes.len(),
                    layer.size
                );
                return Err(self.problem(message).into());
            }
            left -= layer.size;
            archives.push((format!("layer {}", layer.digest), bytes));
        }
        Ok(archives)
    }
}

impl Tree for OciLayout {
    fn look(
        &mut self,
        last: Option<&Revision>,
        stop: &Stop,
    ) -> Result<Option<Box<dyn Snapshot + '_>>, Problems> {
        if last.is_some_and(|last| *last.0 == *self.digest) {
            return Ok(None);
        }
        Ok(Some(Box::new(Unpacked {
            archives: self.archives(stop)?,
            revision: Revision(self.digest.as_str().into()),
            layered: true,
            limits: self.limits,
            stop: stop.clone(),
            files: Files::default(),
        })))
    }
}

/// The file `oci-layout`.
#[derive(Deserialize)]
struct Layout {
    #[serde(rename = "imageLayoutVersion")]
    version: String,
}

/// The file `index.json`.
#[derive(Deserialize)]
struct Index {
    manifests: Vec<Descriptor>,
}

/// The manifest of an image, or of several ones.
#[derive(Deserialize)]
struct Manifest {
    layers: Option<Vec<Descriptor>>,
    manifests: Option<Vec<Descriptor>>,
}

/// Refers to a blob.
#[derive(Deserialize)]
struct Descriptor {
    #[serde(rename = "mediaType", default)]
    media_type: String,
    digest: String,
    #[serde(default)]
    size: u64,
}

impl Index {
    fn choice(&self) -> String {
        let digests: Vec<&str> = self.manifests.iter().map(|it| &*it.digest).collect();
        digests.join(", ")
    }
}
