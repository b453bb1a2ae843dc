//! Attempts to begin a change by itself, and the events that are worth another one.

use std::time::Duration;

use annealing_strategist::change::Known;
use control_plane_runtime::Runtime;
use control_plane_store::CommitError;
use futures::{FutureExt, future::BoxFuture};
use plugin_sdk::{BoxError, By};
use prodspec_model::{AssetId, IncarnationNo, rollout::RollOut};

use crate::{
    arrivals::is_final,
    desk::EditRefused,
    handle::{Error, Handle},
    roll_out::RollOutRefused,
};

/// Wait before a strategist that has ended is looked for again.
const SOON: Duration = Duration::from_secs(1);
/// Wait before the record of a rollout that is over is read.
const MOMENT: Duration = Duration::from_millis(50);
/// Maximum time between two looks at something that waits, so that a person's commands to its rollouts are seen, and steps of
/// the wall clock count.
pub(crate) const LOOK: Duration = Duration::from_secs(30);

/// An event that is worth another look.
pub(crate) type Wait = BoxFuture<'static, ()>;

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
        if rests.is_err() {
            // The strategist may not know it. An error shows again at the next look.
            let _ = rolling.take_up(&key).await;
        }
        // The end may not be durable yet.
        runtime
            .sleep(if rests.is_ok() { MOMENT } else { SOON })
            .await;
    };
    Ok(over.boxed())
}

/// The outcome of an attempt to begin a change.
pub(crate) enum Attempt {
    /// It has begun.
    Begun,
    /// It may begin later, by itself, for this reason.
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
