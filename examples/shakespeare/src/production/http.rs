//! The smallest HTTP client that serves here: one request, one whole answer. Shared by everyone who calls someone.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{Request, Response, body::Incoming};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioIo},
};
use tokio::net::UnixStream;

/// The most that is read of an answer.
pub(crate) const ANSWER_LIMIT: usize = 4 << 20;

/// Connections are kept and reused.
pub(crate) type Http = Client<HttpConnector, Full<Bytes>>;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// No connection, or it broke before the whole answer was there.
    #[error("the connection failed before the answer was complete")]
    Transport {
        /// Nothing has been sent: trying elsewhere is safe for any method.
        unsent: bool,
        /// What broke.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Connected, but no whole answer in time.
    #[error("no answer within {0:?}")]
    Timeout(Duration),
}

/// A client with its own connections.
pub(crate) fn client() -> Http {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(Duration::from_secs(2)));
    Client::builder(TokioExecutor::new()).build(connector)
}

/// Sends `request` and reads the whole answer.
pub(crate) async fn call(
    http: &Http,
    request: Request<Full<Bytes>>,
    within: Duration,
) -> Result<Response<Bytes>, Error> {
    call_at_most(http, request, within, ANSWER_LIMIT).await
}

/// Sends `request` and reads the whole answer, if it has at most `limit` bytes.
pub(crate) async fn call_at_most(
    http: &Http,
    request: Request<Full<Bytes>>,
    within: Duration,
    limit: usize,
) -> Result<Response<Bytes>, Error> {
    let answer = async {
        let answer = http
            .request(request)
            .await
            .map_err(|error| Error::Transport {
                unsent: error.is_connect(),
                source: error.into(),
            })?;
        whole(answer, limit).await
    };
    tokio::time::timeout(within, answer)
        .await
        .unwrap_or(Err(Error::Timeout(within)))
}

/// Sends `request` over a connection of its own, and reads the whole answer.
pub(crate) async fn call_over(
    stream: UnixStream,
    request: Request<Full<Bytes>>,
    within: Duration,
) -> Result<Response<Bytes>, Error> {
    let broke = |source: hyper::Error| Error::Transport {
        unsent: false,
        source: source.into(),
    };
    let answer = async {
        let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream));
        let (mut sender, connection) = handshake.await.map_err(broke)?;
        // It ends with the answer, or with the sender.
        let connection = tokio::spawn(connection);
        let answer = sender.send_request(request).await.map_err(broke)?;
        let answer = whole(answer, ANSWER_LIMIT).await;
        connection.abort();
        answer
    };
    tokio::time::timeout(within, answer)
        .await
        .unwrap_or(Err(Error::Timeout(within)))
}

async fn whole(answer: Response<Incoming>, limit: usize) -> Result<Response<Bytes>, Error> {
    let (parts, body) = answer.into_parts();
    let body = Limited::new(body, limit)
        .collect()
        .await
        .map_err(|source| Error::Transport {
            unsent: false,
            source,
        })?;
    Ok(Response::from_parts(parts, body.to_bytes()))
}
