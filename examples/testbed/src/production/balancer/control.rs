//! The messages between a cell and its balancer, one JSON value per line.

use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::UnixStream,
};

use super::table::Table;
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

/// Puts each routing of the cell in force and sends the acknowledgements, until the cell closes the connection.
pub(super) async fn obey(control: UnixStream, table: &Table) {
    let (read, mut write) = control.into_split();
    let mut lines = BufReader::new(read).lines();
    let mut acknowledged = table.acknowledged();
    loop {
        tokio::select! {
            line = lines.next_line() => {
                let Ok(Some(line)) = line else { return };
                match serde_json::from_str(&line) {
                    Ok(routing) => table.swap(routing),
                    Err(error) => tracing::error!(
                        %error,
                        "cannot read a routing of the cell; the previous one stays in force"
                    ),
                }
            }
            Ok(()) = acknowledged.changed() => {
                let epoch = *acknowledged.borrow_and_update();
                if say(&mut write, &Acknowledged { epoch }).await.is_err() {
                    return;
                }
            }
        }
    }
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
