//! The messages between a cell and its balancer, one JSON value per line.

use serde::{Deserialize, Serialize};
use tokio::io::AsyncWriteExt;

use crate::production::api::Endpoint;

/// A message of the cell: the whole routing, which replaces the previous one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::production) struct Routing {
    /// Number of the routing. It rises with every message.
    pub(in crate::production) epoch: u64,
    /// Maximum number of requests in flight.
    pub(in crate::production) max_capacity: u32,
    /// Endpoints that may get requests.
    pub(in crate::production) endpoints: Vec<Endpoint>,
}

/// A message of the balancer: the routing of this epoch is in force, and no request in flight exceeds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::production) struct Acknowledged {
    /// Number of the routing that is in force.
    pub(in crate::production) epoch: u64,
}

/// Writes a message as one line.
///
/// # Errors
///
/// When the other side has closed the connection.
pub(in crate::production) async fn say(
    write: &mut (impl AsyncWriteExt + Unpin),
    message: &impl Serialize,
) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    write.write_all(&line).await
}
