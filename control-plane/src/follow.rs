//! Trains, changes that are declared as assets, and goals, followed while this process owns the partition.

use std::{collections::BTreeMap, convert::Infallible};

use control_plane_runtime::{Outage, Runtime};
use futures::{FutureExt, future::select_all};
use prodspec_gen::Status;
use prodspec_model::{IncarnationNo, goal::Goal, train::Train};
use tokio::sync::watch;

use crate::{
    attempt::soon,
    declared::Declared,
    handle::{Error, Handle},
    in_intent::InIntent,
};

/// Follows intent. It does not end.
pub(crate) async fn run<R: Runtime>(handle: Handle<R>) -> Infallible {
    loop {
        let status = handle.wait_until_owner().await.watch();
        while_owner(&handle, status).await;
    }
}

/// Follows intent until the ownership of which this is the status has ended.
async fn while_owner<R: Runtime>(handle: &Handle<R>, mut status: watch::Receiver<Status>) {
    let (mut trains, mut changes) = (InIntent::<Train>::default(), Declared::default());
    let mut goals = InIntent::<Goal>::default();
    let mut outage = Outage::default();
    while status.has_changed().is_ok() {
        let newest = no(&status.borrow_and_update());
        let looked = async {
            let latest = handle.latest().await?;
            goals.take(&latest);
            handle.shared.goals.send_replace(goals.all.clone());
            let mut waits = trains.look(handle, &latest, &mut outage).await?;
            waits.extend(changes.look(handle, &latest).await?);
            Ok(waits)
        };
        let waits = match looked.await {
            Ok(waits) => waits,
            // The status changes with the first incarnation.
            Err(Error::NoIncarnation(_)) => Vec::new(),
            // The ownership has ended, or the strategist starts again, or the store cannot be read.
            Err(_) => vec![soon(handle)],
        };
        let changed = status.wait_for(|status| no(status) != newest);
        let changed = changed.map(drop).boxed();
        let commanded = handle.shared.trains.notified().boxed();
        select_all(waits.into_iter().chain([changed, commanded])).await;
    }
    handle.shared.goals.send_replace(BTreeMap::new());
    handle.shared.undone.send_replace(BTreeMap::new());
}

/// The number of the newest incarnation.
fn no(status: &Status) -> Option<IncarnationNo> {
    let newest = status.incarnation.as_ref();
    newest.map(|incarnation| incarnation.id.no)
}
