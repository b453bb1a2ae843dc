//! A client that sends requests to an address and records every answer, as evidence that no request failed. It never
//! repeats a request.

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::{
    HeaderMap, Method, Request, StatusCode,
    client::conn::http1::{self, SendRequest},
    header,
};
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};
use tokio::{net::TcpStream, sync::watch, task::JoinSet};

use super::{
    clock,
    frontend::{FRONTEND_HEADER, VERSION_HEADER, WORKED_HEADER},
};

/// Maximum time for an answer. After that, the request counts as failed.
const PATIENCE: Duration = Duration::from_secs(30);

/// One request and its result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// Time at which the request was sent, in microseconds since 1970.
    pub start_micros: u64,
    /// Time at which the answer was complete or the request failed, in microseconds since 1970.
    pub end_micros: u64,
    /// HTTP status of the answer. None if there was no complete answer.
    pub status: Option<u16>,
    /// Why there was no complete answer. None if there was one.
    pub error: Option<String>,
    /// Name of the frontend that answered, if the answer contains it.
    pub frontend: Option<String>,
    /// Version that answered, if the answer contains it.
    pub version: Option<String>,
    /// Time span in which the frontend had the request, as the answer reports it, in microseconds since 1970.
    pub worked: Option<(u64, u64)>,
}

impl Attempt {
    /// Returns true if there was no complete answer, or its status is not a success.
    pub fn failed(&self) -> bool {
        !self
            .status
            .is_some_and(|status| (200..300).contains(&status))
    }

    /// Returns true if the request was in flight at some time between `from` and `to`, for instance while a process was
    /// killed. Add about 50 ms to `to`: a client needs that long to notice that an idle connection was closed.
    pub fn in_flight_during(&self, from: u64, to: u64) -> bool {
        self.start_micros <= to && from <= self.end_micros
    }
}

/// A running load: several connections, each of which sends one request after the other.
#[derive(Debug)]
pub struct Load {
    attempts: Arc<Mutex<Vec<Attempt>>>,
    progress: watch::Receiver<usize>,
    stop: watch::Sender<bool>,
    workers: JoinSet<()>,
}

impl Load {
    /// Starts to send requests for `/` to `address` over `connections` connections. Each connection pauses for `rest`
    /// after an answer. A balancer may send a `GET` twice, but never a `POST` of which a part was sent; use `POST` to
    /// see whether the first attempts succeed.
    pub fn start(address: SocketAddr, method: &Method, connections: usize, rest: Duration) -> Self {
        Self::begin(address, &(method.clone(), "/".into()), connections, rest)
    }

    /// Keeps `connections` requests in flight to `address`, each with a working time of `work`.
    pub fn slow(address: SocketAddr, connections: usize, work: Duration) -> Self {
        let what = (Method::GET, format!("/?ms={}", work.as_millis()));
        Self::begin(address, &what, connections, Duration::ZERO)
    }

    fn begin(address: SocketAddr, what: &What, connections: usize, rest: Duration) -> Self {
        let attempts = Arc::new(Mutex::new(Vec::new()));
        let (count, progress) = watch::channel(0);
        let (stop, stopped) = watch::channel(false);
        let count = Arc::new(count);
        let mut workers = JoinSet::new();
        for _ in 0..connections {
            let (attempts, count) = (Arc::clone(&attempts), Arc::clone(&count));
            let stopped = stopped.clone();
            let what = what.clone();
            workers.spawn(async move {
                let mut connection = None;
                while !*stopped.borrow() {
                    let attempt = attempt(address, &what, &mut connection).await;
                    attempts
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push(attempt);
                    count.send_modify(|count| *count += 1);
                    tokio::time::sleep(rest).await;
                }
            });
        }
        Self {
            attempts,
            progress,
            stop,
            workers,
        }
    }

    /// Waits until `requests` more requests have ended, with or without success.
    pub async fn passed(&mut self, requests: usize) {
        let enough = *self.progress.borrow() + requests;
        // This fails only when no worker is left, and then no further request will end.
        let _ = self.progress.wait_for(|count| *count >= enough).await;
    }

    /// Returns the results since the last call, and forgets them.
    pub fn take(&self) -> Vec<Attempt> {
        let mut attempts = self.attempts.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut attempts)
    }

    /// Returns the results so far, except those already taken with [`Load::take`].
    pub fn so_far(&self) -> Vec<Attempt> {
        self.attempts
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Waits until all requests in flight have ended, and returns the results.
    pub async fn stop(mut self) -> Vec<Attempt> {
        self.stop.send_replace(true);
        while self.workers.join_next().await.is_some() {}
        self.so_far()
    }
}

/// Sends one `GET` for `/` on a new connection.
pub async fn once(address: SocketAddr) -> Attempt {
    attempt(address, &(Method::GET, "/".into()), &mut None).await
}

type Connection = SendRequest<Empty<Bytes>>;

/// The method of a request, and its path with the query.
type What = (Method, String);

async fn attempt(address: SocketAddr, what: &What, connection: &mut Option<Connection>) -> Attempt {
    // If the connection was closed while idle, open a new one before the request begins.
    if let Some(open) = connection
        && open.ready().await.is_err()
    {
        *connection = None;
    }
    let start_micros = clock::now_micros();
    let answer = tokio::time::timeout(PATIENCE, send(address, what, connection))
        .await
        .unwrap_or_else(|late| Err(io::Error::new(io::ErrorKind::TimedOut, late)));
    let mut attempt = Attempt {
        start_micros,
        end_micros: clock::now_micros(),
        status: None,
        error: None,
        frontend: None,
        version: None,
        worked: None,
    };
    match answer {
        Ok((status, headers)) => {
            let text = |name: &str| Some(headers.get(name)?.to_str().ok()?.to_owned());
            attempt.status = Some(status.as_u16());
            attempt.frontend = text(FRONTEND_HEADER);
            attempt.version = text(VERSION_HEADER);
            attempt.worked = text(WORKED_HEADER).and_then(|text| from_to(&text));
        }
        Err(error) => {
            *connection = None;
            attempt.error = Some(error.to_string());
        }
    }
    attempt
}

fn from_to(text: &str) -> Option<(u64, u64)> {
    let (from, to) = text.split_once('-')?;
    Some((from.parse().ok()?, to.parse().ok()?))
}

async fn send(
    address: SocketAddr,
    what: &What,
    connection: &mut Option<Connection>,
) -> io::Result<(StatusCode, HeaderMap)> {
    let open = match connection {
        Some(open) => open,
        None => connection.insert(connect(address).await?),
    };
    let request = Request::builder()
        .method(&what.0)
        .uri(&what.1)
        .header(header::HOST, "testbed")
        .body(Empty::new())
        .map_err(io::Error::other)?;
    let answer = open.send_request(request).await.map_err(io::Error::other)?;
    let (parts, body) = answer.into_parts();
    body.collect().await.map_err(io::Error::other)?;
    Ok((parts.status, parts.headers))
}

async fn connect(address: SocketAddr) -> io::Result<Connection> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (open, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(io::Error::other)?;
    tokio::spawn(connection);
    Ok(open)
}
