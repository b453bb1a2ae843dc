//! The commands of the program, one module per command.

pub mod ask;
pub mod check;
pub mod down;
mod interventions;
pub mod load;
pub mod plan;
pub mod processes;
pub mod rollout;
pub mod run;
pub mod running;
pub mod tell;

use std::path::PathBuf;

/// The error of a command. It is printed with all its causes.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

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
    name.unwrap_or_else(|| "shakespeare".into())
}
