//! The running program: its path, its name, the signals that stop it, and its errors.

use std::path::PathBuf;

use tokio::signal::unix::{SignalKind, signal};

pub use crate::production::Failure;

/// An error whose message has several lines.
#[derive(Debug, thiserror::Error)]
#[error("{first}")]
pub struct Several {
    /// First line of the message: the failure.
    pub first: String,
    /// Further lines, printed after the first one.
    pub rest: Vec<String>,
}

/// Returns the path of this program. On Linux it stays valid if the file was replaced since the start.
///
/// # Errors
/// When the operating system does not know the path.
pub fn this_program() -> std::io::Result<PathBuf> {
    if cfg!(target_os = "linux") {
        Ok("/proc/self/exe".into())
    } else {
        std::env::current_exe()
    }
}

/// Returns the name by which the user started this program, for hints about further commands.
pub fn called() -> String {
    let name = std::env::args().next();
    name.unwrap_or_else(|| "the program".into())
}

/// Waits for Ctrl-C or a termination signal.
pub async fn signalled() {
    let mut terminate = match signal(SignalKind::terminate()) {
        Ok(terminate) => terminate,
        Err(_) => return std::future::pending().await,
    };
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => if interrupted.is_err() { std::future::pending().await },
        _ = terminate.recv() => {}
    }
}
