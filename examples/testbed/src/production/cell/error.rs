//! The reasons for which a cell refuses a call.

use std::io;

/// Why a cell refuses a call.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// The fence refused the call: there is a newer owner or a later call.
    #[error("{message}")]
    Fenced {
        /// What the fence compared, and what to do next.
        message: String,
        /// The greatest token seen.
        seen: u64,
    },
    /// The cell is being turned down and accepts no changes.
    #[error("{0}")]
    Refused(String),
    /// The call has invalid arguments.
    #[error("{0}")]
    Invalid(String),
    /// The cell has no such resource.
    #[error("the cell has no {0}: create it with PUT first")]
    Absent(String),
    /// The cell cannot write its journal or another file, and exits.
    #[error(
        "the cell cannot write to its directory and exits: free disk space, then start it again"
    )]
    Io(#[from] io::Error),
}
