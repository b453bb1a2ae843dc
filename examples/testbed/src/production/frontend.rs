//! One task of a job: a process that answers each request with a line of Shakespeare.

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

/// Header of an answer with the name of the task that answered.
pub const FRONTEND_HEADER: &str = "x-frontend";
/// Header of an answer with the version that answered.
pub const VERSION_HEADER: &str = "x-version";
/// Header of an answer with the time span in which the task had the request, including waiting: `FROM-TO`, in
/// microseconds since 1970.
pub const WORKED_HEADER: &str = "x-worked-micros";
/// A defective version: one in three of its answers is an error. It starts like any other version and passes its health
/// check, so that only requests show the defect.
const DEFECTIVE: &str = "3";
/// Maximum working time that a request may ask for, in milliseconds.
const LONGEST_WORK: u64 = 5000;
/// Maximum time for which requests in flight may delay the exit.
const DRAIN: Duration = Duration::from_secs(5);

const LINES: [&str; 6] = [
    "All the world's a stage, and all the men and women merely players.",
    "Brevity is the soul of wit.",
    "Some are born great, some achieve greatness, and some have greatness thrust upon them.",
    "The course of true love never did run smooth.",
    "There are more things in heaven and earth, Horatio, than are dreamt of in your philosophy.",
    "We know what we are, but know not what we may be.",
];

/// Command line options of a task.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Name of the task, which appears in its answers.
    #[arg(long, default_value = "frontend")]
    name: String,
    /// Version of the task, which appears in its answers.
    #[arg(long = "version", id = "frontend-version")]
    version: String,
    /// Number of requests that the task serves at the same time. Further requests wait.
    #[arg(long, default_value_t = 16)]
    capacity: u32,
    /// Version of the database schema that the task needs.
    #[arg(long, default_value_t = 0)]
    schema: u32,
    /// Time from the start until the task serves, in milliseconds.
    #[arg(long, default_value_t = 0)]
    warm_up_ms: u64,
    /// Working time of one request, in milliseconds.
    #[arg(long, default_value_t = 2)]
    work_ms: u64,
    /// Percentage of requests that are answered with an error, to simulate a bad version.
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
    /// Returns true if the answer with the number `nth` is an error. 37 and 100 have no common factor, so of a hundred
    /// requests in a row exactly `fail_percent` fail, evenly spread.
    fn fails(&self, nth: u64) -> bool {
        let Options {
            version,
            fail_percent,
            ..
        } = &self.options;
        (version == DEFECTIVE && nth % 3 == 2) || nth.wrapping_mul(37) % 100 < *fail_percent
    }
}

/// Serves until standard input is closed or a termination signal arrives, and then until all requests in flight are
/// answered, for at most five seconds. Writes its port to standard output first.
///
/// # Errors
///
/// When it cannot listen, or cannot write to standard output.
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

/// Waits until standard input is closed, which means that the cell dropped this task or died, or for a termination
/// signal.
async fn told_to_go() {
    let parent_gone = tokio::task::spawn_blocking(|| io::copy(&mut io::stdin(), &mut io::sink()));
    tokio::select! {
        _ = parent_gone => {}
        () = terminated() => {}
    }
}

/// Waits for a termination signal.
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

/// Returns the working time, in milliseconds, that a request such as `/?ms=300` asks for.
fn asked_for(uri: &Uri) -> Option<u64> {
    let ms = uri.query()?.strip_prefix("ms=")?;
    Some(ms.parse::<u64>().ok()?.min(LONGEST_WORK))
}

async fn serve(frontend: &Frontend, work_ms: u64) -> Response {
    let options = &frontend.options;
    // Acquiring fails only if the semaphore is closed, which does not happen. Serving would still be correct.
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
            "this version is defective\n",
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
