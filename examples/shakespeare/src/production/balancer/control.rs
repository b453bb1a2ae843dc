//! What a cell and its balancer say to each other, one JSON value per line.

use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::UnixStream,
};

use super::table::Table;
use crate::production::api::Endpoint;

/// The cell's word: replaces all that was said before.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::production) struct Routing {
    /// Rises with every word.
    pub(in crate::production) epoch: u64,
    /// Requests in flight that may be let through.
    pub(in crate::production) max_capacity: u32,
    /// Where to.
    pub(in crate::production) endpoints: Vec<Endpoint>,
}

/// The balancer's word: this epoch and all before are in force, and nothing is in flight outside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::production) struct Acknowledged {
    /// Which.
    pub(in crate::production) epoch: u64,
}

/// Does what the cell says, until the cell says no more.
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
                    Err(error) => tracing::error!(%error, "the cell speaks another language"),
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

/// Writes one line.
///
/// # Errors
///
/// When the other side is gone.
pub(in crate::production) async fn say(
    write: &mut (impl AsyncWriteExt + Unpin),
    word: &impl Serialize,
) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(word)?;
    line.push(b'\n');
    write.write_all(&line).await
}
