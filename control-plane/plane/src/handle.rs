//! A control plane from outside: questions, and waiting for answers.

use std::{sync::Arc, time::Duration};

use annealing_enforcer::{AskError, Planner, Settle, shell};
use plane_runtime::{Runtime, TokioRuntime, timeout_at};
use plane_store::{
    incarnations,
    owner::{Owner, ProcessId},
    record,
    records::Stopped,
};
use plugin_sdk::{Mono, Problems};
use prodspec_model::{AssetId, Incarnation, IncarnationId, PartitionId};
use serde::{Deserialize, Serialize};

use crate::{
    plane::Shared,
    status::{AsIntended, GroupStatus},
};

/// A control plane from outside. Cheap to clone.
#[derive(Clone)]
pub struct Handle<R = TokioRuntime> {
    pub(crate) shared: Arc<Shared<R>>,
    pub(crate) enforcer: shell::Handle<R>,
    pub(crate) planner: Planner<R>,
}

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another process owns the partition, or none does.
    #[error("this process does not own {partition}; {}", ask_whom(owner))]
    NotOwner {
        /// What was asked about.
        partition: PartitionId,
        /// Who owns it, as recorded.
        owner: Option<ProcessId>,
    },
    /// The sources do not make an incarnation. Shows every problem.
    #[error("no incarnation can be made of the sources:\n{0}")]
    Refused(Problems),
    /// There is no incarnation yet.
    #[error("{0} has no incarnation yet; the generation status says why")]
    NoIncarnation(PartitionId),
    /// No incarnation and no record speaks of the asset.
    #[error("{partition} has no asset `{asset}`")]
    UnknownAsset {
        /// Where it was looked for.
        partition: PartitionId,
        /// What was looked for.
        asset: AssetId,
    },
    /// It did not happen in time.
    #[error("{what} within {within:?}; look at the status")]
    TooLate {
        /// What did not happen.
        what: &'static str,
        /// For how long it was waited for.
        within: Duration,
    },
    /// What stands in for a source stands in for none.
    #[error("no source is called `{0}`; name the file as the source that it stands in for")]
    UnknownSource(String),
    /// The strategist has no answer, or the word does not fit.
    #[error(transparent)]
    Rollout(#[from] annealing_strategist::AskError),
    /// The enforcer has no answer.
    #[error(transparent)]
    Enforcer(#[from] AskError),
    /// The store cannot be read or written.
    #[error("the store failed")]
    Store(#[source] plugin_sdk::BoxError),
}

fn ask_whom(owner: &Option<ProcessId>) -> String {
    match owner {
        Some(owner) => format!("ask {owner}, which does"),
        None => "nobody does: run the control plane, or wait a moment".into(),
    }
}

impl From<plane_store::Error> for Error {
    fn from(error: plane_store::Error) -> Self {
        Self::Store(error.into())
    }
}

impl From<incarnations::Error> for Error {
    fn from(error: incarnations::Error) -> Self {
        Self::Store(error.into())
    }
}

/// How a partition stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Which one.
    pub partition: PartitionId,
    /// The process that owns it, as recorded.
    pub owner: Option<ProcessId>,
    /// Why enforcement stopped itself, if it did: nothing is enforced before a person clears that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<Stopped>,
    /// How generation stands, if this process owns the partition.
    pub generation: Option<prodspec_gen::Status>,
    /// What panicked beside enforcement, if this process owns the partition: it is started again by itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub troubles: Vec<String>,
    /// How enforcement stands, if this process owns the partition and there is something to enforce.
    pub enforcement: Option<annealing_enforcer::Status>,
    /// Policy groups with a rollout under way, or with assets that it left out, if this process owns the partition.
    pub groups: Vec<GroupStatus>,
    /// Whether production is as intended, and if not, why not.
    pub intended: AsIntended,
}

impl<R: Runtime> Handle<R> {
    /// The partition.
    pub fn partition(&self) -> &PartitionId {
        &self.shared.partition
    }

    /// The enforcer, for what is not offered here.
    pub fn enforcer(&self) -> &shell::Handle<R> {
        &self.enforcer
    }

    /// Generation, to follow its status. A new one with each ownership.
    ///
    /// # Errors
    /// When this process does not own the partition.
    pub async fn generation(&self) -> Result<prodspec_gen::Handle, Error> {
        let generation = self.shared.owned.borrow().clone();
        match generation {
            Some(generation) => Ok(generation),
            None => Err(Error::NotOwner {
                partition: self.shared.partition.clone(),
                owner: self.owner().await?,
            }),
        }
    }

    /// Waits until this process owns the partition. Returns at once if it does.
    pub async fn owned(&self) -> prodspec_gen::Handle {
        let mut owned = self.shared.owned.subscribe();
        loop {
            if let Some(generation) = owned.borrow_and_update().clone() {
                return generation;
            }
            if owned.changed().await.is_err() {
                // The sender is in `self.shared`: this does not happen.
                std::future::pending::<()>().await;
            }
        }
    }

    /// How the partition stands, problems and all.
    ///
    /// # Errors
    /// When the store cannot be read.
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
            troubles: self.enforcer.troubles(),
            enforcement: None,
            groups: Vec::new(),
            intended: AsIntended::Unknown(String::new()),
        };
        if something {
            status.enforcement = self.enforcer.status().await.ok();
            // Without an answer the enforcer's count of what is behind stands for all of them.
            let views = self.rollouts().await.unwrap_or_default();
            status.groups = views.iter().filter_map(GroupStatus::of).collect();
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

    /// The incarnation in force.
    ///
    /// # Errors
    /// When there is none yet, or the store cannot be read.
    pub async fn latest(&self) -> Result<Incarnation, Error> {
        let latest = self.shared.incarnations.latest().await?;
        latest.ok_or_else(|| Error::NoIncarnation(self.shared.partition.clone()))
    }

    /// Reads the sources now, and waits until production is as they say.
    ///
    /// # Errors
    /// When the sources make no incarnation, this process does not own the partition, or it takes longer than `within`.
    pub async fn settle(&self, within: Duration) -> Result<IncarnationId, Error> {
        let deadline = self.shared.runtime.now().mono + within;
        let owned = self.until(deadline, within, self.owned()).await?;
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

    /// Waits until production is as intended at an incarnation: all of it, or one asset.
    ///
    /// # Errors
    /// When it is not within `within`, or this process does not own the partition.
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
