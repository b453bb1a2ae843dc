//! What sources of files have in common, on disk or in trees: their settings, and how they read on a thread of its own.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use control_plane_runtime::{Runtime, TokioRuntime};
use futures::stream::{BoxStream, StreamExt};
use plugin_sdk::{Problem, Problems, Reading, Update};
use prodspec_model::Revision;

use super::{
    cache::{Cache, How, Shape},
    told::LIST_AFTER,
    watch,
};
use crate::{
    abandoned::Abandoned,
    format::{Limits, Origin, Parsing},
};

/// The settings that sources of files have in common. `C` is what the source remembers of its files.
#[derive(Debug)]
pub struct Settings<C = Cache> {
    pub(crate) path: PathBuf,
    pub(crate) parsing: Parsing,
    pub(super) watched: bool,
    /// The time after which all files of a watched directory are listed, although the system tells of changes.
    pub(super) list_after: Duration,
    /// The readings that were given up and still hold their threads.
    late: Abandoned,
    /// The files as they were read last. Clones with the same settings share it.
    pub(crate) cache: Arc<Mutex<C>>,
}

impl<C> Clone for Settings<C> {
    fn clone(&self) -> Self {
        Self {
            path: self.path.clone(),
            parsing: self.parsing.clone(),
            watched: self.watched,
            list_after: self.list_after,
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
            parsing: Parsing {
                source: name,
                limits: Limits::default(),
                end_marker: false,
                named_by: None,
                origin: Origin::File,
            },
            watched,
            list_after: LIST_AFTER,
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

    /// Runs `read` on a thread for blocking work, because reading waits for the disk or a server and parsing takes time.
    /// One that does not answer holds the thread. Until it does, no other reading begins.
    pub(crate) async fn aside<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Self) -> Result<T, Problems> + Send + 'static,
    ) -> Result<T, Problems> {
        let Some((running, _waiting)) = self.late.begin() else {
            let message = "an earlier reading has not ended, so no other one begins; check that the file system or the server answers";
            return Err(self.parsing.said(Problem::new(message)).into());
        };
        let settings = self.clone();
        let read = move || {
            let _running = running;
            read(&settings)
        };
        let read = tokio::task::spawn_blocking(read).await;
        read.unwrap_or_else(|panic| Err(self.parsing.said(Problem::new(panic)).into()))
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
        let how = self.how(now);
        let read = self.with_cache(|cache| cache.read(shape, &self.path, how, known));
        read.map_err(|problems| self.parsing.said_all(problems))
    }

    /// How the source is read at the time `now`.
    pub(super) fn how(&self, now: SystemTime) -> How {
        How {
            cap: self.parsing.limits.bytes,
            list_after: self.watched.then_some(self.list_after),
            now,
        }
    }

    /// Uses the cache, while no other reading does. A use that panics leaves an empty cache: the next reading reads
    /// everything.
    pub(super) fn with_cache<T>(&self, used: impl FnOnce(&mut Cache) -> T) -> T {
        let mut shared = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let mut cache = std::mem::take(&mut *shared);
        let result = used(&mut cache);
        *shared = cache;
        result
    }

    /// The complete content.
    pub(super) async fn whole<S: Shape + From<Self>>(&self) -> Result<Reading, Problems> {
        let update = self.read::<S>(None).await?;
        complete(update).map_err(|problem| self.parsing.said(problem).into())
    }

    pub(super) fn changes(&self) -> BoxStream<'static, ()> {
        if self.watched {
            watch::hints(&self.path)
        } else {
            futures::stream::pending().boxed()
        }
    }
}

/// The reading in an update of a caller that knows no revision.
pub(super) fn complete(update: Update) -> Result<Reading, Problem> {
    match update {
        Update::Whole(reading) => Ok(reading),
        _ => Err(Problem::new("gave no complete reading; report this error")),
    }
}
