//! Hints from notifications. One connection listens; whenever it is made again, all watchers are woken, because
//! notifications were missed meanwhile. It is made again when any connection of the store was lost: after a change of
//! roles it may lead to a server that sends nothing any more.

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
/// If the connection cannot be made, or does not lead to the primary.
pub(crate) async fn subscribe(server: &Server, known: &Known) -> sqlx::Result<PgListener> {
    let pool = PgPoolOptions::new()
        .max_connections(1)
        .acquire_timeout(server.timeout)
        .max_lifetime(None)
        .idle_timeout(None)
        .connect_lazy_with(server.options());
    let mut listener = PgListener::connect_with(&pool).await?;
    listener.eager_reconnect(false);
    prove(&mut listener, server, known).await?;
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
    let mut losses = known.losses();
    let mut pause = PAUSES.0;
    loop {
        let received = tokio::select! {
            biased;
            // The sender is part of `known`, so this waits for a loss.
            _ = losses.changed() => None,
            received = receive(&mut listener, &server, &known, &watchers) => Some(received),
        };
        match received {
            Some(Ok(())) => return,
            Some(Err(lost)) => {
                known.lost();
                tracing::warn!(
                    place = server.place(), error = %lost,
                    "the connection that listens to the store was lost; connecting again, and waking all watchers then"
                );
            }
            None => {}
        }
        drop(listener);
        listener = loop {
            sleep(pause).await;
            pause = (pause * 2).min(PAUSES.1);
            if watchers.strong_count() == 0 {
                return;
            }
            losses.mark_unchanged();
            if let Ok(Ok(listener)) = timeout(server.patience(), subscribe(&server, &known)).await {
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
/// When the connection is lost, or does not lead to the primary any more.
async fn receive(
    listener: &mut PgListener,
    server: &Server,
    known: &Known,
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
                prove(listener, server, known).await?;
                continue;
            }
        };
        if !wake(watchers, topic.payload()) {
            return Ok(());
        }
    }
}

/// Proves that the connection leads to the primary. One that a device on the way has forgotten looks like a quiet one.
async fn prove(listener: &mut PgListener, server: &Server, known: &Known) -> sqlx::Result<()> {
    let proved = timeout(server.patience(), known.prove(listener)).await;
    proved.map_err(|_| sqlx::Error::Protocol(Silent.to_string()))?
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
