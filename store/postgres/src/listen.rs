//! Hints from notifications. One connection listens; whenever it is made again, all watchers are woken, because
//! notifications were missed meanwhile.

use std::{
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use control_plane_store::{Topic, Watchers};
use sqlx::postgres::{PgListener, PgPoolOptions};
use tokio::time::{sleep, timeout};

use crate::{failure::Silent, options::Server, session::Known, statement::ALL};

/// The shortest and the longest pause before a lost connection is made again.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

/// Time without a notification after which the connection is tried.
const QUIET: Duration = Duration::from_secs(30);

/// The watchers in this process, shared with the task that listens.
pub(crate) type Shared = Arc<Mutex<Watchers>>;

/// Opens the connection that listens.
///
/// # Errors
/// If the connection cannot be made.
pub(crate) async fn subscribe(server: &Server) -> sqlx::Result<PgListener> {
    let pool = PgPoolOptions::new()
        .max_connections(1)
        .acquire_timeout(server.timeout)
        .max_lifetime(None)
        .idle_timeout(None)
        .connect_lazy_with(server.options("read committed"));
    let mut listener = PgListener::connect_with(&pool).await?;
    listener.eager_reconnect(false);
    listener.listen(&server.channel()).await?;
    Ok(listener)
}

/// Passes notifications on to the watchers until they are dropped.
pub(crate) async fn run(
    mut listener: PgListener,
    server: Server,
    known: Arc<Known>,
    watchers: Weak<Mutex<Watchers>>,
) {
    let mut pause = PAUSES.0;
    loop {
        let lost = receive(&mut listener, &server, &watchers).await;
        let Err(lost) = lost else { return };
        known.lost();
        tracing::warn!(
            place = server.place(), error = %lost,
            "the connection that listens to the store was lost; connecting again, and waking all watchers then"
        );
        drop(listener);
        listener = loop {
            sleep(pause).await;
            pause = (pause * 2).min(PAUSES.1);
            if watchers.strong_count() == 0 {
                return;
            }
            if let Ok(Ok(listener)) = timeout(server.patience(), subscribe(&server)).await {
                break listener;
            }
        };
        pause = PAUSES.0;
        if !wake(&watchers, ALL) {
            return;
        }
    }
}

/// Passes notifications on. `Ok`: the watchers were dropped.
///
/// # Errors
/// When the connection is lost.
async fn receive(
    listener: &mut PgListener,
    server: &Server,
    watchers: &Weak<Mutex<Watchers>>,
) -> sqlx::Result<()> {
    loop {
        let topic = match timeout(QUIET, listener.try_recv()).await {
            Ok(Ok(Some(notification))) => notification,
            Ok(Ok(None)) => {
                return Err(sqlx::Error::Io(std::io::ErrorKind::ConnectionReset.into()));
            }
            Ok(Err(error)) => return Err(error),
            Err(_) => {
                // A connection that a device on the way has forgotten looks like a quiet one.
                let alive = sqlx::query("select 1").execute(&mut *listener);
                let answered = timeout(server.patience(), alive).await;
                answered.map_err(|_| sqlx::Error::Protocol(Silent.to_string()))??;
                continue;
            }
        };
        if !wake(watchers, topic.payload()) {
            return Ok(());
        }
    }
}

/// Wakes the watchers of a topic, or all of them. Whether there still is a store.
fn wake(watchers: &Weak<Mutex<Watchers>>, topic: &str) -> bool {
    let Some(watchers) = watchers.upgrade() else {
        return false;
    };
    let mut watchers = watchers.lock().unwrap_or_else(PoisonError::into_inner);
    match topic {
        ALL => watchers.announce_all(),
        topic => watchers.announce(&Topic::from(topic), || 1),
    }
    true
}
