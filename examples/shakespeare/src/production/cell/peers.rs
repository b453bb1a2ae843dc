//! Other cells' balancers, for the global one: where they are and what they take, as their cells say. A cell that dies
//! breaks the waiting call, so its balancer is off the list at once.

use std::{net::SocketAddr, time::Duration};

use tokio::task::AbortHandle;

use super::state::Cell;
use crate::production::{
    api::{BalancerView, Caller},
    client,
};

/// Between two looks for a cell that is not there: its address is a file, and nobody announces it.
const REST: Duration = Duration::from_millis(100);

/// Follows the balancer of the cell `name`, whose directory lies beside ours.
pub(super) fn watch(cell: &Cell, name: &str) -> AbortHandle {
    let cell = cell.clone();
    let name = name.to_owned();
    tokio::spawn(async move {
        let mut last = None;
        loop {
            let dir = cell.dir().with_file_name(&name);
            if let Ok(peer) = client::Cell::connect(&dir, &name).await {
                // Until it breaks.
                let _ = follow(&cell, &peer, &mut last).await;
            }
            tell(&cell, &name, &mut last, None);
            tokio::time::sleep(REST).await;
        }
    })
    .abort_handle()
}

async fn follow(
    cell: &Cell,
    peer: &client::Cell,
    last: &mut Option<(SocketAddr, u32)>,
) -> Result<(), client::Error> {
    let mut after = 0;
    loop {
        let next = Caller {
            after: Some(after),
            ..Caller::default()
        };
        let view = peer.balancer(&next).await?;
        after = match &view {
            Some(view) => view.generation,
            None => peer.identity(&next).await?.generation,
        };
        tell(cell, peer.name(), last, view.as_ref().and_then(takes));
    }
}

/// Where a balancer takes requests, and how many, if it has anywhere to send them.
fn takes(view: &BalancerView) -> Option<(SocketAddr, u32)> {
    let serving = !view.leaving && !view.endpoints.is_empty();
    serving.then_some((view.address, view.spec.max_capacity))
}

fn tell(
    cell: &Cell,
    name: &str,
    last: &mut Option<(SocketAddr, u32)>,
    found: Option<(SocketAddr, u32)>,
) {
    if std::mem::replace(last, found) != found {
        cell.note(|state| {
            if let Some(front) = &mut state.front {
                front.peer(name, found);
            }
            Ok(())
        });
    }
}
