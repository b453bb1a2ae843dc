//! The handle to a control plane: questions, and waiting for results.

use std::{collections::BTreeMap, pin::pin, sync::Arc, time::Duration};

use annealing_enforcer::{AskError, Planner, Settle, shell};
use control_plane_runtime::{Runtime, TokioRuntime, timeout_at};
use control_plane_store::{
    incarnations,
    owner::{Owner, ProcessId},
    record,
};
use futures::future::{Either, select};
use plugin_sdk::{Mono, Problems};
use prodspec_model::{AssetId, Incarnation, IncarnationId, PartitionId};
use tokio::sync::watch;

use crate::{
    desk::EditRefused,
    shared::Shared,
    status::{AsIntended, GroupStatus, Status},
};

/// Maximum time from the begin of an ownership to that of all its parts. One that failed begins again within a second.
const BEGINS: Duration = Duration::from_secs(5);

/// A handle to a control plane, for questions and commands of operators. Cheap to clone.
#[derive(Clone)]
pub struct Handle<R = TokioRuntime> {
    pub(crate) shared: Arc<Shared<R>>,
    pub(crate) enforcer: shell::Handle<R>,
    pub(crate) planner: Planner<R>,
}

/// Reason why a question or a command failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another process owns the partition, or no process does.
    #[error("this process does not own {partition}; {}", owner_hint(owner))]
    NotOwner {
        /// Partition of the control plane.
        partition: PartitionId,
        /// Owner of the partition according to the store; `None` if there is none.
        owner: Option<ProcessId>,
    },
    /// The sources do not make an incarnation. Contains every problem found.
    #[error("no incarnation can be made from the sources:\n{0}")]
    Refused(Problems),
    /// The partition has no incarnation yet.
    #[error("{0} has no incarnation yet; the generation status says why")]
    NoIncarnation(PartitionId),
    /// The partition has no such asset: it is not in intent, and no record mentions it.
    #[error("{partition} has no asset `{asset}`")]
    UnknownAsset {
        /// Partition of the control plane.
        partition: PartitionId,
        /// Id of the requested asset.
        asset: AssetId,
    },
    /// The asset has another id now, which says that it was renamed (`Moved`).
    #[error("{partition} has no asset `{asset}`; it was renamed to `{now}`: use that id")]
    Renamed {
        /// Partition of the control plane.
        partition: PartitionId,
        /// Id of the requested asset.
        asset: AssetId,
        /// The id that the asset has now.
        now: AssetId,
    },
    /// The awaited event did not happen in time.
    #[error("{what} within {within:?}; the status says why")]
    TooLate {
        /// The event that did not happen.
        what: &'static str,
        /// How long the call waited.
        within: Duration,
    },
    /// No source has this name.
    #[error("no source has the name `{0}`; use the name of one of the sources of the pipeline")]
    UnknownSource(String),
    /// A change did not begin.
    #[error(transparent)]
    RollOut(#[from] crate::RollOutRefused),
    /// A command does not fit the state of a train.
    #[error("the train `{0}` refuses the command: {1}")]
    Train(AssetId, String),
    /// An edit of a source was not made.
    #[error(transparent)]
    Edit(#[from] EditRefused),
    /// The strategist has no answer, or the command does not fit the state of the rollout.
    #[error(transparent)]
    Rollout(#[from] annealing_strategist::AskError),
    /// The workflows have no answer, or the command does not fit the execution. Needs the feature `workflows`.
    #[cfg(feature = "workflows")]
    #[error(transparent)]
    Workflow(#[from] annealing_workflow::AskError),
    /// The enforcer has no answer, or refuses the command.
    #[error(transparent)]
    Enforcer(#[from] AskError),
    /// The override of a guard is refused or cannot be recorded.
    #[error(transparent)]
    Guard(#[from] prodspec_gen::overrides::Error),
    /// The store cannot be read or written.
    #[error("the store failed")]
    Store(#[source] plugin_sdk::BoxError),
}

/// Waits until a part of the ownership is there, and returns it.
pub(crate) async fn announced<T: Clone>(part: &watch::Sender<Option<T>>) -> T {
    let mut part = part.subscribe();
    loop {
        if let Some(part) = part.borrow_and_update().clone() {
            return part;
        }
        // The sender is borrowed, so it lives.
        let _ = part.changed().await;
    }
}

fn owner_hint(owner: &Option<ProcessId>) -> String {
    match owner {
        Some(owner) => format!("ask its owner `{owner}`"),
        None => "no process owns it: run the control plane, or wait a moment".into(),
    }
}

impl From<control_plane_store::Error> for Error {
    fn from(error: control_plane_store::Error) -> Self {
        Self::Store(error.into())
    }
}

impl From<incarnations::Error> for Error {
    fn from(error: incarnations::Error) -> Self {
        Self::Store(error.into())
    }
}

impl<R: Runtime> Handle<R> {
    /// Partition of the control plane.
    pub fn partition(&self) -> &PartitionId {
        &self.shared.partition
    }

    /// Handle to the enforcer, for functions that this handle does not offer.
    pub fn enforcer(&self) -> &shell::Handle<R> {
        &self.enforcer
    }

    /// Returns a handle to generation, to follow its status. Each ownership has a new one.
    ///
    /// # Errors
    /// If this process does not own the partition, or the store cannot be read.
    pub async fn generation(&self) -> Result<prodspec_gen::Handle, Error> {
        let generation = self.shared.owned.borrow().clone();
        match generation {
            Some(generation) => Ok(generation),
            None => Err(self.not_owner().await?),
        }
    }

    /// The error for a question to a process that does not own the partition.
    pub(crate) async fn not_owner(&self) -> Result<Error, Error> {
        Ok(Error::NotOwner {
            partition: self.shared.partition.clone(),
            owner: self.owner().await?,
        })
    }

    /// Returns a part of this process's ownership. Each begins by itself, so it may come a moment after generation.
    pub(crate) async fn part<T>(&self, part: impl Future<Output = T>) -> Result<T, Error> {
        let runtime = &self.shared.runtime;
        let begins = timeout_at(runtime, runtime.now().mono + BEGINS, part);
        let mut owned = self.shared.owned.subscribe();
        let ended = async { drop(owned.wait_for(Option::is_none).await) };
        let part = match select(pin!(begins), pin!(ended)).await {
            Either::Left((part, _)) => part,
            Either::Right(_) => None,
        };
        match part {
            Some(part) => Ok(part),
            None => Err(self.not_owner().await?),
        }
    }

    /// Waits until this process owns the partition, and returns a handle to its generation. Returns at once if it owns
    /// it already.
    pub async fn wait_until_owner(&self) -> prodspec_gen::Handle {
        announced(&self.shared.owned).await
    }

    /// Returns the state of the partition, with all problems. Works in every process, but only the owner knows the
    /// details.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn status(&self) -> Result<Status, Error> {
        let generation = self.shared.owned.borrow().as_ref().map(|it| it.status());
        let something = generation
            .as_ref()
            .is_some_and(|status| status.incarnation.is_some());
        let mut status = Status {
            partition: self.shared.partition.clone(),
            owner: self.owner().await?,
            stopped: self.enforcer.stopped().await?,
            generation,
            guard_overrides: self.guard_overrides().await?,
            task_failures: self.enforcer.task_failures(),
            enforcement: None,
            groups: Vec::new(),
            goals: BTreeMap::new(),
            undone: self.shared.undone.borrow().clone(),
            intended: AsIntended::Unknown(String::new()),
        };
        if something {
            status.enforcement = self.enforcer.status().await.ok();
            // If the strategist does not answer, the enforcer's count of assets behind their intent covers all groups.
            let views = self.rollouts().await.unwrap_or_default();
            status.groups = views.iter().filter_map(GroupStatus::of).collect();
            status.goals = self.goals_in_lines().await.unwrap_or_default();
        }
        status.intended = AsIntended::of(&status);
        Ok(status)
    }

    async fn owner(&self) -> Result<Option<ProcessId>, Error> {
        let Shared {
            store, partition, ..
        } = &*self.shared;
        let owner = record::load::<Owner>(&**store, partition, "").await?;
        Ok(owner.map(|owner| owner.value.process))
    }

    /// Loads the incarnation in force.
    ///
    /// # Errors
    /// If there is none yet, or the store cannot be read.
    pub async fn latest(&self) -> Result<Incarnation, Error> {
        let latest = self.shared.incarnations.latest().await?;
        latest.ok_or_else(|| Error::NoIncarnation(self.shared.partition.clone()))
    }

    /// Reads the sources now, and waits until production matches them. Returns the incarnation made from them.
    ///
    /// A rollout may still bake then; [`Handle::wait_rollout`] waits for its end. While a rollout goes back, or its
    /// content is quarantined, production does not match, so this waits until `within` has passed.
    ///
    /// # Errors
    /// If the sources make no incarnation, this process loses the partition, or it takes longer than `within`.
    pub async fn settle(&self, within: Duration) -> Result<IncarnationId, Error> {
        let deadline = self.shared.runtime.now().mono + within;
        let owned = self
            .until(deadline, within, self.wait_until_owner())
            .await?;
        let status = self.until(deadline, within, owned.next_run()).await?;
        if status.problems.any_error() {
            return Err(Error::Refused(status.problems));
        }
        let newest = status
            .incarnation
            .ok_or_else(|| Error::NoIncarnation(self.shared.partition.clone()))?;
        let left = deadline.since(self.shared.runtime.now().mono);
        self.wait_settled(Settle::All(newest.id.no), left).await?;
        Ok(newest.id)
    }

    /// Waits until production matches an incarnation: all of it, or one asset.
    ///
    /// # Errors
    /// If that takes longer than `within`, or this process does not own the partition.
    pub async fn wait_settled(&self, what: Settle, within: Duration) -> Result<(), Error> {
        self.generation().await?;
        Ok(self.enforcer.wait_settled(what, within).await?)
    }

    async fn until<T>(
        &self,
        deadline: Mono,
        within: Duration,
        event: impl Future<Output = T>,
    ) -> Result<T, Error> {
        let what = "the sources were not read";
        let event = timeout_at(&self.shared.runtime, deadline, event).await;
        event.ok_or(Error::TooLate { what, within })
    }
}

impl<R> std::fmt::Debug for Handle<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handle")
            .field("partition", &self.shared.partition)
            .finish_non_exhaustive()
    }
}
