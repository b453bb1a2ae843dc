//! Production: the real processes that the control plane enforces. Nothing here depends on the control plane: any
//! client of a cell's HTTP interface may change production, also a person by hand.
//!
//! ```text
//!  client ──> global balancer ──> balancer of a cell ──> frontend
//!             (child of the       (child of its cell)    (child of its cell)
//!              cell "global")
//! ```
//!
//! - [`cell`]: one process per cluster. It runs the tasks and the balancer of the cluster as child processes and
//!   replaces those that die.
//! - [`frontend`]: one task, which serves lines of Shakespeare over HTTP.
//! - [`balancer`]: a reverse proxy, one per cell.
//! - [`client`]: the client of a cell's interface; it can also start the cell.
//! - `meter`: the counters of frontends and balancers.
//! - [`load`]: a client that sends many requests and records every answer.
//! - [`press`]: prints posters, once for each key.
//! - [`database`]: a SQLite file whose schema is migrated step by step.
//! - `files`: journals and other files that survive a crash.
//! - [`Process`]: the command line of these processes.
//! - [`api`]: the types of the cell's interface and of its journal.

pub mod api;
pub mod balancer;
pub mod cell;
pub mod client;
pub mod clock;
pub mod database;
pub(crate) mod files;
pub mod frontend;
pub mod http;
mod launch;
pub mod load;
pub(crate) mod meter;
pub mod press;
mod process;

pub use process::{Failure, Process};

/// Name of the cell of the global balancer, which stands in front of the balancers of all other cells.
pub const GLOBAL_CELL: &str = "global";
/// Name of the job that every other cell runs.
pub const JOB: &str = "frontend";
