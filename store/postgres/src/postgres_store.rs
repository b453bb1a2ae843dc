//! The store: commits and reads on sessions of their own, and the watchers.

use std::{
    collections::VecDeque,
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use control_plane_store::{
    Batch, BatchId, Cause, CommitError, Error as ReadError, Key, KeyRange, Page, Store, Topic,
    Version, Versioned,
};
use futures::{future::BoxFuture, stream::BoxStream};
use sqlx::{ConnectOptions, PgConnection};
use tokio::{
    runtime::Handle,
    task::AbortHandle,
    time::{sleep, timeout},
};

use crate::{
    Error, Options,
    failure::{Ended, Meaning, Silent, commit_error, meaning, read_error},
    listen,
    options::Server,
    read::{self, Failed, GET},
    schema,
    session::{Known, Sessions},
    statement::{COMMIT, Statement},
};

/// Maximum number of times that a commit is tried when it loses against concurrent ones.
const ATTEMPTS: u32 = 40;

/// Maximum number of batches that are known to have no certain outcome. The oldest are forgotten.
const UNCERTAIN: usize = 4096;

/// Number of own commits after which a process forgets old batches.
const PRUNE: u64 = 4096;

/// A [`Store`] in a PostgreSQL database. Clones are handles to the same store; dropping the last one closes it. Any
/// number of processes can use one database.
///
/// Commits and reads run as tasks of the tokio runtime in which the store was opened; a caller that no longer waits does
/// not interrupt them.
///
/// ```no_run
/// use control_plane_store::{Batch, Store};
/// use control_plane_store_postgres::PostgresStore;
///
/// # async fn write() -> Result<(), Box<dyn std::error::Error>> {
/// let store = PostgresStore::connect("postgres://plane@db.example.com/plane").await?;
/// store.commit(Batch::new().put("head/shakespeare", "42")).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct PostgresStore(Arc<Inner>);

struct Inner {
    server: Server,
    channel: String,
    known: Arc<Known>,
    writers: Sessions,
    readers: Sessions,
    commits: AtomicU64,
    /// Batches that were answered with `Unknown`, and not with anything certain since.
    uncertain: Mutex<VecDeque<BatchId>>,
    watchers: listen::Shared,
    listener: AbortHandle,
    runtime: Handle,
}

impl PostgresStore {
    /// Opens the store in the database at `url`, with the default [`Options`]: in the schema `control_plane`, which is
    /// created if it is missing. Call it within a tokio runtime that has IO and time enabled: the store runs
    /// there.
    ///
    /// # Errors
    /// As for [`Options::connect`].
    pub async fn connect(url: &str) -> Result<Self, Error> {
        Options::new(url).connect().await
    }

    pub(crate) async fn open(options: Options) -> Result<Self, Error> {
        let server = options.server()?;
        let unreachable = |source| Error::Unreachable {
            place: server.place(),
            source,
        };
        let opened = timeout(server.patience(), async {
            let mut connection = server.options("serializable").connect().await;
            let connection = connection.as_mut().map_err(|error| {
                unreachable(std::mem::replace(error, sqlx::Error::WorkerCrashed))
            })?;
            let identity = schema::prepare(connection, &server).await?;
            let listener = listen::subscribe(&server).await.map_err(unreachable)?;
            Ok((identity, listener))
        });
        let silent = || unreachable(sqlx::Error::Protocol(Silent.to_string()));
        let (identity, listener) = opened.await.map_err(|_| silent())??;
        let known = Arc::new(Known::new(identity));
        let sessions = |isolation, statement| {
            let options_of = server.options(isolation);
            let known = Arc::clone(&known);
            Sessions::new(
                known,
                options_of,
                statement,
                server.timeout,
                options.connections,
            )
        };
        let watchers = listen::Shared::default();
        let runtime = Handle::current();
        let weak = Arc::downgrade(&watchers);
        let listening = listen::run(listener, server.clone(), Arc::clone(&known), weak);
        let store = Self(Arc::new(Inner {
            channel: server.channel(),
            writers: sessions("serializable", COMMIT),
            // A read is one statement, and sees one snapshot under any isolation.
            readers: sessions("read committed", GET),
            commits: AtomicU64::new(0),
            uncertain: Mutex::default(),
            watchers,
            listener: runtime.spawn(listening).abort_handle(),
            runtime,
            known,
            server,
        }));
        // The first commit finds a session.
        if let Ok(session) = store.0.writers.lend().await {
            session.give_back();
        }
        Ok(store)
    }

    /// Forgets old batches, beside other work.
    fn forget(&self) {
        let store = self.clone();
        self.0.runtime.spawn(async move {
            let prune = store.read(|connection| Box::pin(read::prune(connection)));
            if let Err(error) = prune.await {
                tracing::warn!(%error, "failed to forget old batches; trying again after the next 4096 commits");
            }
        });
    }

    async fn read<T: Send + 'static>(
        &self,
        read: impl for<'a> FnOnce(&'a mut PgConnection) -> BoxFuture<'a, Result<T, Failed>>
        + Send
        + 'static,
    ) -> Result<T, ReadError> {
        let inner = Arc::clone(&self.0);
        let task = self.0.runtime.spawn(async move { inner.read(read).await });
        task.await
            .unwrap_or_else(|_| Err(ReadError::unavailable(Ended)))
    }
}

impl Inner {
    /// Commits a batch. An attempt that has written nothing says nothing about those before it.
    async fn commit(&self, batch: &Batch) -> Result<Version, CommitError> {
        let committed = self.tried(batch).await;
        let mut uncertain = self
            .uncertain
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let known = uncertain.iter().position(|id| *id == batch.id);
        match committed {
            Err(CommitError::Unavailable { source }) if known.is_some() => {
                Err(CommitError::Unknown { source })
            }
            Err(CommitError::Unknown { source }) => {
                if known.is_none() {
                    uncertain.truncate(UNCERTAIN - 1);
                    uncertain.push_front(batch.id);
                }
                Err(CommitError::Unknown { source })
            }
            certain => {
                known.map(|at| uncertain.remove(at));
                certain
            }
        }
    }

    async fn tried(&self, batch: &Batch) -> Result<Version, CommitError> {
        let statement = Statement::of(batch);
        let mut attempt = 0;
        loop {
            let (meaning, source) = match self.attempt(&statement).await {
                Ok(answer) => {
                    let version = answer.result(batch)?;
                    self.known.acknowledged(version);
                    return Ok(version);
                }
                Err(failure) => failure,
            };
            attempt += 1;
            if meaning != Meaning::Repeat || attempt == ATTEMPTS {
                return Err(commit_error(meaning, source));
            }
            sleep(pause(batch.id, attempt)).await;
        }
    }

    /// Sends the statement once.
    async fn attempt(
        &self,
        statement: &Statement<'_>,
    ) -> Result<crate::statement::Answer, (Meaning, Cause)> {
        let lent = self.writers.lend().await;
        let mut lent = lent.map_err(|none| (none.meaning, none.source))?;
        let run = statement.run(&mut lent.session.connection, &self.known, &self.channel);
        let (meaning, source) = match timeout(self.server.patience(), run).await {
            Ok(Ok(answer)) => {
                lent.give_back();
                return Ok(answer);
            }
            Ok(Err(error)) => (meaning(&error), Arc::new(error) as Cause),
            Err(_) => (Meaning::Lost, Arc::new(Silent) as Cause),
        };
        self.failed(meaning, &source);
        if meaning == Meaning::Repeat {
            lent.give_back();
        }
        Err((meaning, source))
    }

    async fn read<T>(
        &self,
        read: impl for<'a> FnOnce(&'a mut PgConnection) -> BoxFuture<'a, Result<T, Failed>>,
    ) -> Result<T, ReadError> {
        let lent = self.readers.lend().await;
        let mut lent = lent.map_err(|none| read_error(none.meaning, none.source))?;
        let reading = timeout(self.server.patience(), read(&mut lent.session.connection));
        let (meaning, source) = match reading.await {
            Ok(Ok(read)) => {
                lent.give_back();
                return Ok(read);
            }
            Ok(Err(Failed::Row(error))) => return Err(error),
            Ok(Err(Failed::Statement(error))) => (meaning(&error), Arc::new(error) as Cause),
            Err(_) => (Meaning::Lost, Arc::new(Silent) as Cause),
        };
        self.failed(meaning, &source);
        Err(read_error(meaning, source))
    }

    /// Notes what a failed statement says about the other connections and the tables.
    fn failed(&self, meaning: Meaning, source: &Cause) {
        match meaning {
            Meaning::Repeat => {}
            Meaning::Refused => {
                tracing::warn!(place = self.server.place(), error = %source, "the server of the store refused a statement");
            }
            Meaning::Lost => self.known.lost(),
            Meaning::Broken => self.known.break_off(source),
        }
    }
}

/// The pause before an attempt: between nothing and a bound that grows from 1 ms to 64 ms. Drawn from the id of the
/// batch, which is random, so that commits that were in each other's way do not meet again.
fn pause(batch: BatchId, attempt: u32) -> Duration {
    let bound = 1000 << (attempt - 1).min(6);
    // Any 19 bits of a random number are random.
    let drawn = (batch.0 >> (attempt * 19 % 109)) % bound;
    Duration::from_micros(u64::try_from(drawn).unwrap_or_default())
}

#[async_trait]
impl Store for PostgresStore {
    async fn get(&self, keys: &[Key]) -> Result<Vec<Option<Versioned>>, ReadError> {
        let keys = keys.to_vec();
        self.read(move |connection| Box::pin(async move { read::get(connection, &keys).await }))
            .await
    }

    async fn scan(&self, range: KeyRange, limit: usize) -> Result<Page, ReadError> {
        self.read(move |connection| {
            Box::pin(async move { read::scan(connection, &range, limit).await })
        })
        .await
    }

    async fn commit(&self, batch: Batch) -> Result<Version, CommitError> {
        batch.check()?;
        let inner = Arc::clone(&self.0);
        let task = self
            .0
            .runtime
            .spawn(async move { inner.commit(&batch).await });
        let committed = task
            .await
            .unwrap_or_else(|_| Err(CommitError::unknown(Ended)));
        let commits = self.0.commits.fetch_add(1, Ordering::Relaxed) + 1;
        if commits.is_multiple_of(PRUNE) {
            self.forget();
        }
        committed
    }

    fn watch(&self, topic: Topic) -> BoxStream<'static, ()> {
        let watchers = self.0.watchers.lock();
        watchers
            .unwrap_or_else(PoisonError::into_inner)
            .watch(topic)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.listener.abort();
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PostgresStore")
            .field(&self.0.server.place())
            .finish()
    }
}
