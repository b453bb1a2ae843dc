//! The store: a handle to the threads that write and read.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread::{self, JoinHandle},
};

use async_trait::async_trait;
use futures::stream::BoxStream;
use plane_store::{
    Batch, Cause, CommitError, Error as ReadError, Key, KeyRange, Page, Store, Topic, Version,
    Versioned, Watchers, owner,
};
use rusqlite::Transaction;

use crate::{
    Error,
    database::{self, Damage},
    directory::Directory,
    error::{damaged, open_error},
    opening, reader,
    writer::{self, Poison, Writer},
};

/// A [`Store`] in a directory. It is poisoned when a write or a sync fails, and when the directory or a file of it is
/// removed or replaced under it: before each commit they are compared with what was opened. Clones are handles to the same store; the last one to go closes it.
///
/// ```
/// use plane_store::{Batch, Store};
/// use plane_store_sqlite::SqliteStore;
/// # let temporary = tempfile::tempdir()?;
/// # let dir = temporary.path().join("state");
/// let store = SqliteStore::open(&dir)?;
/// # futures::executor::block_on(async {
/// store.commit(Batch::new().put("head/shakespeare", "42")).await?;
/// # Ok::<(), plane_store::Error>(())
/// # })?;
/// assert!(SqliteStore::open(&dir).unwrap_err().to_string().contains("in use by process"));
/// drop(store);
/// assert!(SqliteStore::open(&dir).is_ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct SqliteStore(Arc<Inner>);

struct Inner {
    path: PathBuf,
    commits: Option<mpsc::Sender<writer::Job>>,
    reads: Option<mpsc::Sender<reader::Job>>,
    writer: Option<JoinHandle<()>>,
    readers: Vec<JoinHandle<()>>,
    poison: Poison,
    watchers: Arc<Mutex<Watchers>>,
    /// Released last, once the threads are gone.
    _directory: Directory,
}

impl SqliteStore {
    /// Opens the store in `dir`, creating it if there is none. Reads all of it once, to be sure that it is undamaged and
    /// that no acknowledged commit is missing; blocks until then. One unreadable record of history stops nothing: it is
    /// moved to the table `aside`, and a warning names it.
    ///
    /// No other process can be alive in this store, so the heartbeats of all others are removed: whatever they owned can
    /// be taken over at once.
    ///
    /// # Errors
    /// When another process has it open, when it is damaged or has lost what was acknowledged, or when the system
    /// refuses. The error names the file and what to do.
    pub fn open(dir: impl AsRef<Path>) -> Result<Self, Error> {
        Self::start(Directory::lock(dir.as_ref())?)
    }

    /// As [`open`](Self::open), but waits for another process that has it open to end. Blocks for as long.
    ///
    /// # Errors
    /// As [`open`](Self::open), except that it waits.
    pub fn open_wait(dir: impl AsRef<Path>) -> Result<Self, Error> {
        Self::start(Directory::lock_wait(dir.as_ref())?)
    }

    fn start(directory: Directory) -> Result<Self, Error> {
        let path = directory.database();
        let refused = |source| open_error(&path, source);
        let opened = opening::open(&directory)?;
        let (poison, watchers) = (Poison::default(), Arc::default());
        let shared = (Arc::clone(&poison), Arc::clone(&watchers));
        let mut writer =
            Writer::new(opened, shared.0, shared.1).map_err(|damage| damaged(&path, damage))?;
        let bury = Batch::new().delete_range(owner::heartbeats());
        if let Err(source) = writer.commit_alone(bury) {
            return Err(Error::Refused { path, source });
        }
        let (commits, jobs) = mpsc::channel();
        let writer = spawn("writer", &path, move || writer.run(&jobs))?;
        let (reads, jobs) = mpsc::channel();
        let jobs = Arc::new(Mutex::new(jobs));
        let mut readers = Vec::new();
        for _ in 0..reader::THREADS {
            let connection = database::connect(&path).map_err(refused)?;
            let jobs = Arc::clone(&jobs);
            readers.push(spawn("reader", &path, move || {
                reader::run(connection, &jobs)
            })?);
        }
        Ok(Self(Arc::new(Inner {
            path: path.clone(),
            commits: Some(commits),
            reads: Some(reads),
            writer: Some(writer),
            readers,
            poison,
            watchers,
            _directory: directory,
        })))
    }

    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Transaction<'_>) -> Result<T, Damage> + Send + 'static,
    ) -> Result<T, ReadError> {
        if let Some(cause) = self.0.poison.get() {
            let source = Cause::clone(cause);
            return Err(ReadError::Poisoned { source });
        }
        let (job, answered) = reader::job(read);
        if let Some(reads) = &self.0.reads {
            // Without readers there is no answer either.
            let _ = reads.send(job);
        }
        answered
            .await
            .unwrap_or_else(|_| Err(ReadError::poisoned("a reading thread ended")))
    }
}

fn spawn(
    name: &str,
    path: &Path,
    work: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, Error> {
    let thread = thread::Builder::new().name(format!("store-{name}"));
    thread.spawn(work).map_err(|source| Error::Io {
        path: path.to_owned(),
        source,
    })
}

#[async_trait]
impl Store for SqliteStore {
    async fn get(&self, keys: &[Key]) -> Result<Vec<Option<Versioned>>, ReadError> {
        let keys = keys.to_vec();
        self.read(move |transaction| {
            let rows = keys.iter().map(|key| database::get(transaction, key));
            rows.collect()
        })
        .await
    }

    async fn scan(&self, range: KeyRange, limit: usize) -> Result<Page, ReadError> {
        self.read(move |transaction| database::scan(transaction, &range, limit))
            .await
    }

    async fn commit(&self, batch: Batch) -> Result<Version, CommitError> {
        batch.check()?;
        let (answer, answered) = futures::channel::oneshot::channel();
        if let Some(commits) = &self.0.commits {
            // Without a writer there is no answer either.
            let _ = commits.send(writer::Job { batch, answer });
        }
        answered
            .await
            .unwrap_or_else(|_| Err(CommitError::poisoned("the writing thread ended")))
    }

    fn watch(&self, topic: Topic) -> BoxStream<'static, ()> {
        let mut watchers = self
            .0
            .watchers
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        watchers.watch(topic)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // The threads end once there is no way to ask them anything; what was asked is done first. The writer goes last,
        // alone: it copies the log into the database, which readers would hold up.
        self.reads = None;
        for reader in self.readers.drain(..) {
            let _ = reader.join();
        }
        self.commits = None;
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SqliteStore").field(&self.0.path).finish()
    }
}
