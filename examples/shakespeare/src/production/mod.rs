//! Production: the real processes that a control plane drives. Nothing here knows that there is one: whoever speaks the
//! cell's HTTP interface may change production, by hand too.
//!
//! ```text
//!  client ──> global balancer ──> balancer of a cell ──> frontend
//!             (child of the       (child of its cell)    (child of its cell)
//!              cell "global")
//! ```
//!
//! - [`cell`]: one process per cluster; owns its tasks and its balancer as child processes and keeps them alive.
//! - [`frontend`]: one task, serving Shakespeare over HTTP.
//! - [`balancer`]: a reverse proxy, one per cell.
//! - [`client`]: how to find, start and drive a cell.
//! - `meter`: what frontends and balancers count about themselves.
//! - [`load`]: a client that hammers an address and remembers every answer.
//! - [`api`]: what goes over the wire and into the journal.

pub mod api;
pub mod balancer;
pub mod cell;
pub mod client;
pub mod clock;
pub mod frontend;
pub(crate) mod http;
mod launch;
pub mod load;
pub(crate) mod meter;
