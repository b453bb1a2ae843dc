//! The process of one task: starts it, waits until it is healthy, and waits until it exits.

use std::{
    io,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use bytes::Bytes;
use http_body_util::Full;
use hyper::{Request, StatusCode};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, ChildStdin, ChildStdout, Command},
    sync::oneshot,
};

use super::{
    site::{Report, Site},
    this_program,
};
use crate::production::{api::JobSpec, http};

/// Maximum time from the start of a task until it is healthy. After that, it is killed.
const START: Duration = Duration::from_secs(10);
/// Maximum time for a task to exit after it was asked to. After that, it is killed.
const GRACE: Duration = Duration::from_secs(10);

/// Starts a task and returns its process id and a handle. The task exits when the handle is dropped, and when the cell
/// dies.
pub(super) fn start(
    site: &Site,
    job: &str,
    id: u64,
    spec: &JobSpec,
) -> io::Result<(u32, oneshot::Sender<()>)> {
    let mut command = this_program()?;
    command
        .arg("frontend")
        .arg(format!("--name={}/{job}/{id}", site.name))
        .arg(format!("--version={}", spec.version))
        .arg(format!("--capacity={}", spec.capacity_per_task))
        .arg(format!("--schema={}", spec.schema))
        .args(&spec.flags)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = Command::from(command).spawn()?;
    let pid = child.id().unwrap_or(0);
    let (stop, stopped) = oneshot::channel();
    // `wait` on a child closes its standard input, so the input is kept outside the child.
    let pipes = (child.stdin.take(), child.stdout.take());
    tokio::spawn(see_through(
        site.clone(),
        job.to_owned(),
        id,
        child,
        pipes,
        stopped,
    ));
    Ok((pid, stop))
}

async fn see_through(
    site: Site,
    job: String,
    id: u64,
    mut child: Child,
    (stdin, stdout): (Option<ChildStdin>, Option<ChildStdout>),
    mut stopped: oneshot::Receiver<()>,
) {
    let problem = tokio::select! {
        ready = tokio::time::timeout(START, healthy(stdout)) => match ready {
            Ok(Ok(port)) => {
                let job = job.clone();
                site.report(Report::Ready { job, task: id, port });
                tokio::select! {
                    status = child.wait() => Some(died(status)),
                    _ = &mut stopped => None,
                }
            }
            Ok(Err(why)) => Some(why),
            Err(_) => Some(format!("task {id} was not healthy after {START:?}")),
        },
        status = child.wait() => Some(died(status)),
        _ = &mut stopped => None,
    };
    drop(stdin);
    if problem.is_some() || tokio::time::timeout(GRACE, child.wait()).await.is_err() {
        let _ = child.kill().await;
    }
    site.report(Report::TaskExited {
        job,
        task: id,
        problem,
    });
}

/// Waits until a task is healthy and returns its port.
async fn healthy(stdout: Option<ChildStdout>) -> Result<u16, String> {
    let stdout = stdout.ok_or("the task has no standard output")?;
    let line = BufReader::new(stdout).lines().next_line().await;
    let line = line
        .ok()
        .flatten()
        .ok_or("the task exited before it wrote its port: see the cell's log")?;
    let port: u16 = line
        .parse()
        .map_err(|_| format!("the task wrote {line:?} instead of its port"))?;
    let http = http::client();
    loop {
        let mut request = Request::new(Full::<Bytes>::default());
        *request.uri_mut() = format!("http://127.0.0.1:{port}/healthz")
            .parse()
            .map_err(|_| "the address of the task is invalid")?;
        match http::call(&http, request, START).await {
            Ok(answer) if answer.status() == StatusCode::OK => return Ok(port),
            Ok(_) | Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

fn died(status: io::Result<ExitStatus>) -> String {
    match status {
        Ok(status) => format!("a task died: {status}"),
        Err(error) => format!("cannot wait for a task: {error}"),
    }
}
