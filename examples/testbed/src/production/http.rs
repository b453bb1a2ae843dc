//! A small HTTP client: sends one request and reads one whole answer. Shared by all modules that make calls.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{Request, Response, body::Incoming};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioIo},
};
use tokio::net::UnixStream;

/// Maximum size of an answer, in bytes.
pub const ANSWER_LIMIT: usize = 4 << 20;

/// A client that keeps its connections and reuses them.
pub type Http = Client<HttpConnector, Full<Bytes>>;

/// Why a request got no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The connection could not be made, or failed before the answer was complete.
    #[error("the connection failed before the answer was complete")]
    Transport {
        /// True if nothing was sent, so that any method can safely be sent to another endpoint.
        unsent: bool,
        /// The error that caused this one.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The answer was not complete in time.
    #[error("no answer within {0:?}")]
    Timeout(Duration),
}

/// Creates a client with connections of its own.
pub fn client() -> Http {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(Duration::from_secs(2)));
    Client::builder(TokioExecutor::new()).build(connector)
}

/// Sends `request` and reads the whole answer.
pub async fn call(
    http: &Http,
    request: Request<Full<Bytes>>,
    within: Duration,
) -> Result<Response<Bytes>, Error> {
    call_at_most(http, request, within, ANSWER_LIMIT).await
}

/// Sends `request` and reads the whole answer, if it has at most `limit` bytes.
pub async fn call_at_most(
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
pub async fn call_over(
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
        // Drives the connection in the background. It is aborted after the answer.
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
