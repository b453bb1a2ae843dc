//! The balancer's side of the control socket: it puts the routings of the cell in force and acknowledges them.

use tokio::{
    io::{AsyncBufReadExt, BufReader},
    net::UnixStream,
};

use super::{
    control::{Acknowledged, say},
    table::Table,
};

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
