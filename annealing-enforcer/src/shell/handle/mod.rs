//! The handle to a running enforcer, by audience: operators, rollouts and generation, retention.

mod actuator;
mod explained;
mod people;
mod retention;

use std::sync::Arc;

use control_plane_runtime::Runtime;
use control_plane_store::Store;
use futures::channel::{mpsc::UnboundedSender, oneshot};
use prodspec_model::PartitionId;

pub use explained::{DeadEnd, Explained};

use super::{
    attached::FeedNumbers,
    error::AskError,
    input::{Input, Refused, Reply},
    phase::SharedPhase,
    task_failures::TaskFailures,
};

/// A handle to an enforcer, for questions and commands while it runs. Cheap to clone.
#[derive(Clone)]
pub struct Handle<R> {
    pub(super) runtime: R,
    pub(super) partition: PartitionId,
    pub(super) store: Arc<dyn Store>,
    pub(super) inputs: UnboundedSender<Input>,
    pub(super) task_failures: TaskFailures,
    pub(super) phase: SharedPhase,
    pub(super) feeds: FeedNumbers,
}

impl<R: Runtime> Handle<R> {
    async fn ask<T>(&self, input: impl FnOnce(oneshot::Sender<T>) -> Input) -> Result<T, AskError> {
        let (reply, answer) = oneshot::channel();
        let gone = || self.phase.unanswered(&self.partition);
        self.inputs
            .unbounded_send(input(reply))
            .map_err(|_| gone())?;
        answer.await.map_err(|_| gone())
    }

    async fn done(&self, input: impl FnOnce(Reply) -> Input) -> Result<(), AskError> {
        let refused = |refused| match refused {
            Refused::Retired(incarnation) => AskError::Retired {
                partition: self.partition.clone(),
                incarnation,
            },
            Refused::Word(why) => AskError::Refused { why },
        };
        self.ask(input).await?.map_err(refused)
    }
}

impl<R> std::fmt::Debug for Handle<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handle")
            .field("partition", &self.partition)
            .finish_non_exhaustive()
    }
}
