//! A client that hammers an address and remembers every answer: the judge of "no request failed". It retries nothing.

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

/// A request without an answer after this long has failed.
const PATIENCE: Duration = Duration::from_secs(30);

/// One request and what came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// When it was sent, in microseconds since 1970.
    pub start_micros: u64,
    /// When its answer was complete, or it had failed.
    pub end_micros: u64,
    /// The status of the answer; none if there was no whole answer.
    pub status: Option<u16>,
    /// Why there was none.
    pub error: Option<String>,
    /// Which frontend answered.
    pub frontend: Option<String>,
    /// Which version answered.
    pub version: Option<String>,
    /// From when to when the frontend had it, as it says itself, in microseconds since 1970.
    pub worked: Option<(u64, u64)>,
}

impl Attempt {
    /// Whether it failed: no whole answer, or one that is not a success.
    pub fn failed(&self) -> bool {
        !self
            .status
            .is_some_and(|status| (200..300).contains(&status))
    }

    /// Whether it was in flight at some moment from `from` to `to`, for instance while something was being killed. Leave
    /// some 50 ms for noticing that an idle connection has died.
    pub fn in_flight_during(&self, from: u64, to: u64) -> bool {
        self.start_micros <= to && from <= self.end_micros
    }
}

/// Connections that send one request after the other.
#[derive(Debug)]
pub struct Load {
    attempts: Arc<Mutex<Vec<Attempt>>>,
    progress: watch::Receiver<usize>,
    stop: watch::Sender<bool>,
    workers: JoinSet<()>,
}

impl Load {
    /// Starts hammering `/` at `address` over so many connections, each resting for `rest` after an answer. Balancers may
    /// send a `GET` twice; a `POST` shows whether they had to.
    pub fn start(address: SocketAddr, method: &Method, connections: usize, rest: Duration) -> Self {
        Self::begin(address, &(method.clone(), "/".into()), connections, rest)
    }

    /// Keeps so many `GET`s in flight at `address`, each of which takes so long to be worked on.
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

    /// Returns once so many more requests have ended, one way or the other.
    pub async fn passed(&mut self, requests: usize) {
        let enough = *self.progress.borrow() + requests;
        // It fails only when no worker is left, and then none will pass.
        let _ = self.progress.wait_for(|count| *count >= enough).await;
    }

    /// What has come of the requests so far, which is forgotten.
    pub fn take(&self) -> Vec<Attempt> {
        let mut attempts = self.attempts.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut attempts)
    }

    /// What has come of the requests so far.
    pub fn so_far(&self) -> Vec<Attempt> {
        self.attempts
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Lets every request end, and hands over the log.
    pub async fn stop(mut self) -> Vec<Attempt> {
        self.stop.send_replace(true);
        while self.workers.join_next().await.is_some() {}
        self.so_far()
    }
}

/// One `GET` of `/` on a connection of its own.
pub async fn once(address: SocketAddr) -> Attempt {
    attempt(address, &(Method::GET, "/".into()), &mut None).await
}

type Connection = SendRequest<Empty<Bytes>>;

/// A method, and the path with its query.
type What = (Method, String);

async fn attempt(address: SocketAddr, what: &What, connection: &mut Option<Connection>) -> Attempt {
    // A connection that was closed while it was idle is replaced before the request begins.
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
        .header(header::HOST, "shakespeare")
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
