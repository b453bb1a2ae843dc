//! Questions and commands of operators.

use std::{collections::BTreeMap, time::Duration};

use control_plane_runtime::{Make, Runtime, SupervisedTask, timeout_at};
use control_plane_store::{
    Error, record,
    records::{Decision, Decisions, Stopped},
};
use futures::StreamExt;
use plugin_sdk::{By, Enforcement, FeedItem, Follow, Relation, with_causes};
use prodspec_model::{AssetId, IncarnationNo};

use super::{Explained, Handle, explained};
use crate::{
    kernel::{ApprovalSet, Branch, Command, Explanation, Interventions, Status},
    shell::{
        error::AskError,
        input::{Awaited, Input, Settle},
    },
};

/// Maximum length of a reason, and of an operator's name, in bytes.
const REASON: usize = 16 << 10;
/// Maximum length of a check's name, in bytes.
const CHECK: usize = 256;

impl<R: Runtime> Handle<R> {
    /// The status of the partition: numbers of assets by state, and lists of assets that need attention.
    ///
    /// # Errors
    /// When the enforcer is not running here, has not started yet, or has stopped itself.
    pub async fn status(&self) -> Result<Status, AskError> {
        self.ask(Input::Status).await
    }

    /// The panics of tasks beside this process's ownership, one text per task: tasks of [`while_owner`], those that they
    /// start [beside them](Self::beside), and the task that follows newer incarnations. A task is listed until it has run
    /// well for 10 minutes or has ended.
    ///
    /// [`while_owner`]: crate::EnforcerBuilder::while_owner
    pub fn task_failures(&self) -> Vec<String> {
        self.task_failures.all()
    }

    /// Starts a task beside this process's ownership. If it panics, it is started again, and listed in
    /// [`task_failures`](Self::task_failures) under its name, which no other task has. It ends when the returned value is
    /// dropped.
    pub fn beside(&self, name: &'static str, make: Make) -> SupervisedTask {
        let reports = self.task_failures.of(&self.partition, name);
        SupervisedTask::start(&self.runtime, reports, make)
    }

    /// The changes that wait for approvals by policies, in sets of equal changes. [`Command::ApproveSet`] approves one of them.
    ///
    /// # Errors
    /// When the enforcer is not running here, has not started yet, or has stopped itself.
    pub async fn awaiting_approval(&self) -> Result<Vec<ApprovalSet>, AskError> {
        self.ask(Input::Awaiting).await
    }

    /// The number of times that each branch of the kernel was taken, for simulations and metrics.
    ///
    /// # Errors
    /// When the enforcer is not running.
    pub async fn branches(&self) -> Result<BTreeMap<Branch, u64>, AskError> {
        self.ask(Input::Branches).await
    }

    /// Explains why an asset is, or is not, being pushed, and follows its waits to root causes.
    ///
    /// # Errors
    /// When the enforcer is not running, or does not know the asset.
    pub async fn explain(&self, asset: &AssetId) -> Result<Explained, AskError> {
        let mut chain: Vec<Explanation> = Vec::new();
        let mut next = vec![asset.clone()];
        while let Some(id) = next.pop() {
            if chain.iter().any(|known| known.asset == id) {
                continue;
            }
            match self.ask(|reply| Input::Explain(id.clone(), reply)).await? {
                Some(found) => {
                    next.extend(explained::waits_for(&found));
                    chain.push(found);
                }
                None if chain.is_empty() => {
                    return Err(AskError::UnknownAsset {
                        partition: self.partition.clone(),
                        asset: id,
                    });
                }
                None => {}
            }
        }
        let (decisions, unreadable) = match self.decisions(asset).await {
            Err(damaged @ Error::Damaged { .. }) => (Vec::new(), Some(with_causes(&damaged))),
            decisions => (decisions?, None),
        };
        Ok(Explained::of(chain, decisions, unreadable))
    }

    /// Reads the decisions of one asset.
    async fn decisions(&self, asset: &AssetId) -> Result<Vec<Decision>, Error> {
        let (store, partition) = (&*self.store, &self.partition);
        let kept = record::load::<Decisions>(store, partition, asset.as_str()).await?;
        let kept = kept.map(|stored| stored.value.read().cloned().collect());
        Ok(kept.unwrap_or_default())
    }

    /// The ids of all enforced assets and orphans.
    ///
    /// # Errors
    /// When the enforcer is not running.
    pub async fn assets(&self) -> Result<Vec<AssetId>, AskError> {
        self.ask(Input::Assets).await
    }

    /// Waits until the assets named by `what` are settled, at most for `within`.
    ///
    /// # Errors
    /// [`AskError::NotSettled`] when they are not settled in time, [`AskError::UnknownAsset`] when there is no such
    /// asset; another error when the enforcer is not running.
    pub async fn wait_settled(&self, what: Settle, within: Duration) -> Result<(), AskError> {
        let deadline = self.runtime.now().mono + within;
        let settled = async {
            match &what {
                Settle::All(no) => self.wait(Awaited::AllSettled(*no)).await,
                Settle::Asset(asset, no) => {
                    self.wait(Awaited::Taken(*no)).await?;
                    self.settled(asset, *no).await
                }
            }
        };
        let settled = timeout_at(&self.runtime, deadline, settled).await;
        settled.unwrap_or_else(|| {
            let what = what.to_string();
            Err(AskError::NotSettled { what, within })
        })
    }

    async fn wait(&self, what: Awaited) -> Result<(), AskError> {
        self.ask(|reply| Input::Wait(what, reply)).await
    }

    /// Waits until an asset is settled at an incarnation or a newer one.
    async fn settled(&self, asset: &AssetId, no: IncarnationNo) -> Result<(), AskError> {
        let mut feed = self.feed();
        while let Some(item) = feed.next().await {
            let all = match item {
                FeedItem::Standings(all) => all,
                // Another ownership may not have taken it yet.
                FeedItem::Took(newest) if newest.no() >= no => {
                    feed.follow(Follow::Assets(vec![asset.clone()]));
                    continue;
                }
                _ => continue,
            };
            match all.last() {
                Some((_, standing)) if standing.is_settled() => return Ok(()),
                Some((_, standing)) if standing.relation == Relation::Absent => {
                    let (partition, asset) = (self.partition.clone(), asset.clone());
                    return Err(AskError::UnknownAsset { partition, asset });
                }
                _ => {}
            }
        }
        Err(self.phase.unanswered(&self.partition))
    }

    /// The commands of operators that are still in effect: pauses, approvals, overrides.
    ///
    /// # Errors
    /// When the enforcer is not running.
    pub async fn interventions(&self) -> Result<Interventions, AskError> {
        self.ask(Input::Interventions).await
    }

    /// Gives a command of an operator to the enforcer; returns once it is durable.
    ///
    /// # Errors
    /// [`AskError::Refused`] when the command does not fit: the asset is not known, its change is another one by now,
    /// or the scope is not paused. [`AskError::TooLong`] when the operator's name or the reason is longer than 16 KiB,
    /// or the check's name longer than 256 bytes. Another error when the enforcer is not running.
    pub async fn tell(&self, command: Command) -> Result<(), AskError> {
        may_be_remembered(&command)?;
        self.done(|reply| Input::Tell(Box::new(command), reply))
            .await
    }

    /// Why enforcement stopped itself, if it did and no operator has cleared it since. Reads the store: any process may
    /// ask.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn stopped(&self) -> Result<Option<Stopped>, AskError> {
        let stopped = record::load::<Stopped>(&*self.store, &self.partition, "").await?;
        Ok(stopped.map(|it| it.value).filter(Stopped::holds))
    }

    /// Clears the stop, so that enforcement starts again. With it the operator `by` confirms to have checked
    /// production. Returns once that is durable.
    ///
    /// # Errors
    /// When enforcement is not stopped, the name or the reason in `by` is longer than 16 KiB, or this process does not
    /// own the partition.
    pub async fn clear_stop(&self, by: By) -> Result<(), AskError> {
        fits(&by)?;
        self.done(|reply| Input::Clear(by, reply)).await
    }
}

/// Checks the lengths of a command's texts: name and reason are kept in one record, the check's name in its key.
fn may_be_remembered(command: &Command) -> Result<(), AskError> {
    let by = command.by();
    let check = match command {
        Command::Override { check, .. } => check.as_str(),
        _ => "",
    };
    fits(by)?;
    fits_into("the name of the check", check, CHECK)
}

/// Checks the lengths of the operator's name and reason.
fn fits(by: &By) -> Result<(), AskError> {
    fits_into("the name of the operator", &by.who, REASON)?;
    fits_into("the reason", &by.why, REASON)
}

fn fits_into(what: &'static str, text: &str, limit: usize) -> Result<(), AskError> {
    let bytes = text.len();
    match bytes > limit {
        true => Err(AskError::TooLong { what, bytes, limit }),
        false => Ok(()),
    }
}
