//! What the program can be asked to do, one module per command.

pub mod ask;
pub mod check;
pub mod down;
pub mod load;
pub mod plan;
pub mod processes;
pub mod rollout;
pub mod run;
pub mod running;
pub mod tell;

use std::path::PathBuf;

/// Why a command could not do its work: shown with its causes.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A failure that takes several lines to say.
#[derive(Debug, thiserror::Error)]
#[error("{first}")]
pub struct Several {
    /// What failed.
    pub first: String,
    /// What else there is to say.
    pub rest: Vec<String>,
}

/// This very program, even if the file it was started from has been replaced since.
///
/// # Errors
/// When the system does not say which it is.
pub fn this_program() -> std::io::Result<PathBuf> {
    if cfg!(target_os = "linux") {
        Ok("/proc/self/exe".into())
    } else {
        std::env::current_exe()
    }
}

/// What people type to call this program again, from where they are: it need not be on their path.
pub fn called() -> String {
    let name = std::env::args().next();
    name.unwrap_or_else(|| "shakespeare".into())
}
