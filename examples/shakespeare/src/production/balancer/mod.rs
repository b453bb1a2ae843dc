//! A reverse proxy of its own process: one in front of every cell, and the global one, child of the cell `global`.
//!
//! Its cell hands it two things over: the listening socket as standard output, so that connections wait in the
//! kernel's queue while a killed balancer is replaced, and a socket to talk over as standard input. The cell says where
//! requests may go (`control::Routing`); the balancer swaps that in memory and acknowledges once nothing is in flight
//! where requests may no longer go.

pub(super) mod control;
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

/// What to balance comes from the cell; this is for people who look at the process table.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// The cell this process works for.
    #[arg(long)]
    #[allow(dead_code, reason = "read by people, in the process table")]
    name: String,
}

/// Whether to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    /// Serving.
    Up,
    /// Another process will accept from the same socket: leave waiting connections to it.
    HandOver,
    /// Nobody will: turn waiting connections away, so that their senders try elsewhere at once.
    Gone,
}

/// Serves until the cell closes its end or a termination signal comes, and then until nothing is in flight.
///
/// # Errors
///
/// When it was not started by a cell.
pub async fn run(_: Options) -> io::Result<()> {
    let (control, listener) = inherited()?;
    let table = Arc::new(Table::default());
    let (life, lives) = watch::channel(Life::Up);
    let proxy = Arc::new(Proxy::new(Arc::clone(&table), lives.clone()));
    tokio::spawn(async move {
        let end = tokio::select! {
            () = control::obey(control, &table) => Life::Gone,
            () = terminated() => Life::HandOver,
        };
        let _ = life.send(end);
    });
    serve::serve(listener, proxy, lives).await;
    Ok(())
}

/// The socket to the cell and the listening socket.
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
