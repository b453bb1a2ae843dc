//! Sessions: connections that were checked to lead to the store, and how they are kept and lost.

use std::{
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use control_plane_store::Cause;
use sqlx::{ConnectOptions, PgConnection, PgExecutor};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until, timeout_at},
};

use crate::{
    failure::{Busy, Meaning, Replaced, Silent, Unfit, code, meaning},
    marks::Marks,
    options::Server,
    schema,
};

/// Time after which a session that was not used is opened again: a device on the way may have forgotten it.
const IDLE: Duration = Duration::from_secs(60);

/// The shortest and the longest pause before connecting again to a server that has no room.
const PAUSES: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(250));

/// What all sessions of a store share.
#[derive(Debug)]
pub(crate) struct Known {
    identity: String,
    /// Number of connections that were lost. The others are opened again before they are used: most losses are those of
    /// a server.
    losses: watch::Sender<u64>,
    /// The newest commits that this process was acknowledged.
    pub(crate) marks: Marks,
    poison: OnceLock<Cause>,
}

impl Known {
    pub(crate) fn new(identity: String) -> Self {
        Self {
            identity,
            losses: watch::Sender::new(0),
            marks: Marks::default(),
            poison: OnceLock::new(),
        }
    }

    /// Notes that a connection was lost.
    pub(crate) fn lost(&self) {
        self.losses.send_modify(|losses| *losses += 1);
    }

    /// Follows the number of lost connections.
    pub(crate) fn losses(&self) -> watch::Receiver<u64> {
        self.losses.subscribe()
    }

    /// The identity of the store that was opened.
    pub(crate) fn identity(&self) -> &str {
        &self.identity
    }

    /// Proves that the server is the primary, and sees all that this process was acknowledged.
    ///
    /// # Errors
    /// With the code of the function `prove` if it does not.
    pub(crate) async fn prove<'c>(&self, connection: impl PgExecutor<'c>) -> sqlx::Result<()> {
        let proof = self.marks.proof();
        let prove = sqlx::query("select prove($1, $2, $3)");
        let prove = prove.bind(self.identity());
        let prove = prove.bind(&proof.ids).bind(&proof.versions);
        prove.execute(connection).await.map(drop)
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
pub(crate) struct Sessions {
    known: Arc<Known>,
    server: Server,
    isolation: &'static str,
    /// Prepared when a session is opened, so that running it is one round trip.
    statement: &'static str,
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
        server: Server,
        isolation: &'static str,
        statement: &'static str,
        limit: usize,
    ) -> Self {
        Self {
            known,
            server,
            isolation,
            statement,
            idle: Mutex::default(),
            limit: tokio::sync::Semaphore::new(limit),
        }
    }

    /// A session that no other call uses. Waits while all sessions are in use, and while the server has no room for
    /// another one, for the time that a statement may take.
    ///
    /// # Errors
    /// If all sessions stay in use, a new connection cannot be made, or it does not lead to the store. Nothing of the
    /// caller's was sent.
    pub(crate) async fn lend(&self) -> Result<Lent<'_>, NoSession> {
        let end = Instant::now() + self.server.timeout;
        let permit = timeout_at(end, self.limit.acquire()).await;
        let permit = permit.map_err(|_| NoSession::new(Meaning::Refused, Busy))?;
        let permit = permit.map_err(|error| NoSession::new(Meaning::Refused, error))?;
        if let Some(source) = self.known.poison() {
            let meaning = Meaning::Broken;
            return Err(NoSession { meaning, source });
        }
        let session = while_full(end, || self.session(end));
        Ok(Lent {
            session: session.await?,
            sessions: self,
            _permit: permit,
        })
    }

    /// An idle session, or else a new one.
    async fn session(&self, end: Instant) -> Result<Session, NoSession> {
        let losses = *self.known.losses.borrow();
        let current = |session: &Session| {
            let is_fresh = session.used.elapsed() < IDLE;
            session.losses == losses && is_fresh
        };
        let idle = std::iter::from_fn(|| self.idle().pop()).find(current);
        if let Some(session) = idle {
            return Ok(session);
        }
        match timeout_at(end, self.checked()).await {
            Ok(connection) => Ok(Session {
                connection: connection?,
                losses,
                used: Instant::now(),
            }),
            Err(_) => Err(NoSession::new(Meaning::Refused, Silent)),
        }
    }

    /// A new connection that leads to the store.
    async fn checked(&self) -> Result<PgConnection, NoSession> {
        let connection = self.server.options().connect().await;
        let mut connection = connection.map_err(|error| self.refused(error))?;
        // R50: before the tables are looked at, because a standby that lags is no loss.
        let unfit = schema::set_up(&mut connection, self.isolation).await;
        match unfit.map_err(|error| self.refused(error))? {
            Some(Unfit::Standby) => {
                return Err(NoSession::new(Meaning::Stale, Unfit::Standby));
            }
            Some(unfit) => return Err(NoSession::new(Meaning::Refused, unfit)),
            None => {}
        }
        let about = schema::about(&mut connection).await;
        let about = about.map_err(|error| self.refused(error))?;
        if !about.is_readable() {
            return Err(self.replaced(Replaced::Format));
        }
        if about.identity != self.known.identity {
            return Err(self.replaced(Replaced::Identity));
        }
        match self.known.prove(&mut connection).await {
            Ok(()) => {}
            // A new connection to the primary: the commits are lost.
            Err(error) if code(&error) == "CP002" => return Err(self.replaced(Replaced::Older)),
            Err(error) => return Err(self.refused(error)),
        }
        let prepared =
            sqlx::Executor::prepare(&mut connection, sqlx::SqlStr::from_static(self.statement));
        prepared.await.map_err(|error| self.refused(error))?;
        Ok(connection)
    }

    /// Why there is no session, after a failure before anything of the caller's was sent.
    fn refused(&self, source: sqlx::Error) -> NoSession {
        let meaning = match meaning(&source) {
            certain @ (Meaning::Broken | Meaning::Full | Meaning::Stale) => certain,
            _ => Meaning::Refused,
        };
        let refused = NoSession::new(meaning, source);
        if meaning == Meaning::Broken {
            self.known.break_off(&refused.source);
        }
        refused
    }

    fn replaced(&self, replaced: Replaced) -> NoSession {
        let replaced = NoSession::new(Meaning::Broken, replaced);
        self.known.break_off(&replaced.source);
        replaced
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Session>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a connection cannot be made.
pub(crate) trait Refusal {
    /// Whether the server has no room for another connection.
    fn is_full(&self) -> bool;
}

impl Refusal for NoSession {
    fn is_full(&self) -> bool {
        self.meaning == Meaning::Full
    }
}

impl Refusal for sqlx::Error {
    fn is_full(&self) -> bool {
        meaning(self) == Meaning::Full
    }
}

/// Repeats an attempt to connect while the server has no room, until `end`.
///
/// # Errors
/// Of the last attempt.
pub(crate) async fn while_full<T, E: Refusal, F: Future<Output = Result<T, E>>>(
    end: Instant,
    attempt: impl Fn() -> F,
) -> Result<T, E> {
    let mut pause = PAUSES.0;
    loop {
        let again = Instant::now() + pause;
        match attempt().await {
            Err(refused) if refused.is_full() && again < end => sleep_until(again).await,
            certain => return certain,
        }
        pause = (pause * 2).min(PAUSES.1);
    }
}
