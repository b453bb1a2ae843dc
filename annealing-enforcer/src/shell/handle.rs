//! What people and programs may ask of a running enforcer.

use std::{
    collections::{BTreeSet, VecDeque},
    time::Duration,
};

use futures::{
    Stream,
    channel::{
        mpsc::{self, UnboundedSender},
        oneshot,
    },
};
use plane_runtime::Runtime;
use plane_store::{
    Write,
    records::{By, Decision, Decisions, Stopped},
};
use plugin_sdk::CheckName;
use prodspec_model::{AssetId, Incarnation, IncarnationNo, PartitionId};
use serde::{Deserialize, Serialize};

use super::{
    Input,
    beside::Troubles,
    phase::SharedPhase,
    retire::{Refused, Reply, Retiring},
};
use crate::kernel::{Branch, Command, Explanation, FeedItem, Pin, Status, Waiting, Words};

/// The longest reason that a person may give, and the longest name of a check, in bytes.
const REASON: usize = 16 << 10;
const CHECK: usize = 256;

/// A running enforcer, from outside. Cheap to clone.
#[derive(Clone)]
pub struct Handle<R> {
    pub(crate) runtime: R,
    pub(crate) partition: PartitionId,
    pub(crate) store: std::sync::Arc<dyn plane_store::Store>,
    pub(crate) inputs: UnboundedSender<Input>,
    pub(crate) troubles: Troubles,
    pub(crate) phase: SharedPhase,
}

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// The enforcer has ended, or does not own its partition now.
    #[error("the enforcer of {0} is not running here; ask the process that owns the partition")]
    NotRunning(PartitionId),
    /// The enforcer has nothing to tell yet.
    #[error(
        "{0} is owned here and not enforced yet: it has no incarnation, or what is remembered is being read; ask again"
    )]
    Starting(PartitionId),
    /// Enforcement stopped itself because an invariant did not hold.
    #[error("enforcement of {partition} {stopped}; look at production, then clear it")]
    Stopped {
        /// Of which partition.
        partition: PartitionId,
        /// Why and when.
        stopped: Box<Stopped>,
    },
    /// The asset is neither intended nor an orphan.
    #[error("{partition} has no enforced asset `{asset}`; modelled-only assets are not enforced")]
    UnknownAsset {
        /// Where it was looked for.
        partition: PartitionId,
        /// What was looked for.
        asset: AssetId,
    },
    /// It did not settle in time.
    #[error("{what} did not settle within {within:?}; `explain` says what it waits for")]
    NotSettled {
        /// What was waited for.
        what: String,
        /// For how long.
        within: Duration,
    },
    /// It is too long to be remembered.
    #[error("{what} has {bytes} bytes, the limit is {limit}; say it in fewer words")]
    TooLong {
        /// What is too long.
        what: &'static str,
        /// How long it is.
        bytes: usize,
        /// How long it may be.
        limit: usize,
    },
    /// The incarnation is too old: nobody used it, and it is being removed.
    #[error("{partition}@{incarnation} is old and being removed; pin one that is kept")]
    Retired {
        /// Of which partition.
        partition: PartitionId,
        /// Which one.
        incarnation: IncarnationNo,
    },
    /// A person's word is about nothing that is there. Nothing of it is remembered.
    #[error("refused: {why}")]
    Refused {
        /// What is the matter, and what would fit.
        why: String,
    },
    /// The store cannot be read.
    #[error("the store cannot be read")]
    Store(#[from] plane_store::Error),
}

/// What to wait for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Settle {
    /// Everything, at this incarnation or a newer one.
    All(IncarnationNo),
    /// One asset, at this incarnation or a newer one.
    Asset(AssetId, IncarnationNo),
}

/// One step of whoever moves pins.
pub(crate) struct Actuation {
    pub(crate) writes: Vec<Write>,
    pub(crate) heads: Vec<(AssetId, Incarnation)>,
    pub(crate) moves: Vec<(AssetId, Pin)>,
}

/// An asset explained down to root causes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Explained {
    /// The asset itself, then whom it waits for, then whom those wait for.
    pub chain: Vec<Explanation>,
    /// The assets of a wait cycle in the chain, if there is one: none of them can move before a person acts.
    pub cycle: Vec<AssetId>,
    /// Waits in the chain that no push of any asset ends at the pins of now.
    pub dead_ends: Vec<DeadEnd>,
    /// The asset's last decisions, oldest first.
    pub decisions: Vec<Decision>,
}

/// A wait that only an edit, a rollout or a person ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadEnd {
    /// The asset that waits.
    pub asset: AssetId,
    /// The check that makes it wait.
    pub check: CheckName,
    /// What it waits for.
    pub reason: String,
    /// What ends the wait.
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

    /// The partition in numbers.
    ///
    /// # Errors
    /// When the enforcer is not running.
    pub async fn status(&self) -> Result<Status, AskError> {
        self.ask(Input::Status).await
    }

    /// What panicked beside the ownership that this process has, and is started again: what [`while_owner`] runs, or
    /// what follows newer incarnations.
    ///
    /// [`while_owner`]: crate::EnforcerBuilder::while_owner
    pub fn troubles(&self) -> Vec<String> {
        self.troubles.all()
    }

    /// How often each branch of the kernel was taken: for simulations and metrics.
    ///
    /// # Errors
    /// When the enforcer is not running.
    pub async fn branches(&self) -> Result<std::collections::BTreeMap<Branch, u64>, AskError> {
        self.ask(Input::Branches).await
    }

    /// Why an asset is, or is not, being pushed; followed to root causes.
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
        let decisions =
            plane_store::record::load::<Decisions>(&*self.store, &self.partition, asset.as_str())
                .await?;
        Ok(Explained {
            cycle: circle(&chain),
            dead_ends: chain.iter().flat_map(dead_ends).collect(),
            chain,
            decisions: decisions
                .map(|stored| stored.value.read().cloned().collect())
                .unwrap_or_default(),
        })
    }

    /// Every enforced asset and orphan.
    ///
    /// # Errors
    /// When the enforcer is not running.
    pub async fn assets(&self) -> Result<Vec<AssetId>, AskError> {
        self.ask(Input::Assets).await
    }

    /// The incarnations that retention must spare: somebody's intent, or what records speak of.
    ///
    /// # Errors
    /// When the enforcer is not running.
    pub async fn cited(&self) -> Result<Vec<IncarnationNo>, AskError> {
        self.ask(Input::Cited).await
    }

    /// Which of these `old` incarnations may be removed: nobody's intent, and no record speaks of them; what used to be
    /// and what used to speak of them is durably over. Pins to them are refused from now on.
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

    /// Waits until production is as intended.
    ///
    /// # Errors
    /// When it is not within `within`, there is no such asset, or the enforcer is not running.
    pub async fn wait_settled(&self, what: Settle, within: Duration) -> Result<(), AskError> {
        let deadline = self.runtime.now().mono + within;
        let asked = self.ask(|reply| Input::WaitSettled(what.clone(), reply));
        match plane_runtime::timeout_at(&self.runtime, deadline, asked).await {
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

    /// What people said that still holds: pauses, approvals, overrides.
    ///
    /// # Errors
    /// When the enforcer is not running.
    pub async fn words(&self) -> Result<Words, AskError> {
        self.ask(Input::Words).await
    }

    /// A person's word; answers once it is durable.
    ///
    /// # Errors
    /// [`AskError::Refused`] when it is about nothing that is there: an asset that is not known, a change that is
    /// another one by now, a scope that is not paused. When it is too long to be remembered, or the enforcer is not
    /// running.
    pub async fn tell(&self, command: Command) -> Result<(), AskError> {
        may_be_remembered(&command)?;
        self.done(|reply| Input::Tell(Box::new(command), reply))
            .await
    }

    /// Moves an asset's pin; answers once it is durable.
    ///
    /// # Errors
    /// When the incarnation is being removed, or the enforcer is not running.
    pub async fn pin(&self, asset: &AssetId, pin: Pin) -> Result<(), AskError> {
        self.done(|reply| Input::Pin(asset.clone(), pin, reply))
            .await
    }

    /// One step of the partition's journal: `writes`, then the groups' new `heads` (policy asset and incarnation), then
    /// the `moves` of pins; applied in the same order. Answers once all of it is durable.
    ///
    /// # Errors
    /// When an incarnation is being removed: then nothing was done. When the enforcer is not running, or does not own
    /// its partition any more: then nobody knows whether it was done.
    pub async fn actuate(
        &self,
        writes: Vec<Write>,
        heads: Vec<(AssetId, Incarnation)>,
        moves: Vec<(AssetId, Pin)>,
    ) -> Result<(), AskError> {
        let step = Actuation {
            writes,
            heads,
            moves,
        };
        self.done(|reply| Input::Actuate(Box::new(step), reply))
            .await
    }

    /// What enforcement goes by, and how assets with pins of their own stand: everything first, then every change in
    /// order. Ends with the ownership; at once if the partition is not owned.
    pub fn feed(&self) -> impl Stream<Item = FeedItem> + Send + use<R> {
        let (follower, items) = mpsc::unbounded();
        // An enforcer that has ended drops it: the stream ends.
        let _ = self.inputs.unbounded_send(Input::Feed(follower));
        items
    }

    /// Hands a newer incarnation over, without waiting for the store's hint.
    pub fn publish(&self, incarnation: Incarnation) {
        // An enforcer that does not run reads the newest incarnation when it starts.
        let _ = self
            .inputs
            .unbounded_send(Input::Kernel(crate::kernel::Event::Publish(incarnation)));
    }
}

/// Who and why are kept in one record, the name of a check in its key.
fn may_be_remembered(command: &Command) -> Result<(), AskError> {
    let by = command.by();
    let check = match command {
        Command::Override { check, .. } => check.as_str(),
        _ => "",
    };
    fits(by)?;
    fits_into("the name of the check", check, CHECK)
}

/// Whether who and why may be remembered.
pub(super) fn fits(by: &By) -> Result<(), AskError> {
    fits_into("who says it", &by.who, REASON)?;
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

/// Whom an asset waits for by name.
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

/// Whom an asset waits for that nobody can stand in for: of several holders of a claim, any one may give it back.
fn needs(found: &Explanation) -> Vec<AssetId> {
    match &found.waiting {
        Some(Waiting::Others { by, .. }) if by.len() > 1 => Vec::new(),
        _ => waits_for(found),
    }
}

/// Assets of `chain` that wait for each other, each for the next and the last for the first. Empty if there are none.
fn circle(chain: &[Explanation]) -> Vec<AssetId> {
    let through = |start: &Explanation| way_back(chain, &start.asset);
    chain.iter().find_map(through).unwrap_or_default()
}

/// The shortest way from `start` through those it waits for to one that waits for `start`.
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
            trigger: plane_store::records::Trigger::Asked,
            change: None,
            waiting: Some(waiting),
            next_look: None,
            failures: 0,
            words: Words::default(),
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
    fn a_dead_end_is_told_with_its_way_out() {
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
    fn who_holds_a_claim_is_followed_and_may_close_a_circle() {
        let parked = link("a", behind(&["b"]));
        assert_eq!(waits_for(&parked), [id("b")]);
        assert_eq!(
            circle(&[parked, link("b", until_settled("a"))]),
            [id("a"), id("b")]
        );
    }

    #[test]
    fn one_of_several_holders_closes_no_circle() {
        let parked = link("a", behind(&["b", "c"]));
        assert_eq!(waits_for(&parked), [id("b"), id("c")]);
        let waits = link("b", until_settled("a"));
        assert!(circle(&[parked, waits]).is_empty());
    }
}
