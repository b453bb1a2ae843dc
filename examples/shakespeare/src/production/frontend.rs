//! One task of a job: serves a line of Shakespeare per request. A process of its own, so that it can be killed.

use std::{
    io::{self, Write},
    process,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use axum::{
    Router,
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode, Uri, header},
    response::{IntoResponse, Response},
    routing::get,
};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    sync::Semaphore,
};

use super::{
    clock,
    meter::{self, Meter},
};

/// Says which task answered.
pub const FRONTEND_HEADER: &str = "x-frontend";
/// Says which version answered.
pub const VERSION_HEADER: &str = "x-version";
/// Says from when to when the task worked on the request, or held it waiting, in microseconds since 1970: `FROM-TO`.
pub const WORKED_HEADER: &str = "x-worked-micros";
/// The version whose release is defective: one in three of its answers is an error. It gets ready like any other, and
/// says that it is well; only load shows it.
const DEFECTIVE: &str = "3";
/// The longest that a request may ask to be worked on, in milliseconds.
const LONGEST_WORK: u64 = 5000;
/// How long requests in flight may hold up an exit.
const DRAIN: Duration = Duration::from_secs(5);

const LINES: [&str; 6] = [
    "All the world's a stage, and all the men and women merely players.",
    "Brevity is the soul of wit.",
    "Some are born great, some achieve greatness, and some have greatness thrust upon them.",
    "The course of true love never did run smooth.",
    "There are more things in heaven and earth, Horatio, than are dreamt of in your philosophy.",
    "We know what we are, but know not what we may be.",
];

/// How to serve.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// What to call itself in answers.
    #[arg(long, default_value = "frontend")]
    name: String,
    /// Which version it claims to be.
    #[arg(long = "version", id = "frontend-version")]
    version: String,
    /// Requests it works on at the same time; more wait.
    #[arg(long, default_value_t = 16)]
    capacity: u32,
    /// The database schema it needs.
    #[arg(long, default_value_t = 0)]
    schema: u32,
    /// How long it takes to get ready, in milliseconds.
    #[arg(long, default_value_t = 0)]
    warm_up_ms: u64,
    /// How long one request takes, in milliseconds.
    #[arg(long, default_value_t = 2)]
    work_ms: u64,
    /// Of a hundred requests, how many it answers with an error: a version that is no good.
    #[arg(long, default_value_t = 0)]
    fail_percent: u64,
}

struct Frontend {
    options: Options,
    slots: Semaphore,
    served: AtomicU64,
    meter: Meter,
}

impl Frontend {
    /// Whether the answer after so many others is an error. 37 has no factor in common with 100, so a hundred requests
    /// in a row fail exactly `fail_percent` times, spread out.
    fn fails(&self, nth: u64) -> bool {
        let Options {
            version,
            fail_percent,
            ..
        } = &self.options;
        (version == DEFECTIVE && nth % 3 == 2) || nth.wrapping_mul(37) % 100 < *fail_percent
    }
}

/// Serves until standard input closes or a termination signal comes, and then until nothing is in flight.
///
/// # Errors
///
/// When it cannot listen, or standard output is closed.
pub async fn run(options: Options) -> io::Result<()> {
    tokio::time::sleep(Duration::from_millis(options.warm_up_ms)).await;
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    writeln!(io::stdout(), "{}", listener.local_addr()?.port())?;
    let frontend = Arc::new(Frontend {
        slots: Semaphore::new(options.capacity as usize),
        served: AtomicU64::new(0),
        meter: Meter::new(Some(&options.version)),
        options,
    });
    let router = Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/version", get(version))
        .route(meter::PATH, get(metrics))
        .fallback(line)
        .with_state(frontend);
    let (closing, closed) = tokio::sync::oneshot::channel();
    let server = axum::serve(listener, router).with_graceful_shutdown(async move {
        told_to_go().await;
        let _ = closing.send(());
    });
    tokio::select! {
        served = server.into_future() => served,
        () = async { let _ = closed.await; tokio::time::sleep(DRAIN).await } => Ok(()),
    }
}

/// Returns when nobody needs this process any more.
async fn told_to_go() {
    let parent_gone = tokio::task::spawn_blocking(|| io::copy(&mut io::stdin(), &mut io::sink()));
    tokio::select! {
        _ = parent_gone => {}
        () = terminated() => {}
    }
}

/// Returns at a termination signal.
pub(super) async fn terminated() {
    match signal(SignalKind::terminate()) {
        Ok(mut signal) => {
            signal.recv().await;
        }
        Err(_) => std::future::pending().await,
    }
}

async fn version(State(frontend): State<Arc<Frontend>>) -> String {
    let Options {
        version, schema, ..
    } = &frontend.options;
    format!("{{\"version\":{version:?},\"schema\":{schema}}}\n")
}

async fn metrics(State(frontend): State<Arc<Frontend>>) -> Response {
    let said = frontend.meter.text();
    let said = said.map(|text| ([(header::CONTENT_TYPE, meter::CONTENT_TYPE)], text));
    said.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)
        .into_response()
}

async fn line(State(frontend): State<Arc<Frontend>>, uri: Uri) -> Response {
    let in_flight = frontend.meter.begin();
    let from = clock::now_micros();
    let work = asked_for(&uri).unwrap_or(frontend.options.work_ms);
    let mut answer = serve(&frontend, work).await;
    in_flight.answered(answer.status());
    let worked = format!("{from}-{}", clock::now_micros());
    if let Ok(worked) = HeaderValue::try_from(worked) {
        answer.headers_mut().insert(WORKED_HEADER, worked);
    }
    answer
}

/// How long a request for `/?ms=300` wants to be worked on.
fn asked_for(uri: &Uri) -> Option<u64> {
    let ms = uri.query()?.strip_prefix("ms=")?;
    Some(ms.parse::<u64>().ok()?.min(LONGEST_WORK))
}

async fn serve(frontend: &Frontend, work_ms: u64) -> Response {
    let options = &frontend.options;
    // The semaphore is never closed; were it, serving is still right.
    let _slot = frontend.slots.acquire().await;
    tokio::time::sleep(Duration::from_millis(work_ms)).await;
    let nth = frontend.served.fetch_add(1, Ordering::Relaxed);
    let mut headers = HeaderMap::new();
    for (name, value) in [
        (FRONTEND_HEADER, &options.name),
        (VERSION_HEADER, &options.version),
    ] {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(name, value);
        }
    }
    if frontend.fails(nth) {
        return (
            StatusCode::INTERNAL_SERVER_ERROR,
            headers,
            "this version is no good\n",
        )
            .into_response();
    }
    let text = LINES[(nth % LINES.len() as u64) as usize];
    let body = format!(
        "version {} ({}, process {}): {text}\n",
        options.version,
        options.name,
        process::id()
    );
    (headers, body).into_response()
}
