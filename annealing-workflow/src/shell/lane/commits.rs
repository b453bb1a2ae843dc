//! The commits of a lane, one at a time, in the order of its journal.

use std::time::Duration;

use control_plane_runtime::Runtime;
use control_plane_store::{CommitError, Version, journal::Outcome};
use futures::{FutureExt, future::BoxFuture};

use super::{
    super::{fence, inbox},
    Session, Then,
};
use crate::kernel::Event;

/// Wait before a batch is submitted again whose outcome is not known.
const RESUBMIT: Duration = Duration::from_millis(100);

pub(super) type Committing = BoxFuture<'static, Result<Version, CommitError>>;

/// The result of the commit under way, if there is one.
pub(super) async fn result(committing: &mut Option<Committing>) -> Result<Version, CommitError> {
    match committing {
        Some(commit) => commit.await,
        None => futures::future::pending().await,
    }
}

impl<R: Runtime> Session<R> {
    pub(super) fn next_commit(&mut self) -> Option<Committing> {
        let batch = self.journal.next_batch()?;
        let mut batch = fence::behind(batch, &self.workflows.partition, self.fence);
        if self.answered.is_some() {
            batch = batch.announce(inbox::answers(&self.workflows.partition));
        }
        let store = self.workflows.store.clone();
        Some(async move { store.commit(batch).await }.boxed())
    }

    /// Takes the result of a commit. `false`: the lane has to end.
    pub(super) async fn committed(&mut self, result: Result<Version, CommitError>) -> bool {
        match self.journal.committed(result) {
            Outcome::Durable(upto) => {
                let now = self.workflows.runtime.now().mono;
                self.outage.over(now, "commits of the workflows");
                self.answered = self.answered.filter(|at| *at > upto);
                while let Some((_, then)) = self.thens.pop_front_if(|(at, _)| *at <= upto) {
                    match then {
                        Then::Tell(tell) => tell(),
                        Then::Durable(commit) => {
                            self.workflows.told.send_replace(());
                            self.step(Event::Durable(commit));
                        }
                    }
                }
                true
            }
            Outcome::Resubmit(error) => {
                if self.outage.failed(self.workflows.runtime.now().mono) {
                    tracing::warn!(partition = %self.workflows.partition, %error, "a commit of the workflows has no certain outcome; submitting it again until it has one");
                }
                self.workflows.runtime.sleep(RESUBMIT).await;
                true
            }
            Outcome::LostOwnership => false,
            Outcome::Stopped(error) => {
                tracing::error!(partition = %self.workflows.partition, %error, "the store refuses a commit of the workflows");
                false
            }
            other => {
                tracing::error!(partition = %self.workflows.partition, ?other, "the journal of the workflows has ended");
                false
            }
        }
    }
}
