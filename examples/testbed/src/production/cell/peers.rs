//! Follows the balancers of other cells for the global balancer: their addresses and capacities, as their cells report
//! them. A waiting call to each cell fails when the cell dies, so its balancer is removed at once.

use std::{net::SocketAddr, time::Duration};

use tokio::task::AbortHandle;

use super::site::{Report, Site};
use crate::production::{
    api::{BalancerView, Caller},
    client,
};

/// Pause between two attempts to find a cell that is not running. There is no notification when its address file
/// appears.
const REST: Duration = Duration::from_millis(100);

/// Starts to follow the balancer of the cell `name`, whose directory is a sibling of this cell's.
pub(super) fn watch(site: &Site, name: &str) -> AbortHandle {
    let site = site.clone();
    let name = name.to_owned();
    tokio::spawn(async move {
        let mut last = None;
        loop {
            let dir = site.dir.with_file_name(&name);
            if let Ok(peer) = client::Cell::connect(&dir, &name).await {
                // This returns when the connection fails.
                let _ = follow(&site, &peer, &mut last).await;
            }
            tell(&site, &name, &mut last, None);
            tokio::time::sleep(REST).await;
        }
    })
    .abort_handle()
}

async fn follow(
    site: &Site,
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
        tell(site, peer.name(), last, view.as_ref().and_then(takes));
    }
}

/// Returns a balancer's address and capacity; none if it is being turned down or has no endpoints.
fn takes(view: &BalancerView) -> Option<(SocketAddr, u32)> {
    let serving = !view.leaving && !view.endpoints.is_empty();
    serving.then_some((view.address, view.spec.max_capacity))
}

fn tell(
    site: &Site,
    name: &str,
    last: &mut Option<(SocketAddr, u32)>,
    found: Option<(SocketAddr, u32)>,
) {
    if std::mem::replace(last, found) != found {
        let name = name.to_owned();
        site.report(Report::Peer { name, found });
    }
}
