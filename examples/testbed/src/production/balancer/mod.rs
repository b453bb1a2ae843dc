//! The balancer: a reverse proxy in a process of its own. There is one in front of every cell, and the global one, a
//! child of the cell `global`.
//!
//! The cell passes two sockets to the balancer. The listening socket is passed as standard output; the cell keeps it
//! open, so that connections wait in its queue while a killed balancer is replaced. The control socket is passed as
//! standard input. Over it, the cell sends the endpoints and limits (`control::Routing`). The balancer puts each
//! routing in force at once, and acknowledges it when no request in flight exceeds it any more.

pub(super) mod control;
mod obey;
mod proxy;
mod serve;
mod table;

use std::{
    io,
    net::TcpListener as StdTcpListener,
    os::{fd::AsFd, unix::net::UnixStream as StdUnixStream},
    sync::Arc,
};

use tokio::{
    net::{TcpListener, UnixStream},
    sync::watch,
};

use self::{proxy::Proxy, table::Table};
use super::frontend::terminated;

/// Command line options of a balancer. The routing is not among them: it comes from the cell.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Name of the cell that this process works for. It only makes the process table readable.
    #[arg(long)]
    #[allow(dead_code, reason = "read by people in the process table")]
    name: String,
}

/// The stages in the life of a balancer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    /// The balancer accepts connections.
    Up,
    /// The balancer exits, and another process will accept from the same socket: leave waiting connections to it.
    HandOver,
    /// The balancer exits without a successor: close waiting connections, so that clients try another balancer at once.
    Gone,
}

/// Serves until the cell closes the control socket or a termination signal arrives, and then until all requests in
/// flight are answered, for at most five seconds.
///
/// # Errors
///
/// When it was not started by a cell, which passes the sockets.
pub async fn run(_: Options) -> io::Result<()> {
    let (control, listener) = inherited()?;
    let table = Arc::new(Table::default());
    let (life, lives) = watch::channel(Life::Up);
    let proxy = Arc::new(Proxy::new(Arc::clone(&table), lives.clone()));
    tokio::spawn(async move {
        let end = tokio::select! {
            () = obey::obey(control, &table) => Life::Gone,
            () = terminated() => Life::HandOver,
        };
        let _ = life.send(end);
    });
    serve::serve(listener, proxy, lives).await;
    Ok(())
}

/// Returns the control socket and the listening socket.
fn inherited() -> io::Result<(UnixStream, TcpListener)> {
    let control = StdUnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let listener = StdTcpListener::from(io::stdout().as_fd().try_clone_to_owned()?);
    control.set_nonblocking(true)?;
    listener.set_nonblocking(true)?;
    Ok((
        UnixStream::from_std(control)?,
        TcpListener::from_std(listener)?,
    ))
}
