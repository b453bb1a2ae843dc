//! What sources of files have in common, on disk or in trees: their settings, and how they read on a thread of its own.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::SystemTime,
};

use control_plane_runtime::{Runtime, TokioRuntime};
use futures::stream::{BoxStream, StreamExt};
use plugin_sdk::{
    Document, Problem, Problems, Reading, Update,
    document::{FieldPath, Value},
};
use prodspec_model::Revision;

use super::{
    cache::{Cache, Shape},
    watch,
};
use crate::{
    abandoned::Abandoned,
    format::{Format, Limits, declares_end},
};

/// The settings that sources of files have in common. `C` is what the source remembers of its files.
#[derive(Debug)]
pub struct Settings<C = Cache> {
    pub(crate) path: PathBuf,
    pub(crate) name: Arc<str>,
    pub(crate) limits: Limits,
    pub(crate) end_marker: bool,
    /// The field that gives each document its name. `None`: documents are known by their place.
    pub(crate) named_by: Option<FieldPath>,
    pub(super) watched: bool,
    /// The readings that were given up and still hold their threads.
    late: Abandoned,
    /// The files as they were read last. Clones with the same settings share it.
    pub(crate) cache: Arc<Mutex<C>>,
}

impl<C> Clone for Settings<C> {
    fn clone(&self) -> Self {
        Self {
            path: self.path.clone(),
            name: self.name.clone(),
            limits: self.limits,
            end_marker: self.end_marker,
            named_by: self.named_by.clone(),
            watched: self.watched,
            late: self.late.clone(),
            cache: self.cache.clone(),
        }
    }
}

impl<C: Default + Send + 'static> Settings<C> {
    pub(crate) fn new(path: PathBuf, watched: bool) -> Self {
        let name = path
            .file_name()
            .map_or_else(|| path.to_string_lossy(), |name| name.to_string_lossy())
            .into();
        Self {
            path,
            name,
            limits: Limits::default(),
            end_marker: false,
            named_by: None,
            watched,
            late: Abandoned::default(),
            cache: Arc::default(),
        }
    }

    /// Changes a setting. What was read with other settings is forgotten.
    pub(crate) fn set(mut self, change: impl FnOnce(&mut Self)) -> Self {
        self.cache = Arc::default();
        change(&mut self);
        self
    }

    /// The documents in the bytes of one file. No document if there are only comments.
    pub(crate) fn documents<F: Format>(
        &self,
        path: &str,
        bytes: &[u8],
    ) -> Result<Vec<Document>, Problems> {
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
        let documents = numbered.map(|(index, root)| Document::new(&self.name, path, index, root));
        match &self.named_by {
            Some(field) => self.named(field, documents),
            None => Ok(documents.collect()),
        }
    }

    /// Gives each document the name that its `field` has.
    fn named(
        &self,
        field: &FieldPath,
        documents: impl Iterator<Item = Document>,
    ) -> Result<Vec<Document>, Problems> {
        let (mut named, mut problems) = (Vec::new(), Problems::none());
        for document in documents {
            match document.root().at(field).map(|node| &node.value) {
                Some(Value::String(name)) if !name.is_empty() => {
                    let name = name.clone();
                    named.push(document.known_as(name));
                }
                _ => {
                    let message = "gives the document its name, and must be a text; add it";
                    let problem = document.problem_at(&field.to_string(), message);
                    problems.push(self.said(problem));
                }
            }
        }
        match problems.is_empty() {
            true => Ok(named),
            false => Err(problems),
        }
    }

    /// The problem for a file at `path` without a document, which may have been cut off before its first byte.
    pub(crate) fn empty(&self, path: &str) -> Problem {
        let message = "the file is empty; to remove everything on purpose, see Turndown";
        self.said(Problem::new(message).at(path, 1, 1))
    }

    pub(crate) fn said(&self, problem: Problem) -> Problem {
        problem.by(format!("source {}", self.name))
    }

    /// Runs `read` on a thread for blocking work, because reading waits for the disk or a server and parsing takes time.
    /// One that does not answer holds the thread. Until it does, no other reading begins.
    pub(crate) async fn aside<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Self) -> Result<T, Problems> + Send + 'static,
    ) -> Result<T, Problems> {
        let Some((running, _waiting)) = self.late.begin() else {
            let message = "an earlier reading has not ended, so no other one begins; check that the file system or the server answers";
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

    /// Marks all problems with the name of the source.
    pub(crate) fn said_all(&self, problems: Problems) -> Problems {
        let said = problems.into_iter().map(|problem| self.said(problem));
        said.collect()
    }
}

impl Settings {
    /// Reads what has changed since `known`.
    pub(super) async fn read<S: Shape + From<Self>>(
        &self,
        known: Option<Revision>,
    ) -> Result<Update, Problems> {
        let now = TokioRuntime::current().now().wall;
        let read = move |settings: &Self| {
            let shape = S::from(settings.clone());
            settings.read_now(&shape, now.into(), known.as_ref())
        };
        self.aside(read).await
    }

    pub(super) fn read_now(
        &self,
        shape: &impl Shape,
        now: SystemTime,
        known: Option<&Revision>,
    ) -> Result<Update, Problems> {
        let mut shared = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        // A reading that panics leaves an empty cache: the next one reads everything.
        let mut cache = std::mem::take(&mut *shared);
        let read = cache.read(shape, &self.path, self.limits.bytes, now, known);
        *shared = cache;
        read.map_err(|problems| self.said_all(problems))
    }

    /// The complete content.
    pub(super) async fn whole<S: Shape + From<Self>>(&self) -> Result<Reading, Problems> {
        match self.read::<S>(None).await? {
            Update::Whole(reading) => Ok(reading),
            _ => Err(self
                .said(Problem::new("gave no complete reading; report this error"))
                .into()),
        }
    }

    pub(super) fn changes(&self) -> BoxStream<'static, ()> {
        if self.watched {
            watch::hints(&self.path)
        } else {
            futures::stream::pending().boxed()
        }
    }
}
