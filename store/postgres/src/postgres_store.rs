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
    time::{Instant, sleep, timeout},
};

use crate::{
    Error, Options,
    failure::{Ended, Meaning, Silent, commit_error, meaning, read_error},
    listen,
    marks::Sent,
    options::Server,
    read::{self, Failed, GET},
    schema,
    session::{Known, Sessions, while_full},
    statement::{Answer, COMMIT, Statement},
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
        let end = Instant::now() + server.timeout;
        let opened = timeout(server.patience(), async {
            let connect = || async { server.options().connect().await };
            let connection = while_full(end, connect).await;
            let mut connection = connection.map_err(unreachable)?;
            let known = Known::new(schema::prepare(&mut connection, &server).await?);
            drop(connection);
            let subscribe = || listen::subscribe(&server, &known);
            let listener = while_full(end, subscribe).await.map_err(unreachable)?;
            Ok((known, listener))
        });
        let silent = || unreachable(sqlx::Error::Protocol(Silent.to_string()));
        let (known, listener) = opened.await.map_err(|_| silent())??;
        let known = Arc::new(known);
        let sessions = |isolation, statement| {
            let (known, server) = (Arc::clone(&known), server.clone());
            Sessions::new(known, server, isolation, statement, options.connections)
        };
        let watchers = listen::Shared::default();
        let runtime = Handle::current();
        let weak = Arc::downgrade(&watchers);
        let listening = listen::run(listener, server.clone(), Arc::clone(&known), weak);
        let store = Self(Arc::new(Inner {
            channel: server.channel(),
            writers: sessions(schema::SERIALIZABLE, COMMIT),
            readers: sessions(schema::READ_COMMITTED, GET),
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
            let prune = store.read(|connection, _| Box::pin(read::prune(connection)));
            if let Err(error) = prune.await {
                tracing::warn!(%error, "failed to forget old batches; trying again after the next 4096 commits");
            }
        });
    }

    async fn read<T: Send + 'static>(
        &self,
        read: impl for<'a> Fn(&'a mut PgConnection, &'a Known) -> BoxFuture<'a, Result<T, Failed>>
        + Send
        + Sync
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
        let (mut attempt, mut was_stale) = (0, false);
        loop {
            let (meaning, source) = match self.attempt(&statement).await {
                Ok((answer, sent)) => {
                    let version = answer.result(batch)?;
                    let sent = Some(sent).filter(|_| !answer.earlier);
                    self.known.marks.acknowledged(batch.id, version, sent);
                    return Ok(version);
                }
                Err(failure) => failure,
            };
            attempt += 1;
            match meaning {
                Meaning::Repeat if attempt < ATTEMPTS => sleep(pause(batch.id, attempt)).await,
                // A new connection may lead to the primary.
                Meaning::Stale if !was_stale => was_stale = true,
                _ => return Err(commit_error(meaning, source)),
            }
        }
    }

    /// Sends the statement once. Returns its answer, and when it was sent.
    async fn attempt(&self, statement: &Statement<'_>) -> Result<(Answer, Sent), (Meaning, Cause)> {
        let lent = self.writers.lend().await;
        let mut lent = lent.map_err(|none| (none.meaning, none.source))?;
        let sent = self.known.marks.sent();
        let run = statement.run(&mut lent.session.connection, &self.known, &self.channel);
        let (meaning, source) = match timeout(self.server.patience(), run).await {
            Ok(Ok(answer)) => {
                lent.give_back();
                return Ok((answer, sent));
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

    /// Reads, and once more on a new connection if the first one leads to a server that lacks what this process was
    /// acknowledged.
    async fn read<T>(
        &self,
        read: impl for<'a> Fn(&'a mut PgConnection, &'a Known) -> BoxFuture<'a, Result<T, Failed>>,
    ) -> Result<T, ReadError> {
        match self.read_once(&read).await? {
            Ok(read) => return Ok(read),
            Err((Meaning::Stale, _)) => {}
            Err((meaning, source)) => return Err(read_error(meaning, source)),
        }
        let again = self.read_once(&read).await?;
        again.map_err(|(meaning, source)| read_error(meaning, source))
    }

    async fn read_once<T>(
        &self,
        read: impl for<'a> Fn(&'a mut PgConnection, &'a Known) -> BoxFuture<'a, Result<T, Failed>>,
    ) -> Result<Result<T, (Meaning, Cause)>, ReadError> {
        let mut lent = match self.readers.lend().await {
            Ok(lent) => lent,
            Err(none) => return Ok(Err((none.meaning, none.source))),
        };
        let reading = read(&mut lent.session.connection, &self.known);
        let (meaning, source) = match timeout(self.server.patience(), reading).await {
            Ok(Ok(read)) => {
                lent.give_back();
                return Ok(Ok(read));
            }
            Ok(Err(Failed::Row(error))) => return Err(error),
            Ok(Err(Failed::Statement(error))) => (meaning(&error), Arc::new(error) as Cause),
            Err(_) => (Meaning::Lost, Arc::new(Silent) as Cause),
        };
        self.failed(meaning, &source);
        Ok(Err((meaning, source)))
    }

    /// Notes what a failed statement says about the other connections and the tables.
    fn failed(&self, meaning: Meaning, source: &Cause) {
        match meaning {
            Meaning::Repeat => {}
            Meaning::Refused | Meaning::Full => {
                tracing::warn!(place = self.server.place(), error = %source, "the server of the store refused a statement");
            }
            Meaning::Stale => {
                tracing::warn!(
                    place = self.server.place(), error = %source,
                    "a connection to the store leads to a server that is not the primary; opening all connections again"
                );
                self.known.lost();
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
        let keys: Arc<[Key]> = keys.into();
        self.read(move |connection, known| {
            let keys = Arc::clone(&keys);
            Box::pin(async move { read::get(connection, known, &keys).await })
        })
        .await
    }

    async fn scan(&self, range: KeyRange, limit: usize) -> Result<Page, ReadError> {
        self.read(move |connection, known| {
            let range = range.clone();
            Box::pin(async move { read::scan(connection, known, &range, limit).await })
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
