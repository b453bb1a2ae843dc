//! Files and directories as sources of truth.

mod cache;
mod directory;
mod links;
mod scope;
mod stable;
mod watch;

use std::{
    marker::PhantomData,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::SystemTime,
};

use async_trait::async_trait;
use control_plane_runtime::{Runtime, TokioRuntime};
use futures::stream::{BoxStream, StreamExt};
use plugin_sdk::{Document, Problem, Problems, Reading, SourceOfTruth, Update};
use prodspec_model::{Digest, Revision, SourceName};

pub use directory::Directory;

use self::{
    cache::{Cache, Shape},
    links::Links,
    stable::Found,
};
use crate::{
    abandoned::Abandoned,
    format::{Format, Json, Limits, Toml, Yaml, declares_end},
};

/// A YAML file with one or more documents.
pub type YamlFile = File<Yaml>;
/// A TOML file, which is one document.
pub type TomlFile = File<Toml>;
/// A JSON file, which is one document.
pub type JsonFile = File<Json>;
/// All YAML files in a directory.
pub type YamlDirectory = Directory<Yaml>;
/// All TOML files in a directory.
pub type TomlDirectory = Directory<Toml>;
/// All JSON files in a directory.
pub type JsonDirectory = Directory<Json>;

/// The settings that file and directory sources have in common.
#[derive(Debug, Clone)]
struct Settings {
    path: PathBuf,
    name: Arc<str>,
    limits: Limits,
    end_marker: bool,
    watched: bool,
    /// The readings that were given up and still hold their threads.
    late: Abandoned,
    /// The files as they were read last. Clones with the same settings share it.
    cache: Arc<Mutex<Cache>>,
}

impl Settings {
    fn new(path: PathBuf, watched: bool) -> Self {
        let name = path
            .file_name()
            .map_or_else(|| path.to_string_lossy(), |name| name.to_string_lossy())
            .into();
        Self {
            path,
            name,
            limits: Limits::default(),
            end_marker: false,
            watched,
            late: Abandoned::default(),
            cache: Arc::default(),
        }
    }

    /// Changes a setting. What was read with other settings is forgotten.
    fn set(mut self, change: impl FnOnce(&mut Self)) -> Self {
        self.cache = Arc::default();
        change(&mut self);
        self
    }

    /// The documents in the bytes of one file. No document if there are only comments.
    fn documents<F: Format>(&self, path: &str, bytes: &[u8]) -> Result<Vec<Document>, Problems> {
        let text = std::str::from_utf8(bytes).map_err(|error| {
            let good = &bytes[..error.valid_up_to()];
            let line = good.iter().filter(|byte| **byte == b'\n').count() + 1;
            let start = good
                .iter()
                .rposition(|byte| *byte == b'\n')
                .map_or(0, |at| at + 1);
            let [line, column] =
                [line, good.len() - start + 1].map(|at| u32::try_from(at).unwrap_or(u32::MAX));
            Problem::new("not UTF-8; save the file as UTF-8 text").at("", line, column)
        });
        let nodes = text.and_then(|text| {
            if self.end_marker {
                declares_end::<F>(text)?;
            }
            F::parse(text, &self.limits)
        });
        let place = |mut problem: Problem| {
            problem.document = path.to_owned();
            self.said(problem)
        };
        let nodes = nodes.map_err(place)?;
        if bytes.trim_ascii().is_empty() {
            return Err(self.empty(path).into());
        }
        let numbered = (0..).zip(nodes);
        Ok(numbered
            .map(|(index, root)| Document::new(&self.name, path, index, root))
            .collect())
    }

    /// The problem for a file at `path` without a document, which may have been cut off before its first byte.
    fn empty(&self, path: &str) -> Problem {
        let message = "the file is empty; to remove everything on purpose, see Turndown";
        self.said(Problem::new(message).at(path, 1, 1))
    }

    fn said(&self, problem: Problem) -> Problem {
        problem.by(format!("source {}", self.name))
    }

    /// Runs `read` on a thread for blocking work, because reading waits for the disk and parsing takes time. A file
    /// system that does not answer holds the thread. Until it does, no other reading begins.
    async fn aside<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Self) -> Result<T, Problems> + Send + 'static,
    ) -> Result<T, Problems> {
        let Some((running, _waiting)) = self.late.begin() else {
            let message = "an earlier reading has not ended, so no other one begins; check that the file system answers";
            return Err(self.said(Problem::new(message)).into());
        };
        let settings = self.clone();
        let read = move || {
            let _running = running;
            read(&settings)
        };
        let read = tokio::task::spawn_blocking(read).await;
        read.unwrap_or_else(|panic| Err(self.said(Problem::new(panic)).into()))
    }

    /// Reads what has changed since `known`.
    async fn read<S: Shape + 'static>(
        &self,
        shape: fn(Self) -> S,
        known: Option<Revision>,
    ) -> Result<Update, Problems> {
        let now = TokioRuntime::current().now().wall;
        let read = move |settings: &Self| {
            let shape = shape(settings.clone());
            settings.read_now(&shape, now.into(), known.as_ref())
        };
        self.aside(read).await
    }

    fn read_now(
        &self,
        shape: &impl Shape,
        now: SystemTime,
        known: Option<&Revision>,
    ) -> Result<Update, Problems> {
        // A reading that panicked has left what it had read before, or nothing.
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let read = cache.read(shape, &self.path, self.limits.bytes, now, known);
        read.map_err(|problems| self.said_all(problems))
    }

    /// The complete content.
    async fn whole<S: Shape + 'static>(&self, shape: fn(Self) -> S) -> Result<Reading, Problems> {
        match self.read(shape, None).await? {
            Update::Whole(reading) => Ok(reading),
            other => Err(self.said(Problem::new(format!("read {other:?}"))).into()),
        }
    }

    /// Marks all problems with the name of the source.
    fn said_all(&self, problems: Problems) -> Problems {
        let said = problems.into_iter().map(|problem| self.said(problem));
        said.collect()
    }

    fn changes(&self) -> BoxStream<'static, ()> {
        if self.watched {
            watch::hints(&self.path)
        } else {
            futures::stream::pending().boxed()
        }
    }
}

/// A source of truth that reads one file. The file is read completely or not at all; an empty file is an error.
///
/// ```
/// use plugin_sdk::SourceOfTruth;
/// use prodspec_gen::YamlFile;
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let dir = tempfile::tempdir()?;
/// let path = dir.path().join("manifest.yaml");
/// std::fs::write(&path, "clusters: [eu, us]\n...\n")?;
///
/// let manifest = YamlFile::new(&path).with_end_marker();
/// let reading = manifest.read().await?;
/// assert_eq!(reading.documents[0].name(), "manifest.yaml#0");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct File<F> {
    settings: Settings,
    format: PhantomData<F>,
}

impl<F: Format> File<F> {
    /// A source that reads the file at `path` on request. The source has the name of the file. It is not watched.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            settings: Settings::new(path.into(), false),
            format: PhantomData,
        }
    }

    /// A source that reads the file at `path` on request, and gives a hint when the file may have changed: when the
    /// file, or a directory or link in its path, was written or replaced. The file need not exist yet.
    pub fn watch(path: impl Into<PathBuf>) -> Self {
        Self {
            settings: Settings::new(path.into(), true),
            format: PhantomData,
        }
    }

    /// Sets the name of the source. Necessary when generators read the source under a name other than the file's.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.settings = self.settings.set(|settings| settings.name = name.into());
        self
    }

    /// Requires the format's [end marker](Format::END) as the last line, `...` for YAML. A file that was cut off at the
    /// end of a line is then noticed too.
    #[must_use]
    pub fn with_end_marker(mut self) -> Self {
        self.settings = self.settings.set(|settings| settings.end_marker = true);
        self
    }

    /// Sets the limits for the size, nesting and alias expansion of the file.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.settings = self.settings.set(|settings| settings.limits = limits);
        self
    }

    /// Parses `bytes` as if they were the content of the file.
    ///
    /// # Errors
    /// The same problems as for a file with this content.
    pub fn parse(&self, bytes: &[u8]) -> Result<Reading, Problems> {
        let documents = self.settings.documents::<F>(&self.settings.name, bytes)?;
        if documents.is_empty() {
            return Err(self.settings.empty(&self.settings.name).into());
        }
        Ok(Reading::new(Digest::of(bytes).to_string(), documents))
    }
}

/// A source that is one file: its revision is the digest of the file.
struct One<F>(Settings, PhantomData<F>);

impl<F> One<F> {
    fn new(settings: Settings) -> Self {
        Self(settings, PhantomData)
    }
}

impl<F: Format> Shape for One<F> {
    fn list(&self) -> Result<Vec<Found>, Problem> {
        Ok(vec![Found::linked(
            self.0.path.clone(),
            &self.0.path,
            &mut Links::default(),
        )])
    }

    fn parse(&self, _: &Path, bytes: &[u8]) -> Result<Vec<Document>, Problems> {
        self.0.documents::<F>(&self.0.name, bytes)
    }

    fn revision(&self, files: &mut dyn Iterator<Item = (&Path, Digest)>) -> Revision {
        let digests = files.map(|(_, digest)| digest.to_string());
        Revision(digests.collect::<String>().into())
    }

    fn nothing(&self, _: usize) -> Problem {
        self.0.empty(&self.0.name)
    }
}

#[async_trait]
impl<F: Format> SourceOfTruth for File<F> {
    fn name(&self) -> SourceName {
        SourceName(self.settings.name.clone())
    }

    async fn read(&self) -> Result<Reading, Problems> {
        self.settings.whole(One::<F>::new).await
    }

    async fn read_since(&self, known: &Revision) -> Result<Update, Problems> {
        self.settings.read(One::<F>::new, Some(known.clone())).await
    }

    fn changes(&self) -> BoxStream<'static, ()> {
        self.settings.changes()
    }
}

#[cfg(test)]
mod tests;
