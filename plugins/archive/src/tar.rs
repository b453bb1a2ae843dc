//! A tar archive on disk as a tree of files.

use std::{path::PathBuf, time::SystemTime};

use control_plane_runtime::{Runtime, TokioRuntime};
use plugin_sdk::Problems;
use prodspec_gen::{
    file::FileReader,
    format::{Format, Json, Toml, Yaml},
    tree::{Snapshot, Stop, Tree, TreeSource},
};
use prodspec_model::Revision;

use crate::{
    files::{Files, Limits},
    unpacked::{Unpacked, sha256},
};

/// A tar archive, plain or compressed with gzip, whose files are a source of truth. The revision is the SHA-256 digest of
/// the archive.
///
/// The archive is read completely or not at all: one that is cut off is refused. While the file on disk is unchanged, it
/// is not opened. Replace it atomically, by renaming another file to its name.
///
/// ```
/// use plugin_sdk::SourceOfTruth;
/// use plugins_archive::Tar;
///
/// # let dir = std::env::temp_dir();
/// let clusters = Tar::new(dir.join("release.tar.gz")).yaml().path("configs").named("clusters");
/// assert_eq!(clusters.name().0.as_ref(), "clusters");
/// ```
#[derive(Debug)]
pub struct Tar {
    path: PathBuf,
    reader: FileReader,
    limits: Limits,
    /// The time, for tests. `None`: that of the runtime.
    pub(crate) now: Option<SystemTime>,
    /// The number of times that the archive was read.
    pub(crate) reads: u64,
}

impl Tar {
    /// A source that reads the archive at `path`.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        Self {
            reader: FileReader::new(&path),
            path,
            limits: Limits::default(),
            now: None,
            reads: 0,
        }
    }

    /// Sets the limits of the archive. Those of the files in it are set at the source.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Makes a source of the YAML files of the archive.
    pub fn yaml(self) -> TreeSource<Self, Yaml> {
        self.files()
    }

    /// Makes a source of the JSON files of the archive.
    pub fn json(self) -> TreeSource<Self, Json> {
        self.files()
    }

    /// Makes a source of the TOML files of the archive.
    pub fn toml(self) -> TreeSource<Self, Toml> {
        self.files()
    }

    /// Makes a source of the files of another format in the archive. Its name is that of the archive.
    pub fn files<F: Format>(self) -> TreeSource<Self, F> {
        let name = self.path.file_name().unwrap_or(self.path.as_os_str());
        let name = name.to_string_lossy().into_owned();
        TreeSource::new(&name, self)
    }
}

impl Tree for Tar {
    fn look(
        &mut self,
        last: Option<&Revision>,
        stop: &Stop,
    ) -> Result<Option<Box<dyn Snapshot + '_>>, Problems> {
        if last.is_none() {
            self.reader.forget();
        }
        let now = self.now;
        let now = now.unwrap_or_else(|| TokioRuntime::current().now().wall.into());
        let Some(bytes) = self.reader.read(self.limits.packed, now)? else {
            return Ok(None);
        };
        self.reads += 1;
        let revision = Revision(sha256(&bytes).into());
        if last == Some(&revision) {
            return Ok(None);
        }
        Ok(Some(Box::new(Unpacked {
            revision,
            archives: vec![(self.path.to_string_lossy().into_owned(), bytes)],
            layered: false,
            limits: self.limits,
            stop: stop.clone(),
            files: Files::default(),
        })))
    }
}
