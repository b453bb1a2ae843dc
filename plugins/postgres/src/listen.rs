//! Hints that the database has changed, from its notifications. Never needed: a hint makes a change arrive sooner.

use std::time::Duration;

use control_plane_runtime::{Runtime, TokioRuntime};
use futures::stream::{self, BoxStream, StreamExt};
use sqlx::postgres::{PgListener, PgPoolOptions};
use tokio::sync::watch;

use crate::server::Server;

/// The shortest and the longest pause before a lost connection is made again.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// A hint for each notification on `channel`, and one whenever a connection was made, because notifications may have been
/// missed before. Hints that come faster than they are taken count as one.
pub(crate) fn hints(server: Server, channel: String) -> BoxStream<'static, ()> {
    let start = move || {
        let (hints, taken) = watch::channel(());
        let runtime = TokioRuntime::current();
        // A task of its own: the client's connection has to be dropped inside of the runtime.
        runtime.spawn(Box::pin(listen(runtime.clone(), server, channel, hints)));
        taken
    };
    let started = stream::once(async move { start() });
    let hints = started.flat_map(|taken| {
        stream::unfold(taken, |mut taken| async move {
            taken.changed().await.ok()?;
            Some(((), taken))
        })
    });
    hints.boxed()
}

/// Listens until the stream of hints is dropped.
async fn listen(runtime: TokioRuntime, server: Server, channel: String, hints: watch::Sender<()>) {
    let mut pause = PAUSES.0;
    let listening = async {
        loop {
            if let Some(mut listener) = subscribed(&server, &channel).await {
                pause = PAUSES.0;
                hints.send_replace(());
                // `None`: the connection was lost.
                while let Ok(Some(_)) = listener.try_recv().await {
                    hints.send_replace(());
                }
            }
            runtime.sleep(pause).await;
            pause = (pause * 2).min(PAUSES.1);
        }
    };
    futures::future::select(Box::pin(listening), Box::pin(hints.closed())).await;
}

/// A connection that listens. `None`: it cannot be made now; readings tell why.
async fn subscribed(server: &Server, channel: &str) -> Option<PgListener> {
    let options = server.options().ok()?.clone();
    let pool = PgPoolOptions::new()
        .max_connections(1)
        .acquire_timeout(PAUSES.1)
        .max_lifetime(None)
        .idle_timeout(None)
        .connect_lazy_with(options);
    let mut listener = PgListener::connect_with(&pool).await.ok()?;
    listener.eager_reconnect(false);
    listener.listen(channel).await.ok()?;
    Some(listener)
}
