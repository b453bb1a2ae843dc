//! Accepts connections, and closes them at the end. It does not use a server library for this, because a request may
//! have to be left without an answer.

use std::{sync::Arc, time::Duration};

use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
};

use super::{Life, proxy::Proxy};

/// Maximum time for which requests in flight may delay the exit.
const DRAIN: Duration = Duration::from_secs(5);

/// Serves while `life` is [`Life::Up`], and then until all requests in flight are answered, for at most [`DRAIN`].
pub(super) async fn serve(listener: TcpListener, proxy: Arc<Proxy>, life: watch::Receiver<Life>) {
    let mut ending = life.clone();
    let mut connections = JoinSet::new();
    let end = loop {
        tokio::select! {
            stream = accept(&listener) => {
                connections.spawn(connection(stream, Arc::clone(&proxy), life.clone()));
            }
            Some(_) = connections.join_next() => {}
            end = ending.wait_for(|life| *life != Life::Up) => break end.map_or(Life::Gone, |end| *end),
        }
    };
    let turn_away = async {
        loop {
            match end {
                Life::Gone => drop(accept(&listener).await),
                Life::Up | Life::HandOver => std::future::pending().await,
            }
        }
    };
    let drain = async { while connections.join_next().await.is_some() {} };
    tokio::select! {
        () = drain => {}
        () = turn_away => {}
        () = tokio::time::sleep(DRAIN) => {}
    }
}

async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection; trying again in 10 ms");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    }
}

/// Serves one connection. When `life` ends, it closes the connection after the request in flight.
async fn connection(stream: TcpStream, proxy: Arc<Proxy>, mut life: watch::Receiver<Life>) {
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| {
        let proxy = Arc::clone(&proxy);
        async move { proxy.answer(request).await }
    });
    let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let served = tokio::select! {
        served = connection.as_mut() => served,
        () = async { let _ = life.wait_for(|life| *life != Life::Up).await; } => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = served {
        tracing::debug!(%error, "a connection ended early");
    }
}
