//! A directory of files as one source of truth: every file of the format below it, by path.

use std::{
    marker::PhantomData,
    path::{Path, PathBuf},
};

use async_trait::async_trait;
use futures::stream::BoxStream;
use plugin_sdk::{Problem, Problems, Reading, SourceOfTruth};
use prodspec_model::{Digest, Revision, SourceName};

use super::{Settings, stable};
use crate::format::{Format, Limits};

/// How deep directories may lie within directories.
pub(super) const MAX_LEVELS: usize = 16;

/// All files of a format in a directory and below. Hidden files are left out, links to directories are not followed.
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
    /// Reads the files below `path` when asked. The source is named after the directory.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            settings: Settings::new(path.into(), false),
            format: PhantomData,
        }
    }

    /// Reads the files below `path` when asked, and hints when they may have changed, or what links to files lead to.
    pub fn watch(path: impl Into<PathBuf>) -> Self {
        Self {
            settings: Settings::new(path.into(), true),
            format: PhantomData,
        }
    }

    /// Names the source, where the directory's name is not the one that generators ask for.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.settings.name = name.into();
        self
    }

    /// Every file must declare its end, as [`super::File::with_end_marker`].
    #[must_use]
    pub fn with_end_marker(mut self) -> Self {
        self.settings.end_marker = true;
        self
    }

    /// Sets what all files together may cost in bytes, and each in depth and expansion.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.settings.limits = limits;
        self
    }

    fn parse(&self, files: Vec<(String, Vec<u8>)>) -> Result<Reading, Problems> {
        let mut documents = Vec::new();
        let mut problems = Problems::none();
        let mut digests = Vec::new();
        for (path, bytes) in &files {
            digests.extend_from_slice(&Digest::of(path.as_bytes()).0);
            digests.extend_from_slice(&Digest::of(bytes).0);
            match self.settings.documents::<F>(path, bytes) {
                Ok(of_file) => documents.extend(of_file),
                Err(of_file) => problems.extend(of_file),
            }
        }
        if files.is_empty() {
            let message = format!("no {} file in the directory", F::NAME);
            let place = self.settings.path.display().to_string();
            problems.push(self.settings.said(Problem::new(message).at(place, 0, 0)));
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        let revision = Revision(Digest::of(&digests).to_string().into());
        Ok(Reading {
            revision,
            documents,
        })
    }
}

#[async_trait]
impl<F: Format> SourceOfTruth for Directory<F> {
    fn name(&self) -> SourceName {
        SourceName(self.settings.name.clone())
    }

    async fn read(&self) -> Result<Reading, Problems> {
        let Settings { path, limits, .. } = self.settings.clone();
        let read = tokio::task::spawn_blocking(move || read_all::<F>(&path, limits.bytes)).await;
        let files = read
            .unwrap_or_else(|panic| Err(Problem::new(panic).into()))
            .map_err(|problems: Problems| -> Problems {
                problems
                    .into_iter()
                    .map(|problem| self.settings.said(problem))
                    .collect()
            })?;
        self.parse(files)
    }

    fn changes(&self) -> BoxStream<'static, ()> {
        self.settings.changes()
    }
}

/// Every file with its path below `root`, sorted; the same set of files before and after reading.
fn read_all<F: Format>(root: &Path, cap: u64) -> Result<Vec<(String, Vec<u8>)>, Problems> {
    let paths = list::<F>(root)?;
    let mut left = cap;
    let mut files = Vec::new();
    let mut problems = Problems::none();
    for path in &paths {
        match stable::read(path, left) {
            Ok(bytes) => {
                left -= bytes.len() as u64;
                let below = path.strip_prefix(root).unwrap_or(path);
                files.push((below.to_string_lossy().into_owned(), bytes));
            }
            Err(problem) => problems.push(problem),
        }
    }
    if problems.is_empty() && list::<F>(root)? != paths {
        let message = "files come and go while the directory is being read; it is read again when it is quiet";
        problems.push(Problem::new(message).at(root.display().to_string(), 0, 0));
    }
    if problems.is_empty() {
        Ok(files)
    } else {
        Err(problems)
    }
}

fn list<F: Format>(root: &Path) -> Result<Vec<PathBuf>, Problem> {
    let mut files = Vec::new();
    let mut folders = vec![(root.to_owned(), 0)];
    while let Some((folder, level)) = folders.pop() {
        let cannot = |error| {
            let message = format!("cannot be read: {error}");
            Problem::new(message).at(folder.display().to_string(), 0, 0)
        };
        for entry in std::fs::read_dir(&folder).map_err(cannot)? {
            let entry = entry.map_err(cannot)?;
            let path = entry.path();
            if is_hidden(&entry) {
                continue;
            }
            let is_folder = entry.file_type().map_err(cannot)?.is_dir();
            if is_folder && level < MAX_LEVELS {
                folders.push((path, level + 1));
            } else if is_folder {
                return Err(cannot(std::io::Error::other(
                    "too many levels of directories",
                )));
            } else if path
                .extension()
                .is_some_and(|extension| F::EXTENSIONS.iter().any(|known| extension == *known))
            {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

/// Whether an entry is left out, whatever it is.
pub(super) fn is_hidden(entry: &std::fs::DirEntry) -> bool {
    entry.file_name().to_string_lossy().starts_with('.')
}
