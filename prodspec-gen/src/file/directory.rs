//! A directory of files as one source of truth: all files of one format in it and its subdirectories, sorted by path.

use std::{
    borrow::Cow,
    fs,
    marker::PhantomData,
    path::{Path, PathBuf},
};

use async_trait::async_trait;
use futures::stream::BoxStream;
use plugin_sdk::{Document, Problem, Problems, Reading, SourceOfTruth, Update};
use prodspec_model::{Digest, Revision, SourceName};

use super::{
    Settings,
    cache::Shape,
    links::Links,
    stable::{Found, at, cannot_read},
};
use crate::format::{Format, Limits};

/// Maximum nesting of subdirectories, in levels.
pub(super) const MAX_LEVELS: usize = 16;

/// A source of truth that reads all files of one format in a directory and its subdirectories.
///
/// Hidden files and directories are ignored, and links to directories are not followed. Subdirectories can be nested 16
/// levels deep.
///
/// ```
/// use plugin_sdk::SourceOfTruth;
/// use prodspec_gen::YamlDirectory;
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let dir = tempfile::tempdir()?;
/// std::fs::write(dir.path().join("eu.yaml"), "replicas: 2")?;
/// std::fs::write(dir.path().join("us.yaml"), "replicas: 3")?;
///
/// let clusters = YamlDirectory::new(dir.path()).named("clusters").read().await?;
/// let names: Vec<String> = clusters.documents.iter().map(|document| document.name()).collect();
/// assert_eq!(names, ["eu.yaml#0", "us.yaml#0"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Directory<F> {
    settings: Settings,
    format: PhantomData<F>,
}

impl<F: Format> Directory<F> {
    /// A source that reads the files below `path` on request. The source has the name of the directory. It is not
    /// watched.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            settings: Settings::new(path.into(), false),
            format: PhantomData,
        }
    }

    /// A source that reads the files below `path` on request, and gives a hint when they, or the targets of links to
    /// files, may have changed.
    pub fn watch(path: impl Into<PathBuf>) -> Self {
        Self {
            settings: Settings::new(path.into(), true),
            format: PhantomData,
        }
    }

    /// Sets the name of the source. Necessary when generators read the source under a name other than the directory's.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.settings = self.settings.set(|settings| settings.name = name.into());
        self
    }

    /// Requires an end marker in every file, as [`super::File::with_end_marker`] does.
    #[must_use]
    pub fn with_end_marker(mut self) -> Self {
        self.settings = self.settings.set(|settings| settings.end_marker = true);
        self
    }

    /// Sets the limits: `bytes` for all files together, `depth` and `expansion` for each file.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.settings = self.settings.set(|settings| settings.limits = limits);
        self
    }
}

#[async_trait]
impl<F: Format> SourceOfTruth for Directory<F> {
    fn name(&self) -> SourceName {
        SourceName(self.settings.name.clone())
    }

    async fn read(&self) -> Result<Reading, Problems> {
        self.settings.whole(Folder::<F>::new).await
    }

    async fn read_since(&self, known: &Revision) -> Result<Update, Problems> {
        let known = Some(known.clone());
        self.settings.read(Folder::<F>::new, known).await
    }

    fn changes(&self) -> BoxStream<'static, ()> {
        self.settings.changes()
    }
}

/// A source that is a directory of files. A file without a document is skipped, but an empty file is an error. At least
/// one document is required.
pub(super) struct Folder<F>(Settings, PhantomData<F>);

impl<F> Folder<F> {
    pub(super) fn new(settings: Settings) -> Self {
        Self(settings, PhantomData)
    }

    /// The path of a file below the directory.
    fn below<'p>(&self, path: &'p Path) -> Cow<'p, str> {
        let below = path.strip_prefix(&self.0.path);
        below.unwrap_or(path).to_string_lossy()
    }
}

impl<F: Format> Shape for Folder<F> {
    fn list(&self) -> Result<Vec<Found>, Problem> {
        list::<F>(&self.0.path)
    }

    fn parse(&self, path: &Path, bytes: &[u8]) -> Result<Vec<Document>, Problems> {
        self.0.documents::<F>(&self.below(path), bytes)
    }

    fn revision(&self, files: &mut dyn Iterator<Item = (&Path, Digest)>) -> Revision {
        let mut digests = Vec::new();
        for (path, digest) in files {
            digests.extend_from_slice(&Digest::of(self.below(path).as_bytes()).0);
            digests.extend_from_slice(&digest.0);
        }
        Revision(Digest::of(&digests).to_string().into())
    }

    fn nothing(&self, files: usize) -> Problem {
        let message = match files {
            0 => format!("no {} file in the directory; add one", F::NAME),
            _ => format!(
                "no document in any {} file of the directory; add one",
                F::NAME
            ),
        };
        at(&self.0.path, message)
    }
}

/// All files of the format below `root`, sorted by path. Links in the path of `root` are resolved once, so that all
/// files come from the same directory.
fn list<F: Format>(root: &Path) -> Result<Vec<Found>, Problem> {
    let mut links = Links::default();
    let reached = links
        .resolve(root)
        .map_err(|error| cannot_read(root, &error))?;
    let mut files = Vec::new();
    let mut folders = vec![(PathBuf::new(), 0)];
    while let Some((folder, level)) = folders.pop() {
        let cannot = |error| match level {
            0 => cannot_read(root, &error),
            _ => cannot_read(&root.join(&folder), &error),
        };
        for entry in fs::read_dir(reached.join(&folder)).map_err(cannot)? {
            let entry = entry.map_err(cannot)?;
            if is_hidden(&entry) {
                continue;
            }
            let below = folder.join(entry.file_name());
            let kind = entry.file_type().map_err(cannot)?;
            if kind.is_dir() && level < MAX_LEVELS {
                folders.push((below, level + 1));
            } else if kind.is_dir() {
                return Err(at(
                    &root.join(below),
                    "more than 16 levels of directories; flatten them",
                ));
            } else if is_of::<F>(&below) {
                let (path, target) = (root.join(&below), reached.join(&below));
                files.push(if kind.is_symlink() {
                    Found::linked(path, &target, &mut links)
                } else {
                    Found::direct(path, target)
                });
            }
        }
    }
    files.sort_by(|a, b| a.path().cmp(b.path()));
    Ok(files)
}

fn is_of<F: Format>(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| F::EXTENSIONS.iter().any(|known| extension == *known))
}

/// Whether an entry of a directory is hidden, and so ignored.
pub(super) fn is_hidden(entry: &fs::DirEntry) -> bool {
    entry.file_name().to_string_lossy().starts_with('.')
}
