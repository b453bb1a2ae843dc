//! The handle by which operators and programs talk to a running strategist.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use control_plane_runtime::Runtime;
use control_plane_store::record;
use futures::channel::{mpsc::UnboundedSender, oneshot};
use plugin_sdk::{BoxError, with_causes};
use prodspec_model::{AssetId, Incarnation, IncarnationNo, PartitionId};

use super::{Input, LetIn, Strategist};
use crate::{
    change::{HandOver, LiveChange, Planned, PlannedTarget},
    kernel::{Command, GroupOutcome, Refused, View},
    line::{self, StoppedLine},
    preview::{self, Schedule},
    record::{By, Rollout},
};

pub(crate) type Reply<T> = oneshot::Sender<T>;

/// The reason why the strategist cannot answer now. `None`: it can.
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

/// A handle to a running strategist. Cheap to clone.
pub struct Handle<R> {
    strategist: Arc<Strategist<R>>,
    inputs: UnboundedSender<Input>,
    task_failure: Trouble,
}

impl<R> Clone for Handle<R> {
    fn clone(&self) -> Self {
        Self {
            strategist: self.strategist.clone(),
            inputs: self.inputs.clone(),
            task_failure: self.task_failure.clone(),
        }
    }
}

/// Why a question has no answer, or a command has no effect.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// The strategist is not running in this process: its ownership of the partition ended or never began.
    #[error(
        "the strategist of partition {0} is not running in this process; ask the process that owns it"
    )]
    NotRunning(PartitionId),
    /// The stored data of the rollouts cannot be read. The strategist retries by itself.
    #[error("failed to read the stored rollouts of {partition}; retrying: {why}")]
    Unreadable {
        /// The partition whose data cannot be read.
        partition: PartitionId,
        /// The error, with its causes.
        why: String,
    },
    /// The command does not fit the state of the rollout.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The rollout has no end that can be foreseen.
    #[error(transparent)]
    Preview(#[from] preview::Error),
    /// The store cannot be read for this question.
    #[error("the store cannot be read")]
    Store(#[from] control_plane_store::Error),
}

impl<R: Runtime> Handle<R> {
    pub(crate) fn new(
        strategist: Arc<Strategist<R>>,
        inputs: UnboundedSender<Input>,
        task_failure: Trouble,
    ) -> Self {
        Self {
            strategist,
            inputs,
            task_failure,
        }
    }

    fn no_answer(&self) -> AskError {
        let partition = self.strategist.partition.clone();
        match self.task_failure.get() {
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

    /// Returns the present state of every policy group, sorted by policy asset.
    ///
    /// # Errors
    /// When the strategist is not running, or its stored data cannot be read.
    pub async fn views(&self) -> Result<Vec<View>, AskError> {
        self.ask(Input::Views).await
    }

    /// Returns the course of the live rollout of `policy`, a policy asset or the key of a change, if all goes well from now on:
    /// which targets move when, and when it is over. Each target takes `settles_after` until production has it. Other rollouts,
    /// checks and pauses are not played.
    ///
    /// # Errors
    /// When no rollout is live that goes forward by itself, or it cannot be played: see [`preview::Error`].
    pub async fn preview(
        &self,
        policy: &AssetId,
        settles_after: Duration,
    ) -> Result<Schedule, AskError> {
        let course = self.ask(|reply| Input::Course(policy.clone(), reply));
        self.strategist.play(course.await??, settles_after)
    }

    /// Waits until the group of `policy` has come to rest at incarnation `at` or a newer one: no rollout is live, or
    /// the live one has stopped and waits for an operator.
    ///
    /// # Errors
    /// When there is no such group at `at`, the strategist ends, or its stored data cannot be read.
    pub async fn rests(
        &self,
        policy: &AssetId,
        at: IncarnationNo,
    ) -> Result<GroupOutcome, AskError> {
        let answer = self.ask(|reply| Input::Rests(policy.clone(), at, reply));
        Ok(answer.await??)
    }

    /// Lets an incarnation into the group of `policy`, a stage of a train of heads, which rolls it out. Nothing happens if the group
    /// has taken it in.
    ///
    /// # Errors
    /// When the group is no such stage, or does not know the incarnation yet; the strategist is not running, or its stored data
    /// cannot be read.
    pub async fn let_in(
        &self,
        policy: &AssetId,
        incarnation: Incarnation,
    ) -> Result<LetIn, AskError> {
        let answer = self.ask(|reply| Input::LetIn(policy.clone(), incarnation, reply));
        Ok(answer.await??)
    }

    /// Gives a command to the rollout of the group of `policy`. Returns once the command is durable.
    ///
    /// # Errors
    /// When the command does not fit the state of the rollout, the strategist is not running, or its stored data
    /// cannot be read.
    pub async fn tell(&self, policy: &AssetId, command: Command, by: By) -> Result<(), AskError> {
        let answer = self.ask(|reply| Input::Command(policy.clone(), command, by, reply));
        Ok(answer.await??)
    }

    /// Stops the line, or, with `None`, lets it go on. Returns once that is durable: from then on no pin of a rollout that stands
    /// still moves forward.
    ///
    /// # Errors
    /// When an exception names no group and no live change, the strategist is not running, or its stored data cannot be read.
    pub async fn set_line(&self, line: Option<StoppedLine>) -> Result<(), AskError> {
        let answer = self.ask(|reply| Input::Line(line, reply));
        Ok(answer.await??)
    }

    /// Returns the last stop of the line, whose time may have passed. `None`: it was not stopped, or was let go on.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn stopped_line(&self) -> Result<Option<StoppedLine>, AskError> {
        let Strategist {
            store, partition, ..
        } = &*self.strategist;
        let line = record::load::<StoppedLine>(&**store, partition, line::NAME).await?;
        Ok(line.map(|it| it.value))
    }

    /// Begins a change whose records are in the store.
    ///
    /// # Errors
    /// When the strategist is not running; the next owner begins the change from its records.
    pub async fn roll_out(&self, planned: Planned) -> Result<(), AskError> {
        let answer = self.ask(|reply| Input::RollOut(Box::new(planned), reply));
        Ok(answer.await??)
    }

    /// Begins the change with this key if its records are in the store and the strategist does not know it: the commit of the
    /// records was made, and its answer was lost. Nothing happens if the change has begun.
    ///
    /// # Errors
    /// When the store cannot be read, or the strategist is not running.
    pub async fn take_up(&self, key: &AssetId) -> Result<(), AskError> {
        let Strategist {
            store, partition, ..
        } = &*self.strategist;
        let begun = Planned::begun(&**store, partition, key).await;
        let unread = |error: BoxError| AskError::Unreadable {
            partition: partition.clone(),
            why: with_causes(&*error),
        };
        match begun.map_err(unread)? {
            Some(begun) => self.roll_out(begun).await,
            None => Ok(()),
        }
    }

    /// Waits until assets have come that may join live changes, and returns them.
    ///
    /// # Errors
    /// When the strategist is not running, or its stored data cannot be read.
    pub async fn arrivals(&self) -> Result<Vec<LiveChange>, AskError> {
        self.ask(Input::Arrivals).await
    }

    /// Returns the live change with this key. `None`: there is none.
    ///
    /// # Errors
    /// When the strategist is not running, or its stored data cannot be read.
    pub async fn live_change(&self, key: &AssetId) -> Result<Option<LiveChange>, AskError> {
        self.ask(|reply| Input::LiveChange(key.clone(), reply))
            .await
    }

    /// Gives a live change other values of the same fields: a new rollout of it takes over. Returns once that is durable.
    ///
    /// # Errors
    /// When the change is over, goes back, or has other targets by now, the strategist is not running, or its stored data
    /// cannot be read.
    pub async fn hand_over(&self, to: HandOver, by: By) -> Result<(), AskError> {
        let answer = self.ask(|reply| Input::HandOver(Box::new(to), by, reply));
        Ok(answer.await??)
    }

    /// Adds assets that came to the change that they came for: `targets`, whose fields are reserved and whose records are in
    /// the store. It does not update those `beside`. If the change has ended meanwhile, its fields are given up again.
    ///
    /// # Errors
    /// When the strategist is not running; the next owner adds the targets by their records.
    pub async fn join(
        &self,
        arrivals: &LiveChange,
        targets: Vec<PlannedTarget>,
        beside: Vec<AssetId>,
    ) -> Result<(), AskError> {
        let of = (
            arrivals.key.clone(),
            arrivals.holder.clone(),
            arrivals.rollout,
        );
        let input = |reply| Input::Join(of, targets, beside, reply);
        self.ask(input).await
    }

    /// Returns the stored rollouts of the group of `policy`, oldest first.
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

    /// Returns the incarnations that rollouts use, which retention must spare.
    ///
    /// # Errors
    /// When the strategist is not running, or its stored data cannot be read.
    pub async fn referenced(&self) -> Result<Vec<IncarnationNo>, AskError> {
        self.ask(Input::Referenced).await
    }
}

impl<R> std::fmt::Debug for Handle<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handle")
            .field("strategist", &self.strategist)
            .finish_non_exhaustive()
    }
}
