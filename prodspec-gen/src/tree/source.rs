//! A tree of files as one source of truth: all files of one format below a path, at one revision.

use std::{
    marker::PhantomData,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use futures::stream::{self, BoxStream, StreamExt};
use plugin_sdk::{Problem, Problems, Reading, SourceOfTruth, Update, document::FieldPath};
use prodspec_model::{Revision, SourceName};
use tokio::sync::watch;

use super::{
    Content, ContentId, Entry, Selection, Snapshot, Tree,
    stop::{Stop, Waiting},
};
use crate::{
    file::{settings::Settings, stable::too_long},
    format::{Format, Limits},
    kept::{Finding, Kept, Parsed, Placed},
};

/// A source of truth whose files are those of a [`Tree`], in the format `F`.
///
/// It reads all files below [`path`](Self::path) that have an extension of the format. Hidden files and directories are
/// ignored; links are refused. At least one document is required, and no file may be empty. Only files whose content has
/// changed are read and parsed. Documents are named by the path of their file from the root of the tree.
#[derive(Debug)]
pub struct TreeSource<T, F> {
    settings: Settings<Memory>,
    tree: Arc<Mutex<T>>,
    hook: Hook,
    format: PhantomData<fn() -> F>,
}

impl<T: Tree, F: Format> TreeSource<T, F> {
    /// A source named `name` that reads all files of the format in the tree.
    pub fn new(name: &str, tree: T) -> Self {
        let settings = Settings::new("".into(), false);
        Self {
            settings: settings.set(|settings| settings.parsing.source = name.into()),
            tree: Arc::new(Mutex::new(tree)),
            hook: Hook(Arc::new(watch::channel(()).0)),
            format: PhantomData,
        }
    }

    /// Reads only the files below a directory of the tree, or one file. The path is relative to the root, with slashes.
    #[must_use]
    pub fn path(mut self, path: &str) -> Self {
        let parts = path.split('/').filter(|part| !matches!(*part, "" | "."));
        let path = parts.collect::<Vec<_>>().join("/");
        self.settings = self.settings.set(|settings| settings.path = path.into());
        self
    }

    /// Sets the name of the source, under which generators read it.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.settings = self
            .settings
            .set(|settings| settings.parsing.source = name.into());
        self
    }

    /// Requires the format's [end marker](Format::END) as the last line of every file, `...` for YAML.
    #[must_use]
    pub fn with_end_marker(mut self) -> Self {
        self.settings = self
            .settings
            .set(|settings| settings.parsing.end_marker = true);
        self
    }

    /// Sets the field that gives each document its name, as
    /// [`Files::documents_named_by`](crate::file::Files::documents_named_by) does.
    #[must_use]
    pub fn documents_named_by(mut self, field: FieldPath) -> Self {
        self.settings = self
            .settings
            .set(|settings| settings.parsing.named_by = Some(field));
        self
    }

    /// Declares that the files are final, as [`Files::rendered`](crate::file::Files::rendered) does.
    #[must_use]
    pub fn rendered(mut self) -> Self {
        self.settings = self
            .settings
            .set(|settings| settings.parsing.limits.rendered = true);
        self
    }

    /// Sets the limits: `bytes` for all files together, `depth` and `expansion` for each file.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.settings = self.settings.set(|settings| settings.parsing.limit(limits));
        self
    }

    /// A handle that hints that the tree may have changed. Never needed: a source is read again from time to time.
    pub fn hook(&self) -> Hook {
        self.hook.clone()
    }

    async fn update(&self, known: Option<Revision>) -> Result<Update, Problems> {
        self.with_tree(move |settings, memory, tree, stop| {
            let read = memory.read::<F>(settings, tree, known.as_ref(), stop);
            read.map_err(|problems| settings.parsing.said_all(problems))
        })
        .await
    }

    /// Uses the tree on a thread for blocking work. When the caller gives up, the tree is told to stop.
    pub(super) async fn with_tree<A: Send + 'static>(
        &self,
        used: impl FnOnce(&Settings<Memory>, &mut Memory, &mut T, &Stop) -> Result<A, Problems>
        + Send
        + 'static,
    ) -> Result<A, Problems> {
        let (_waiting, stop) = Waiting::begin();
        let tree = self.tree.clone();
        let used = move |settings: &Settings<Memory>| {
            let mut tree = tree.lock().unwrap_or_else(PoisonError::into_inner);
            if stop.is_stopped() {
                // It waited for another reading, and its caller for it.
                return Err(settings
                    .parsing
                    .said(Problem::new("reading it was given up"))
                    .into());
            }
            let shared = settings.cache.lock();
            let mut shared = shared.unwrap_or_else(PoisonError::into_inner);
            // A use that panics leaves nothing: the next one reads everything.
            let mut memory = std::mem::take(&mut *shared);
            let result = used(settings, &mut memory, &mut tree, &stop);
            *shared = memory;
            result
        };
        self.settings.aside(used).await
    }
}

#[async_trait]
impl<T: Tree, F: Format> SourceOfTruth for TreeSource<T, F> {
    fn name(&self) -> SourceName {
        SourceName(self.settings.parsing.source.clone())
    }

    async fn read(&self) -> Result<Reading, Problems> {
        match self.update(None).await? {
            Update::Whole(reading) => Ok(reading),
            _ => {
                let problem = Problem::new("gave no complete reading; report this error");
                Err(self.settings.parsing.said(problem).into())
            }
        }
    }

    async fn read_since(&self, known: &Revision) -> Result<Update, Problems> {
        self.update(Some(known.clone())).await
    }

    fn changes(&self) -> BoxStream<'static, ()> {
        let hints = self.hook.0.subscribe();
        stream::unfold(hints, |mut hints| async move {
            hints.changed().await.ok()?;
            Some(((), hints))
        })
        .boxed()
    }
}

/// Hints a [`TreeSource`] that its tree may have changed: for webhooks. A hint makes a change arrive sooner; without it,
/// the change arrives with the next reading. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Hook(Arc<watch::Sender<()>>);

impl Hook {
    /// Gives the hint. Hints that come faster than readings count as one.
    pub fn poke(&self) {
        self.0.send_replace(());
    }
}

/// The files of a tree as of the last reading, and its revision.
#[derive(Debug, Default)]
pub(super) struct Memory {
    pub(super) files: Kept<File>,
    pub(super) revision: Option<Revision>,
}

/// One file as it was read last.
#[derive(Debug)]
pub(super) struct File {
    pub(super) path: String,
    /// The id of the content. `None`: it could not be read, or was not allowed.
    pub(super) id: Option<ContentId>,
    len: u64,
}

impl Placed for File {
    fn place(&self) -> &Path {
        Path::new(&self.path)
    }
}

impl Memory {
    fn read<F: Format>(
        &mut self,
        settings: &Settings<Self>,
        tree: &mut dyn Tree,
        known: Option<&Revision>,
        stop: &Stop,
    ) -> Result<Update, Problems> {
        let complete = self.files.states().all(|file| file.id.is_some());
        let last = self.revision.as_ref().filter(|_| complete);
        if let Some(mut snapshot) = tree.look(last, stop)? {
            self.refresh::<F>(settings, &mut *snapshot, stop)?;
        }
        self.answer::<F>(settings, known)
    }

    /// Takes in the files of a snapshot, and its revision.
    pub(super) fn refresh<F: Format>(
        &mut self,
        settings: &Settings<Self>,
        snapshot: &mut (dyn Snapshot + '_),
        stop: &Stop,
    ) -> Result<(), Problems> {
        let revision = snapshot.revision();
        // Until all files are taken in, a tree must not answer that nothing has changed.
        self.revision = None;
        let taken = self.take::<F>(settings, snapshot, stop);
        taken.map_err(|problems| at(&revision, problems))?;
        self.revision = Some(revision);
        Ok(())
    }

    /// What has changed since the revision `known`, as of the last snapshot that was taken in.
    pub(super) fn answer<F: Format>(
        &mut self,
        settings: &Settings<Self>,
        known: Option<&Revision>,
    ) -> Result<Update, Problems> {
        let Some(revision) = self.revision.clone() else {
            return Err(Problem::new("has no revision yet; report this error").into());
        };
        let mut problems = self.files.problems();
        if problems.is_empty() && self.files.is_empty() {
            problems.push(nothing::<F>(&settings.path, self.files.states().len()));
        }
        if !problems.is_empty() {
            return Err(at(&revision, problems));
        }
        Ok(self.files.answer(revision, known))
    }

    /// Reads those files of a snapshot whose content is not known.
    fn take<F: Format>(
        &mut self,
        settings: &Settings<Self>,
        snapshot: &mut (dyn Snapshot + '_),
        stop: &Stop,
    ) -> Result<(), Problems> {
        let mut left = settings.parsing.limits.bytes;
        let selection = Selection::of::<F>(&settings.path.to_string_lossy(), left);
        let entries = selected(&selection, snapshot.list(&selection)?);
        self.files.take(entries, |entry, before| {
            let id = match (&entry.there, stop.is_stopped()) {
                (Ok(id), false) => id.clone(),
                (Ok(_), true) => return refused(entry, Problem::new("reading it was given up")),
                (Err(problem), _) => {
                    let problem = problem.clone();
                    return refused(entry, problem);
                }
            };
            let same = |file: &&File| file.id.as_ref() == Some(&id) && file.len <= left;
            if let Some(file) = before.filter(same) {
                left -= file.len;
                return Finding::Known;
            }
            let bytes = match snapshot.read(&entry, left) {
                Ok(Content::Bytes(bytes)) if bytes.len() as u64 <= left => bytes,
                Ok(Content::Bytes(bytes)) => {
                    return refused(entry, too_long(bytes.len() as u64, left));
                }
                Ok(Content::TooLong(len)) => return refused(entry, too_long(len, left)),
                Err(problem) => return refused(entry, problem),
            };
            left -= bytes.len() as u64;
            let documents: Parsed = settings.parsing.documents::<F>(&entry.path, &bytes);
            let file = File {
                path: entry.path,
                id: Some(id),
                len: bytes.len() as u64,
            };
            Finding::New(file, documents)
        });
        Ok(())
    }
}

/// The entries that are read or refused, sorted by path.
fn selected(selection: &Selection, entries: Vec<Entry>) -> Vec<Entry> {
    let judge = |mut entry: Entry| {
        let taken = match &entry.there {
            Ok(_) => selection.takes(&entry.path),
            Err(_) => Ok(selection.needs(&entry.path)),
        };
        match taken {
            Ok(taken) => taken.then_some(entry),
            Err(problem) => {
                entry.there = Err(problem);
                Some(entry)
            }
        }
    };
    let mut entries: Vec<Entry> = entries.into_iter().filter_map(judge).collect();
    entries.sort_by(|a, b| a.place().cmp(b.place()));
    entries.dedup_by(|again, entry| {
        let twice = again.is_same_place(entry);
        if twice {
            *entry = Entry::refused(&*entry.path, "is there twice; remove one");
        }
        twice
    });
    entries
}

fn refused(entry: Entry, problem: Problem) -> Finding<File> {
    let problem = problem.at(&entry.path, 0, 0);
    let file = File {
        path: entry.path,
        id: None,
        len: 0,
    };
    Finding::New(file, Err(problem.into()))
}

fn nothing<F: Format>(path: &Path, files: usize) -> Problem {
    let place = match path.to_string_lossy() {
        root if root.is_empty() => "the tree".into(),
        path => path,
    };
    let message = match files {
        0 => format!("no {} file; add one, or read another path", F::NAME),
        _ => format!("no document in any {} file; add one", F::NAME),
    };
    Problem::new(message).at(place, 0, 0)
}

/// Adds the revision to the place of each problem.
pub(super) fn at(revision: &Revision, mut problems: Problems) -> Problems {
    let (start, rest) = match revision.0.rfind(':') {
        Some(colon) => revision.0.split_at(colon + 1),
        None => ("", &*revision.0),
    };
    let short: String = start.chars().chain(rest.chars().take(7)).collect();
    problems.for_each_mut(|problem| {
        let place = match problem.document.as_str() {
            "" => "the tree",
            place => place,
        };
        problem.document = format!("{place} at {short}");
    });
    problems
}
