//! The handle to a running enforcer: questions, commands and pins.

use std::{
    collections::{BTreeSet, VecDeque},
    time::Duration,
};

use async_trait::async_trait;
use control_plane_runtime::Runtime;
use control_plane_store::{
    Write, record,
    records::{By, Decision, Decisions, Stopped},
};
use futures::{
    StreamExt,
    channel::{
        mpsc::{self, UnboundedSender},
        oneshot,
    },
    stream::BoxStream,
};
use plugin_sdk::{Actuation, Actuator, BoxError, CheckName, Pin, PinEvent, with_causes};
use prodspec_model::{AssetId, Incarnation, IncarnationNo, PartitionId};
use serde::{Deserialize, Serialize};

use super::{
    input::{Input, Refused, Reply, Retiring, Settle},
    phase::SharedPhase,
    supervised::TaskFailures,
};
use crate::kernel::{Branch, Command, Explanation, Interventions, Status, Waiting};

/// Maximum length of a reason, and of an operator's name, in bytes.
const REASON: usize = 16 << 10;
/// Maximum length of a check's name, in bytes.
const CHECK: usize = 256;

/// A handle to an enforcer, for questions and commands while it runs. Cheap to clone.
#[derive(Clone)]
pub struct Handle<R> {
    pub(crate) runtime: R,
    pub(crate) partition: PartitionId,
    pub(crate) store: std::sync::Arc<dyn control_plane_store::Store>,
    pub(crate) inputs: UnboundedSender<Input>,
    pub(crate) task_failures: TaskFailures,
    pub(crate) phase: SharedPhase,
}

/// Why a question has no answer, or why a command was not accepted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// The enforcer has ended, or does not own its partition now. The text names the partition.
    #[error("the enforcer of {0} is not running here; ask the process that owns the partition")]
    NotRunning(PartitionId),
    /// The enforcer owns its partition and has not started to enforce it yet.
    #[error(
        "{0} is not enforced yet: it has no incarnation, or its records are being read; ask again later"
    )]
    Starting(PartitionId),
    /// Enforcement stopped itself because an invariant did not hold.
    #[error("enforcement of {partition} {stopped}; check production, then clear the stop")]
    Stopped {
        /// The partition whose enforcement stopped.
        partition: PartitionId,
        /// The reason and the time of the stop.
        stopped: Box<Stopped>,
    },
    /// The asset is neither part of the enforced intent nor an orphan.
    #[error("{partition} has no enforced asset `{asset}`; modelled-only assets are not enforced")]
    UnknownAsset {
        /// The partition that does not have the asset.
        partition: PartitionId,
        /// The id that was asked for.
        asset: AssetId,
    },
    /// The assets to wait for did not settle in time.
    #[error("{what} did not settle within {within:?}; `explain` says what it waits for")]
    NotSettled {
        /// The assets that were waited for, as text.
        what: String,
        /// The time that the caller was willing to wait.
        within: Duration,
    },
    /// A text of a command is too long to be stored.
    #[error("{what} has {bytes} bytes, the limit is {limit}; shorten it")]
    TooLong {
        /// The text that is too long, such as "the reason".
        what: &'static str,
        /// Length of the text in bytes.
        bytes: usize,
        /// Maximum length of the text in bytes.
        limit: usize,
    },
    /// The incarnation to pin is old and unused, and retention is removing it.
    #[error("{partition}@{incarnation} is old and being removed; pin one that is kept")]
    Retired {
        /// The partition of the incarnation.
        partition: PartitionId,
        /// The number of the incarnation.
        incarnation: IncarnationNo,
    },
    /// An operator's command does not fit the present state, for example an unknown asset. It has no effect.
    #[error("refused: {why}")]
    Refused {
        /// Why it does not fit, and which command would fit.
        why: String,
    },
    /// The store cannot be read.
    #[error("the store cannot be read; check it, then ask again")]
    Store(#[from] control_plane_store::Error),
}

/// The explanation of an asset's state, followed through its waits to root causes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Explained {
    /// The explanations of the asset itself, of the assets that it waits for, and of those that they wait for in turn.
    pub chain: Vec<Explanation>,
    /// The assets of a wait cycle in the chain; empty without one. None of them can be pushed before an operator acts.
    pub cycle: Vec<AssetId>,
    /// Waits in the chain that no push of any asset can end at the present pins.
    pub dead_ends: Vec<DeadEnd>,
    /// The last decisions on the asset itself, oldest first.
    pub decisions: Vec<Decision>,
    /// Why the decisions on record cannot be read. `None`: they were read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<String>,
}

/// A wait that only an edit, a rollout or a command of an operator can end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadEnd {
    /// Id of the asset that waits.
    pub asset: AssetId,
    /// The check whose delay makes the asset wait.
    pub check: CheckName,
    /// The reason that the check gives for its delay.
    pub reason: String,
    /// The action that would end the wait, such as an edit.
    pub way_out: String,
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

    pub(super) async fn done(&self, input: impl FnOnce(Reply) -> Input) -> Result<(), AskError> {
        let refused = |refused| match refused {
            Refused::Retired(incarnation) => AskError::Retired {
                partition: self.partition.clone(),
                incarnation,
            },
            Refused::Word(why) => AskError::Refused { why },
        };
        self.ask(input).await?.map_err(refused)
    }

    /// The status of the partition: numbers of assets by state, and lists of assets that need attention.
    ///
    /// # Errors
    /// When the enforcer is not running here, has not started yet, or has stopped itself.
    pub async fn status(&self) -> Result<Status, AskError> {
        self.ask(Input::Status).await
    }

    /// The panics of tasks beside this process's ownership, one text per task: tasks of [`while_owner`], and the task
    /// that follows newer incarnations. A task is listed until it has run well for 10 minutes or has ended.
    ///
    /// [`while_owner`]: crate::EnforcerBuilder::while_owner
    pub fn task_failures(&self) -> Vec<String> {
        self.task_failures.all()
    }

    /// The number of times that each branch of the kernel was taken, for simulations and metrics.
    ///
    /// # Errors
    /// When the enforcer is not running.
    pub async fn branches(&self) -> Result<std::collections::BTreeMap<Branch, u64>, AskError> {
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
                    next.extend(waits_for(&found));
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
            Err(damaged @ control_plane_store::Error::Damaged { .. }) => {
                (Vec::new(), Some(with_causes(&damaged)))
            }
            decisions => (decisions?, None),
        };
        Ok(Explained {
            cycle: cycle(&chain),
            dead_ends: chain.iter().flat_map(dead_ends).collect(),
            chain,
            decisions,
            unreadable,
        })
    }

    /// Reads the decisions of one asset.
    async fn decisions(
        &self,
        asset: &AssetId,
    ) -> Result<Vec<Decision>, control_plane_store::Error> {
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

    /// The incarnations that retention must spare: those at which assets are enforced, and those that records refer to.
    ///
    /// # Errors
    /// When the enforcer is not running.
    pub async fn referenced(&self) -> Result<Vec<IncarnationNo>, AskError> {
        self.ask(Input::Referenced).await
    }

    /// Returns those of the `old` incarnations that may be removed: no asset is enforced at them and no record refers
    /// to them, and that is durable. Pins to the returned incarnations are refused from now on.
    ///
    /// # Errors
    /// When the enforcer is not running.
    pub async fn retire(
        &self,
        old: BTreeSet<IncarnationNo>,
    ) -> Result<BTreeSet<IncarnationNo>, AskError> {
        self.ask(|reply| Input::Retire(Retiring { old, reply }))
            .await
    }

    /// Waits until the assets named by `what` are settled, at most for `within`.
    ///
    /// # Errors
    /// [`AskError::NotSettled`] when they are not settled in time, [`AskError::UnknownAsset`] when there is no such
    /// asset; another error when the enforcer is not running.
    pub async fn wait_settled(&self, what: Settle, within: Duration) -> Result<(), AskError> {
        let deadline = self.runtime.now().mono + within;
        let asked = self.ask(|reply| Input::WaitSettled(what.clone(), reply));
        match control_plane_runtime::timeout_at(&self.runtime, deadline, asked).await {
            Some(answer) => match (answer?, what) {
                (false, Settle::Asset(asset, _)) => Err(AskError::UnknownAsset {
                    partition: self.partition.clone(),
                    asset,
                }),
                _ => Ok(()),
            },
            None => Err(AskError::NotSettled {
                what: format!("{what:?}"),
                within,
            }),
        }
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

    /// Moves the pin of an asset; returns once that is durable.
    ///
    /// # Errors
    /// [`AskError::Retired`] when the incarnation is being removed; another error when the enforcer is not running.
    pub async fn pin(&self, asset: &AssetId, pin: Pin<Incarnation>) -> Result<(), AskError> {
        self.done(|reply| Input::Pin(asset.clone(), pin, reply))
            .await
    }

    /// Hands a newly sealed incarnation to the enforcer, without waiting for the store's hint.
    pub fn publish(&self, incarnation: Incarnation) {
        // An enforcer that does not run reads the newest incarnation when it starts.
        let _ = self
            .inputs
            .unbounded_send(Input::Kernel(crate::kernel::Event::Publish(incarnation)));
    }
}

#[async_trait]
impl<R: Runtime> Actuator for Handle<R> {
    type Write = Write;

    async fn actuate(&self, step: Actuation<Write>) -> Result<(), BoxError> {
        let done = self.done(|reply| Input::Actuate(Box::new(step), reply));
        Ok(done.await?)
    }

    fn pin_events(&self) -> BoxStream<'static, PinEvent> {
        let (follower, events) = mpsc::unbounded();
        // An enforcer that has ended drops the follower, which ends the stream.
        let _ = self.inputs.unbounded_send(Input::Feed(follower));
        events.boxed()
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
pub(super) fn fits(by: &By) -> Result<(), AskError> {
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

/// The waits of one asset that no push ends.
fn dead_ends(found: &Explanation) -> impl Iterator<Item = DeadEnd> {
    let delays = match &found.waiting {
        Some(Waiting::Checks(delays)) => delays.as_slice(),
        _ => &[],
    };
    delays.iter().filter_map(|delay| {
        Some(DeadEnd {
            asset: found.asset.clone(),
            check: delay.check.clone(),
            reason: delay.reason.clone(),
            way_out: delay.dead_end()?.to_owned(),
        })
    })
}

/// The assets that an asset waits for.
fn waits_for(found: &Explanation) -> Vec<AssetId> {
    let delays = match &found.waiting {
        Some(Waiting::Checks(delays)) => delays,
        Some(Waiting::Others { by, .. }) => return by.clone(),
        _ => return Vec::new(),
    };
    let named = |delay: &plugin_sdk::Delay| match &delay.recheck {
        plugin_sdk::Recheck::WhenSettled(asset) => Some(asset.clone()),
        _ => None,
    };
    delays.iter().filter_map(named).collect()
}

/// The assets that an asset cannot do without: of several holders of a claim, each may give it back, so none counts.
fn needs(found: &Explanation) -> Vec<AssetId> {
    match &found.waiting {
        Some(Waiting::Others { by, .. }) if by.len() > 1 => Vec::new(),
        _ => waits_for(found),
    }
}

/// A cycle of assets in `chain`: each waits for the next, and the last for the first. Empty if there is none.
fn cycle(chain: &[Explanation]) -> Vec<AssetId> {
    let through = |start: &Explanation| way_back(chain, &start.asset);
    chain.iter().find_map(through).unwrap_or_default()
}

/// The shortest path from `start` along waits to an asset that waits for `start`.
fn way_back(chain: &[Explanation], start: &AssetId) -> Option<Vec<AssetId>> {
    let mut seen = BTreeSet::new();
    let mut ways = VecDeque::from([vec![start.clone()]]);
    while let Some(way) = ways.pop_front() {
        let last = chain.iter().find(|known| way.last() == Some(&known.asset));
        for next in last.map(needs).unwrap_or_default() {
            if next == *start {
                return Some(way);
            }
            if seen.insert(next.clone()) {
                ways.push_back([&way[..], &[next]].concat());
            }
        }
    }
    None
}

impl<R> std::fmt::Debug for Handle<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handle")
            .field("partition", &self.partition)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use plugin_sdk::{Delay, Recheck};

    use super::*;
    use crate::kernel::AssetStatus;

    fn id(name: &str) -> AssetId {
        AssetId::new(name).unwrap()
    }

    fn link(name: &str, waiting: Waiting) -> Explanation {
        Explanation {
            asset: id(name),
            type_name: "test.v1.Thing".parse().unwrap(),
            status: AssetStatus::Waiting,
            incarnation: None,
            pin: "latest".into(),
            cause: None,
            trigger: control_plane_store::records::Trigger::Asked,
            change: None,
            waiting: Some(waiting),
            next_look: None,
            failures: 0,
            interventions: Interventions::default(),
        }
    }

    fn behind(by: &[&str]) -> Waiting {
        Waiting::Others {
            why: "`domain` is taken".into(),
            by: by.iter().map(|name| id(name)).collect(),
        }
    }

    fn until_settled(name: &str) -> Waiting {
        Waiting::Checks(vec![Delay {
            check: "order".into(),
            reason: "not yet".into(),
            evidence: serde_json::Value::Null,
            recheck: Recheck::WhenSettled(id(name)),
        }])
    }

    #[test]
    fn dead_end_is_reported_with_its_way_out() {
        let mut link = link("a", until_settled("b"));
        assert_eq!(dead_ends(&link).count(), 0);
        if let Some(Waiting::Checks(delays)) = &mut link.waiting {
            delays[0].evidence = serde_json::json!({ plugin_sdk::DEAD_END: "remove the edge" });
        }
        let ends: Vec<_> = dead_ends(&link)
            .map(|end| (end.asset, end.way_out))
            .collect();
        assert_eq!(ends, [(id("a"), "remove the edge".to_owned())]);
    }

    #[test]
    fn claim_holder_is_followed_and_may_close_a_cycle() {
        let parked = link("a", behind(&["b"]));
        assert_eq!(waits_for(&parked), [id("b")]);
        assert_eq!(
            cycle(&[parked, link("b", until_settled("a"))]),
            [id("a"), id("b")]
        );
    }

    #[test]
    fn one_of_several_claim_holders_closes_no_cycle() {
        let parked = link("a", behind(&["b", "c"]));
        assert_eq!(waits_for(&parked), [id("b"), id("c")]);
        let waits = link("b", until_settled("a"));
        assert!(cycle(&[parked, waits]).is_empty());
    }
}
