//! What people and programs may ask of a running strategist.

use std::sync::{Arc, Mutex, PoisonError};

use futures::channel::{mpsc::UnboundedSender, oneshot};
use plane_runtime::Runtime;
use plane_store::record;
use prodspec_model::{AssetId, IncarnationNo, PartitionId};

use super::{Input, Strategist};
use crate::{
    kernel::{Command, Refused, Rested, View},
    record::{By, Rollout},
};

pub(crate) type Reply<T> = oneshot::Sender<T>;

/// Why nothing can be answered now, if there is a reason.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trouble(Arc<Mutex<Option<String>>>);

impl Trouble {
    pub(crate) fn set(&self, why: Option<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = why;
    }

    fn get(&self) -> Option<String> {
        let why = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        why.clone()
    }
}

/// A running strategist, from outside. Cheap to clone.
pub struct Handle<R> {
    strategist: Arc<Strategist<R>>,
    inputs: UnboundedSender<Input>,
    trouble: Trouble,
}

impl<R> Clone for Handle<R> {
    fn clone(&self) -> Self {
        Self {
            strategist: self.strategist.clone(),
            inputs: self.inputs.clone(),
            trouble: self.trouble.clone(),
        }
    }
}

/// Why a question has no answer, or a word no effect.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// The strategist has ended.
    #[error("nobody rolls {0} out here; ask the process that owns the partition")]
    NotRunning(PartitionId),
    /// The store has something that cannot be read, or cannot be asked. It is tried again by itself.
    #[error(
        "what is remembered of the rollouts of {partition} cannot be read; it is tried again: {why}"
    )]
    Unreadable {
        /// Whose.
        partition: PartitionId,
        /// The error, with its causes.
        why: String,
    },
    /// The word does not fit how the rollout is.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The store cannot be read.
    #[error("the store cannot be read")]
    Store(#[from] plane_store::Error),
}

impl<R: Runtime> Handle<R> {
    pub(crate) fn new(
        strategist: Arc<Strategist<R>>,
        inputs: UnboundedSender<Input>,
        trouble: Trouble,
    ) -> Self {
        Self {
            strategist,
            inputs,
            trouble,
        }
    }

    fn no_answer(&self) -> AskError {
        let partition = self.strategist.partition.clone();
        match self.trouble.get() {
            Some(why) => AskError::Unreadable { partition, why },
            None => AskError::NotRunning(partition),
        }
    }

    async fn ask<T>(&self, input: impl FnOnce(Reply<T>) -> Input) -> Result<T, AskError> {
        let (reply, answer) = oneshot::channel();
        let sent = self.inputs.unbounded_send(input(reply));
        sent.map_err(|_| self.no_answer())?;
        answer.await.map_err(|_| self.no_answer())
    }

    /// Every policy group as it is now, by its policy asset.
    ///
    /// # Errors
    /// When the strategist is not running, or what it remembers cannot be read.
    pub async fn views(&self) -> Result<Vec<View>, AskError> {
        self.ask(Input::Views).await
    }

    /// Returns once the group of `policy` has come to rest at incarnation `at` or a newer one: no rollout is under way, or
    /// it has stopped until a person says so.
    ///
    /// # Errors
    /// When there is no such group at `at`, or the strategist ends.
    pub async fn rests(&self, policy: &AssetId, at: IncarnationNo) -> Result<Rested, AskError> {
        let answer = self.ask(|reply| Input::Rests(policy.clone(), at, reply));
        Ok(answer.await??)
    }

    /// Says something to the rollout of the group of `policy`; answers once it is durable.
    ///
    /// # Errors
    /// When it does not fit how the rollout is, the strategist is not running, or what it remembers cannot be read.
    pub async fn tell(&self, policy: &AssetId, command: Command, by: By) -> Result<(), AskError> {
        let answer = self.ask(|reply| Input::Person(policy.clone(), command, by, reply));
        Ok(answer.await??)
    }

    /// The rollouts of the group of `policy` that are remembered, oldest first.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn history(&self, policy: &AssetId) -> Result<Vec<Rollout>, AskError> {
        let Strategist {
            store, partition, ..
        } = &*self.strategist;
        let all = record::load_all::<Rollout>(&**store, partition).await?;
        let ours = all.into_iter().map(|(_, stored)| stored.value);
        Ok(ours.filter(|rollout| rollout.policy == *policy).collect())
    }

    /// The incarnations that retention must spare.
    ///
    /// # Errors
    /// When the strategist is not running, or what it remembers cannot be read.
    pub async fn cited(&self) -> Result<Vec<IncarnationNo>, AskError> {
        self.ask(Input::Cited).await
    }
}
