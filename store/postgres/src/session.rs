//! Sessions: connections that were checked to lead to the store, and how they are kept and lost.

use std::{
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use control_plane_store::{Cause, Version};
use sqlx::{ConnectOptions, PgConnection, postgres::PgConnectOptions};
use tokio::time::{Instant, timeout};

use crate::{
    failure::{Busy, Meaning, Replaced, Silent, meaning},
    schema,
};

/// Time after which a session that was not used is opened again: a device on the way may have forgotten it.
const IDLE: Duration = Duration::from_secs(60);

/// What all sessions of a store share.
#[derive(Debug)]
pub(crate) struct Known {
    identity: String,
    /// Number of connections that were lost. The others are opened again before they are used: most losses are those of
    /// a server.
    losses: AtomicU64,
    /// Greatest version that this process was acknowledged.
    newest: AtomicU64,
    poison: OnceLock<Cause>,
}

impl Known {
    pub(crate) fn new(identity: String) -> Self {
        Self {
            identity,
            losses: AtomicU64::new(0),
            newest: AtomicU64::new(0),
            poison: OnceLock::new(),
        }
    }

    /// Notes that a connection was lost.
    pub(crate) fn lost(&self) {
        self.losses.fetch_add(1, Ordering::Relaxed);
    }

    /// The identity of the store that was opened.
    pub(crate) fn identity(&self) -> &str {
        &self.identity
    }

    /// The greatest version that this process was acknowledged.
    pub(crate) fn newest(&self) -> Version {
        Version(self.newest.load(Ordering::Relaxed))
    }

    /// Notes a version that was acknowledged.
    pub(crate) fn acknowledged(&self, version: Version) {
        self.newest.fetch_max(version.0, Ordering::Relaxed);
    }

    /// Why the store refuses all work, if it does.
    pub(crate) fn poison(&self) -> Option<Cause> {
        self.poison.get().cloned()
    }

    /// Makes the store refuse all work, and tells why.
    pub(crate) fn break_off(&self, source: &Cause) {
        tracing::error!(error = %source, "the tables of the store cannot be used; the store stays closed until it is opened again");
        // The first reason stays.
        let _ = self.poison.set(Arc::clone(source));
    }
}

/// Why there is no session.
#[derive(Debug)]
pub(crate) struct NoSession {
    pub(crate) meaning: Meaning,
    pub(crate) source: Cause,
}

impl NoSession {
    fn new(meaning: Meaning, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self {
            meaning,
            source: Arc::new(source),
        }
    }
}

/// A connection that leads to the store.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) connection: PgConnection,
    /// Losses that were known when it was opened.
    losses: u64,
    /// When it was used last.
    used: Instant,
}

/// Sessions of one kind: with one isolation and one statement that they run often.
#[derive(Debug)]
pub(crate) struct Sessions {
    known: Arc<Known>,
    options: PgConnectOptions,
    /// Prepared when a session is opened, so that running it is one round trip.
    statement: &'static str,
    timeout: Duration,
    idle: Mutex<Vec<Session>>,
    limit: tokio::sync::Semaphore,
}

/// A session that is in use. It returns to the others only by [`Lent::give_back`].
pub(crate) struct Lent<'a> {
    pub(crate) session: Session,
    sessions: &'a Sessions,
    _permit: tokio::sync::SemaphorePermit<'a>,
}

impl Lent<'_> {
    /// Returns the session for further use.
    pub(crate) fn give_back(mut self) {
        self.session.used = Instant::now();
        self.sessions.idle().push(self.session);
    }
}

impl Sessions {
    pub(crate) fn new(
        known: Arc<Known>,
        options: PgConnectOptions,
        statement: &'static str,
        timeout: Duration,
        limit: usize,
    ) -> Self {
        Self {
            known,
            options,
            statement,
            timeout,
            idle: Mutex::default(),
            limit: tokio::sync::Semaphore::new(limit),
        }
    }

    /// A session that no other call uses. Waits while all sessions are in use, for the time that a statement may take.
    ///
    /// # Errors
    /// If all sessions stay in use, a new connection cannot be made, or it does not lead to the store. Nothing of the caller's was sent.
    pub(crate) async fn lend(&self) -> Result<Lent<'_>, NoSession> {
        let permit = timeout(self.timeout, self.limit.acquire()).await;
        let permit = permit.map_err(|_| NoSession::new(Meaning::Refused, Busy))?;
        let permit = permit.map_err(|error| NoSession::new(Meaning::Refused, error))?;
        if let Some(source) = self.known.poison() {
            let meaning = Meaning::Broken;
            return Err(NoSession { meaning, source });
        }
        let losses = self.known.losses.load(Ordering::Relaxed);
        let current = |session: &Session| {
            let is_fresh = session.used.elapsed() < IDLE;
            session.losses == losses && is_fresh
        };
        let idle = std::iter::from_fn(|| self.idle().pop()).find(current);
        let session = match idle {
            Some(session) => session,
            None => self.open(losses).await?,
        };
        Ok(Lent {
            session,
            sessions: self,
            _permit: permit,
        })
    }

    async fn open(&self, losses: u64) -> Result<Session, NoSession> {
        match timeout(self.timeout, self.checked()).await {
            Ok(connection) => Ok(Session {
                connection: connection?,
                losses,
                used: Instant::now(),
            }),
            Err(_) => Err(NoSession::new(Meaning::Refused, Silent)),
        }
    }

    async fn checked(&self) -> Result<PgConnection, NoSession> {
        let refused = |source: sqlx::Error| {
            // Whatever the failure, nothing of the caller's was sent.
            let meaning = match meaning(&source) {
                Meaning::Broken => Meaning::Broken,
                _ => Meaning::Refused,
            };
            let refused = NoSession::new(meaning, source);
            if meaning == Meaning::Broken {
                self.known.break_off(&refused.source);
            }
            refused
        };
        let mut connection = self.options.connect().await.map_err(refused)?;
        let newest = self.known.newest().0;
        let about = schema::about(&mut connection).await.map_err(refused)?;
        let replaced = if !about.is_readable() {
            Some(Replaced::Format)
        } else if about.identity != self.known.identity {
            Some(Replaced::Identity)
        } else {
            (about.newest < newest).then_some(Replaced::Older)
        };
        if let Some(replaced) = replaced {
            let replaced = NoSession::new(Meaning::Broken, replaced);
            self.known.break_off(&replaced.source);
            return Err(replaced);
        }
        let prepared =
            sqlx::Executor::prepare(&mut connection, sqlx::SqlStr::from_static(self.statement));
        prepared.await.map_err(refused)?;
        Ok(connection)
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Session>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
