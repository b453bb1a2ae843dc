//! What intent asks for beside enforcement: trains, and changes that are declared as assets. Both are followed while this
//! process owns the partition.

use std::{collections::BTreeMap, convert::Infallible, time::Duration};

use control_plane_runtime::{Outage, Runtime};
use control_plane_store::CommitError;
use futures::{
    FutureExt,
    future::{BoxFuture, select_all},
};
use plugin_sdk::{BoxError, By};
use prodspec_gen::Status;
use prodspec_model::{
    Asset, AssetId, Incarnation, IncarnationNo, Message, addons::Turndown, rollout::RollOut,
    train::Train,
};
use tokio::sync::watch;

use crate::{
    arrivals::is_final,
    declared::Declared,
    desk::EditRefused,
    handle::{Error, Handle},
    roll_out::RollOutRefused,
};
use annealing_strategist::change::Known;

/// Wait before a strategist that has ended is looked for again.
const SOON: Duration = Duration::from_secs(1);
/// Wait before the record of a rollout that is over is read.
const MOMENT: Duration = Duration::from_millis(50);
/// Maximum time between two looks at something that waits, so that a person's commands to its rollouts are seen, and steps of
/// the wall clock count.
pub(crate) const LOOK: Duration = Duration::from_secs(30);

/// An event that is worth another look.
pub(crate) type Wait = BoxFuture<'static, ()>;

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
    let mut outage = Outage::default();
    while status.has_changed().is_ok() {
        let newest = no(&status.borrow_and_update());
        let looked = async {
            let latest = handle.latest().await?;
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
        let told = handle.shared.trains.notified().boxed();
        select_all(waits.into_iter().chain([changed, told])).await;
    }
    handle.shared.undone.send_replace(BTreeMap::new());
}

/// The number of the newest incarnation.
fn no(status: &Status) -> Option<IncarnationNo> {
    let newest = status.incarnation.as_ref();
    newest.map(|incarnation| incarnation.id.no)
}

/// Waits for something that happens by itself.
pub(crate) fn soon<R: Runtime>(handle: &Handle<R>) -> Wait {
    handle.shared.runtime.sleep(SOON)
}

/// Waits for another look, since a person may have acted.
pub(crate) fn later<R: Runtime>(handle: &Handle<R>) -> Wait {
    handle.shared.runtime.sleep(LOOK)
}

/// Waits until the rollout of a change has come to rest.
pub(crate) async fn rests<R: Runtime>(handle: &Handle<R>, key: AssetId) -> Result<Wait, Error> {
    let rolling = handle.rolling().await?;
    let runtime = handle.shared.runtime.clone();
    let over = async move {
        let rests = rolling.rests(&key, IncarnationNo(0)).await;
        // The end may not be durable yet, or the strategist does not know the change yet.
        runtime
            .sleep(if rests.is_ok() { MOMENT } else { SOON })
            .await;
    };
    Ok(over.boxed())
}

/// The assets of one type in intent, as of an incarnation, but for those that are turned down.
pub(crate) struct InIntent<T> {
    latest: Option<Incarnation>,
    pub(crate) all: BTreeMap<AssetId, T>,
}

impl<T> Default for InIntent<T> {
    fn default() -> Self {
        Self {
            latest: None,
            all: BTreeMap::new(),
        }
    }
}

impl<T: Message> InIntent<T> {
    /// Takes in an incarnation. The first one is read as a whole, the others cost as much as they change.
    pub(crate) fn take(&mut self, newer: &Incarnation) {
        let Some(older) = self.latest.replace(newer.clone()) else {
            self.all = newer.snapshot().iter().filter_map(declared).collect();
            return;
        };
        for change in older.snapshot().diff(newer.snapshot()) {
            self.all.remove(&change.id());
            self.all.extend(change.after.and_then(declared));
        }
    }
}

/// The content of an asset, if it is of this type and is not turned down.
pub(crate) fn declared<T: Message>(asset: Asset) -> Option<(AssetId, T)> {
    if asset.type_str() != T::TYPE || asset.addon::<Turndown>().ok()?.is_some() {
        return None;
    }
    Some((asset.id(), asset.payload::<T>().ok()?))
}

/// What became of the attempt to begin a change.
pub(crate) enum Attempt {
    /// It has begun.
    Begun,
    /// It may begin later, if something else happens that needs nobody: for this reason.
    Later(String),
    /// It does not begin as it is, for this reason.
    Refused(Error),
}

/// Tries to begin a change, after `known`, which is over.
///
/// # Errors
/// If it is not known whether it has begun.
pub(crate) async fn attempt<R: Runtime>(
    handle: &Handle<R>,
    change: &RollOut,
    by: By,
    known: Option<&Known>,
) -> Result<Attempt, Error> {
    match handle.roll_out_next(change, by, known).await {
        Ok(_) => Ok(Attempt::Begun),
        // It has begun and is not known yet.
        Err(error @ Error::RollOut(RollOutRefused::Begins(_))) => {
            Ok(Attempt::Later(error.to_string()))
        }
        // Such as a group that is about to be updated by edits.
        Err(error @ Error::RollOut(_)) if !is_final(handle, &error).await => {
            Ok(Attempt::Later(error.to_string()))
        }
        Err(Error::Edit(EditRefused::Store(error))) if is_too_large(&error) => {
            Ok(Attempt::Refused(Error::Edit(EditRefused::Store(error))))
        }
        // Its outcome is not known.
        Err(error @ Error::Edit(EditRefused::Store(_) | EditRefused::Unknown { .. })) => Err(error),
        Err(error @ (Error::RollOut(_) | Error::Edit(_))) => Ok(Attempt::Refused(error)),
        Err(error) => Err(error),
    }
}

/// Whether a commit has more than the store takes.
fn is_too_large(error: &BoxError) -> bool {
    let error = error.downcast_ref::<CommitError>();
    matches!(error, Some(CommitError::TooLarge { .. }))
}
