//! The store: a handle to the writer thread and the reader threads.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread::{self, JoinHandle},
};

use async_trait::async_trait;
use control_plane_store::{
    Batch, Cause, CommitError, Error as ReadError, Key, KeyRange, Page, Store, Topic, Version,
    Versioned, Watchers, owner,
};
use futures::stream::BoxStream;
use rusqlite::Transaction;

use crate::{
    Error,
    damage::Damage,
    database,
    directory::Directory,
    error::{damaged, open_error},
    opening, reader,
    writer::{self, Poison, Writer},
};

/// A [`Store`] in a directory. Clones are handles to the same store; dropping the last one closes it.
///
/// A failed write or sync poisons the store. Removing or replacing the directory or one of its files poisons it too:
/// before each commit the files are compared with those that were opened.
///
/// ```
/// use control_plane_store::{Batch, Store};
/// use control_plane_store_sqlite::SqliteStore;
/// # let temporary = tempfile::tempdir()?;
/// # let dir = temporary.path().join("state");
/// let store = SqliteStore::open(&dir)?;
/// # futures::executor::block_on(async {
/// store.commit(Batch::new().put("head/shakespeare", "42")).await?;
/// # Ok::<(), control_plane_store::Error>(())
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
    /// Dropped last, after the threads have ended.
    _directory: Directory,
}

impl SqliteStore {
    /// Opens the store in `dir`, and creates it if there is none. Blocks while it reads the whole database once, to
    /// check that it is undamaged and that no acknowledged commit is missing. An unreadable history record does not
    /// prevent the opening: it is moved to the table `aside`, and a warning names it.
    ///
    /// No other process can be working with this store, so all heartbeats are removed: partitions of earlier processes
    /// can be taken over at once.
    ///
    /// # Errors
    /// If another process has the store open, if the store is damaged or has lost acknowledged commits, or if the
    /// operating system refuses access. The error names the file and says what to do.
    pub fn open(dir: impl AsRef<Path>) -> Result<Self, Error> {
        Self::start(Directory::lock(dir.as_ref())?)
    }

    /// Same as [`open`](Self::open), but blocks while another process has the store open, or a task of this process. In async
    /// code, call it with `tokio::task::spawn_blocking`: such a task may need the thread to end.
    ///
    /// # Errors
    /// As for [`open`](Self::open), except [`Error::InUse`].
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
            // If the readers have ended, the caller sees that the answer is dropped.
            let _ = reads.send(job);
        }
        answered
            .await
            .unwrap_or_else(|_| Err(ReadError::poisoned("a reader thread of the store ended")))
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
            // If the writer has ended, the caller sees that the answer is dropped.
            let _ = commits.send(writer::Job { batch, answer });
        }
        answered.await.unwrap_or_else(|_| {
            Err(CommitError::poisoned(
                "the writer thread of the store ended",
            ))
        })
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
        // A thread ends when its channel closes, after the jobs that are already in it. The writer ends last: it copies
        // the log into the database, which open readers would delay.
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
