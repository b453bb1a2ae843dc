//! The process of the balancer: starts it with the listening socket, sends routings, receives acknowledgements, and
//! waits until it exits.

use std::{
    io,
    net::TcpListener,
    os::{fd::OwnedFd, unix::net::UnixStream as StdUnixStream},
    process::Stdio,
    time::Duration,
};

use tokio::{
    io::{AsyncBufReadExt, BufReader},
    net::UnixStream,
    process::{Child, Command},
    sync::watch,
};

use super::{
    site::{Report, Site},
    this_program,
};
use crate::production::balancer::control::{Acknowledged, Routing, say};

/// Maximum time for the balancer to exit after it was asked to. After that, it is killed.
const GRACE: Duration = Duration::from_secs(10);

/// Starts the balancer and returns its process id. The balancer exits when the sender of `routing` is dropped, and when
/// the cell dies.
pub(super) fn start(
    site: &Site,
    id: u64,
    listener: &TcpListener,
    routing: watch::Receiver<Routing>,
) -> io::Result<u32> {
    let (ours, theirs) = StdUnixStream::pair()?;
    ours.set_nonblocking(true)?;
    let ours = UnixStream::from_std(ours)?;
    let mut command = this_program()?;
    command
        .arg("balancer")
        .arg(format!("--name={}", site.name))
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::from(OwnedFd::from(listener.try_clone()?)));
    let child = Command::from(command).spawn()?;
    let pid = child.id().unwrap_or(0);
    tokio::spawn(see_through(site.clone(), id, child, ours, routing));
    Ok(pid)
}

async fn see_through(
    site: Site,
    id: u64,
    mut child: Child,
    control: UnixStream,
    routing: watch::Receiver<Routing>,
) {
    tokio::select! {
        () = converse(&site, id, control, routing) => {}
        _ = child.wait() => {}
    }
    if tokio::time::timeout(GRACE, child.wait()).await.is_err() {
        let _ = child.kill().await;
    }
    site.report(Report::BalancerExited { balancer: id });
}

/// Exchanges messages with the balancer until the connection or the sender of routings is closed.
async fn converse(
    site: &Site,
    id: u64,
    control: UnixStream,
    mut routing: watch::Receiver<Routing>,
) {
    let (read, mut write) = control.into_split();
    let mut lines = BufReader::new(read).lines();
    routing.mark_changed();
    loop {
        tokio::select! {
            changed = routing.changed() => {
                if changed.is_err() {
                    return;
                }
                let message = routing.borrow_and_update().clone();
                if say(&mut write, &message).await.is_err() {
                    return;
                }
            }
            line = lines.next_line() => {
                let Ok(Some(line)) = line else { return };
                let Ok(Acknowledged { epoch }) = serde_json::from_str(&line) else { return };
                site.report(Report::Acknowledged { balancer: id, epoch });
            }
        }
    }
}
