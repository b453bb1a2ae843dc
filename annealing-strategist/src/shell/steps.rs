//! Makes the kernels' steps durable, one after the other, and answers whoever waits for that.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::Arc,
};

use futures::{StreamExt, channel::mpsc::UnboundedReceiver};
use plane_runtime::Runtime;
use plane_store::{Store, Write, incarnations::Incarnations, record};
use plugin_sdk::BoxError;
use prodspec_model::{AssetId, PartitionId};

use super::{Strategist, handle::Reply, recover::kept};
use crate::{
    actuator::{Actuation, Actuator, PinTo},
    kernel::{Goes, Record, Step},
    record::{Quarantined, Rollout, TargetRecord, name},
};

/// What is to be done in turn.
pub(super) enum Work {
    /// Of the group of this policy.
    Step(AssetId, Step),
    /// Everything before it is durable: somebody is told.
    Tell(Box<dyn FnOnce() + Send>),
}

impl Work {
    /// Answers whoever asked, who may have gone: then nobody is told.
    pub(super) fn tell<T: Send + 'static>(reply: Reply<T>, answer: T) -> Self {
        Self::Tell(Box::new(|| drop(reply.send(answer))))
    }
}

/// Does it.
pub(super) struct Steps {
    partition: PartitionId,
    incarnations: Arc<Incarnations<dyn Store>>,
    actuator: Arc<dyn Actuator>,
    work: UnboundedReceiver<Work>,
}

impl Steps {
    pub(super) fn new<R: Runtime>(
        strategist: &Strategist<R>,
        actuator: Arc<dyn Actuator>,
        work: UnboundedReceiver<Work>,
    ) -> Self {
        Self {
            partition: strategist.partition.clone(),
            incarnations: strategist.incarnations.clone(),
            actuator,
            work,
        }
    }

    /// Until the ownership ends.
    pub(super) async fn run(mut self) {
        while let Some(work) = self.work.next().await {
            match work {
                Work::Step(policy, step) => {
                    if let Err(error) = self.step(&policy, step).await {
                        tracing::warn!(partition = %self.partition, %policy, error = &*error as &dyn std::error::Error, "a step of a rollout was not made; whoever owns the partition next goes on");
                        return;
                    }
                }
                Work::Tell(tell) => tell(),
            }
        }
    }

    async fn step(&self, policy: &AssetId, step: Step) -> Result<(), BoxError> {
        let mut actuation = Actuation::default();
        for record in step.records {
            actuation.writes.push(self.write(policy, record)?);
        }
        actuation.head = step.head.map(|head| (policy.clone(), head));
        let mut at_hand = BTreeMap::new();
        for (asset, goes) in step.moves {
            let to = match goes {
                Goes::NotYet => PinTo::NotYet,
                Goes::Default => PinTo::Default,
                Goes::At(no, cause) => {
                    if let Entry::Vacant(unread) = at_hand.entry(no) {
                        // Half a step would be waited for for ever: whoever starts over makes all of it.
                        unread.insert(kept(&self.incarnations, no).await?);
                    }
                    let Some(Some(incarnation)) = at_hand.get(&no) else {
                        // Fail static: an intent that is gone is not replaced by another one.
                        tracing::error!(%asset, %no, "the pin stays: where it should go is no longer kept");
                        continue;
                    };
                    PinTo::At(incarnation.clone(), cause)
                }
            };
            actuation.moves.push((asset, to));
        }
        self.actuator.actuate(actuation).await
    }

    fn write(&self, policy: &AssetId, record: Record) -> Result<Write, plane_store::Error> {
        let partition = &self.partition;
        match record {
            Record::Rollout(rollout) => {
                record::put(partition, &Rollout::name(policy, rollout.id), &*rollout)
            }
            Record::Forget(id) => Ok(record::delete::<Rollout>(
                partition,
                &Rollout::name(policy, id),
            )),
            Record::Target(asset, Some(row)) => record::put(partition, &name(policy, &asset), &row),
            Record::Target(asset, None) => Ok(record::delete::<TargetRecord>(
                partition,
                &name(policy, &asset),
            )),
            Record::Quarantine(asset, Some(row)) => {
                record::put(partition, &name(policy, &asset), &row)
            }
            Record::Quarantine(asset, None) => Ok(record::delete::<Quarantined>(
                partition,
                &name(policy, &asset),
            )),
        }
    }
}
