//! Makes the kernels' steps durable, one after the other, and then answers the callers that wait for them.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::Arc,
};

use control_plane_runtime::Runtime;
use control_plane_store::{Store, Write, incarnations::Incarnations, record::Rewrites};
use futures::{StreamExt, channel::mpsc::UnboundedReceiver};
use plugin_sdk::{Actuation, Actuator, BoxError, Pin};
use prodspec_model::{AssetId, Incarnation, IncarnationNo, PartitionId};

use super::{Strategist, handle::Reply, recover::kept};
use crate::{
    bug::{Bug, planted},
    change::{RollOutRecord, RollOutTarget},
    kernel::{Record, Step},
    line::{self, StoppedLine},
    record::{Quarantined, Rollout, TargetRecord, name},
};

/// Number of records that one commit deletes.
const FORGOTTEN_AT_ONCE: usize = 1000;

/// An item of work; items are processed in order.
pub(super) enum Work {
    /// Make a step of the group of this policy durable.
    Step(AssetId, Step),
    /// Make the step by which a change is handed over to other values durable, with these records of it and its targets.
    HandOver(AssetId, Step, HandedOver),
    /// These targets are not the change's any more, or it has ended: delete their records.
    Forget(AssetId, Vec<AssetId>),
    /// Write the record of the change with this key.
    Change(AssetId, Box<RollOutRecord>),
    /// The line was stopped, or goes on.
    Line(Option<StoppedLine>),
    /// Everything before this item is durable: answer a caller.
    Tell(Box<dyn FnOnce() + Send>),
}

/// The records of a change with other values.
pub(super) struct HandedOver {
    pub(super) record: Box<RollOutRecord>,
    pub(super) targets: Vec<(AssetId, RollOutTarget)>,
}

impl Work {
    /// Creates the item that does something, once everything before it is durable.
    pub(super) fn then(tell: impl FnOnce() + Send + 'static) -> Self {
        Self::Tell(Box::new(tell))
    }

    /// Creates the item that answers a caller. If the caller has gone, the answer is dropped.
    pub(super) fn tell<T: Send + 'static>(reply: Reply<T>, answer: T) -> Self {
        Self::then(|| drop(reply.send(answer)))
    }
}

/// The incarnations that pins name, as far as they were read. `None`: retention has removed it.
#[derive(Default)]
pub(super) struct AtHand(BTreeMap<IncarnationNo, Option<Incarnation>>);

impl AtHand {
    /// Adds an incarnation that need not be read.
    pub(super) fn add(&mut self, incarnation: Incarnation) {
        self.0.insert(incarnation.no(), Some(incarnation));
    }

    /// Loads the incarnations of these moves. A move to an incarnation that was removed is left out.
    pub(super) async fn load(
        &mut self,
        incarnations: &Incarnations<dyn Store>,
        moves: Vec<(AssetId, Pin)>,
    ) -> Result<Vec<(AssetId, Pin<Incarnation>)>, BoxError> {
        let mut loaded = Vec::with_capacity(moves.len());
        for (asset, pin) in moves {
            let pin = match pin {
                Pin::NotYet => Pin::NotYet,
                Pin::Default => Pin::Default,
                Pin::At(no, cause) => {
                    if let Entry::Vacant(unread) = self.0.entry(no) {
                        unread.insert(kept(incarnations, no).await?);
                    }
                    let Some(Some(incarnation)) = self.0.get(&no) else {
                        // Keep the pin: a removed incarnation is never replaced by another one.
                        tracing::error!(%asset, %no, "failed to move a pin because its target incarnation was removed; edit the asset to move it forward");
                        continue;
                    };
                    Pin::At(incarnation.clone(), cause)
                }
            };
            loaded.push((asset, pin));
        }
        Ok(loaded)
    }
}

/// The task that processes the work.
pub(super) struct Steps {
    partition: PartitionId,
    incarnations: Arc<Incarnations<dyn Store>>,
    actuator: Arc<dyn Actuator<Write = Write>>,
    work: UnboundedReceiver<Work>,
    rewrites: Rewrites,
}

impl Steps {
    pub(super) fn new<R: Runtime>(
        strategist: &Strategist<R>,
        actuator: Arc<dyn Actuator<Write = Write>>,
        work: UnboundedReceiver<Work>,
        rewrites: Rewrites,
    ) -> Self {
        Self {
            partition: strategist.partition.clone(),
            incarnations: strategist.incarnations.clone(),
            actuator,
            work,
            rewrites,
        }
    }

    /// Processes work until the ownership ends.
    pub(super) async fn run(mut self) {
        while let Some(work) = self.work.next().await {
            match work {
                Work::Step(policy, step) => {
                    if let Err(error) = self.step(&policy, step, Vec::new()).await {
                        tracing::warn!(partition = %self.partition, %policy, error = &*error as &dyn std::error::Error, "failed to make a step of a rollout durable; the next owner of the partition continues the rollout");
                        return;
                    }
                }
                Work::HandOver(key, step, records) => {
                    if let Err(error) = self.hand_over(&key, step, &records).await {
                        tracing::warn!(partition = %self.partition, change = %key, error = &*error as &dyn std::error::Error, "failed to hand over a change; the next owner of the partition continues it with the values before, unless the commit was made");
                        return;
                    }
                }
                Work::Forget(key, targets) => {
                    if let Err(error) = self.forget(&key, &targets).await {
                        tracing::warn!(partition = %self.partition, change = %key, error = &*error as &dyn std::error::Error, "failed to delete the records of a change that has ended; the next owner of the partition deletes them");
                        return;
                    }
                }
                Work::Change(key, record) => {
                    if let Err(error) = self.write_change(&key, &record).await {
                        tracing::warn!(partition = %self.partition, change = %key, error = &*error as &dyn std::error::Error, "failed to write the record of a change; the next owner of the partition continues it");
                        return;
                    }
                }
                Work::Line(line) => {
                    if let Err(error) = self.write_line(line.as_ref()).await {
                        tracing::warn!(partition = %self.partition, error = &*error as &dyn std::error::Error, "failed to stop the line or to let it go on; give the command again");
                        return;
                    }
                }
                Work::Tell(tell) => tell(),
            }
        }
    }

    async fn forget(&self, key: &AssetId, targets: &[AssetId]) -> Result<(), BoxError> {
        for some in targets.chunks(FORGOTTEN_AT_ONCE) {
            let partition = &self.partition;
            let mut step = Actuation::default();
            for name in some.iter().map(|asset| name(key, asset)) {
                let target = self.rewrites.delete::<RollOutTarget>(partition, &name);
                let failed = self.rewrites.delete::<Quarantined>(partition, &name);
                step.writes.extend([target, failed]);
            }
            self.actuator.actuate(step).await?;
        }
        Ok(())
    }

    async fn write_change(&self, key: &AssetId, record: &RollOutRecord) -> Result<(), BoxError> {
        let written = self.rewrites.put(&self.partition, key.as_str(), record)?;
        let mut step = Actuation::default();
        step.writes.push(written);
        self.actuator.actuate(step).await
    }

    async fn write_line(&self, line: Option<&StoppedLine>) -> Result<(), BoxError> {
        let partition = &self.partition;
        let mut step = Actuation::default();
        step.writes.push(match line {
            Some(line) => self.rewrites.put(partition, line::NAME, line)?,
            None => self.rewrites.delete::<StoppedLine>(partition, line::NAME),
        });
        self.actuator.actuate(step).await
    }

    /// Writes the new values of a change in one commit with the rollout that takes over.
    async fn hand_over(
        &self,
        key: &AssetId,
        step: Step,
        HandedOver { record, targets }: &HandedOver,
    ) -> Result<(), BoxError> {
        let partition = &self.partition;
        let mut writes = vec![self.rewrites.put(partition, key.as_str(), &**record)?];
        let recorded = targets.iter().filter(|_| !planted(Bug::HandOverUnrecorded));
        for (asset, target) in recorded {
            writes.push(self.rewrites.put(partition, &name(key, asset), target)?);
        }
        self.step(key, step, writes).await
    }

    async fn step(&self, policy: &AssetId, step: Step, writes: Vec<Write>) -> Result<(), BoxError> {
        let mut actuation = Actuation {
            writes,
            ..Actuation::default()
        };
        for record in step.records {
            actuation.writes.push(self.write(policy, record)?);
        }
        actuation.heads = step
            .head
            .map(|head| (policy.clone(), head))
            .into_iter()
            .collect();
        // Fail the whole step if the store fails; the next owner retries it.
        actuation.moves = AtHand::default()
            .load(&self.incarnations, step.moves)
            .await?;
        self.actuator.actuate(actuation).await
    }

    fn write(&self, policy: &AssetId, record: Record) -> Result<Write, control_plane_store::Error> {
        let partition = &self.partition;
        match record {
            Record::Rollout(rollout) => {
                self.rewrites
                    .put(partition, &Rollout::name(policy, rollout.id), &*rollout)
            }
            Record::Forget(id) => Ok(self
                .rewrites
                .delete::<Rollout>(partition, &Rollout::name(policy, id))),
            Record::Target(asset, Some(row)) => {
                self.rewrites.put(partition, &name(policy, &asset), &row)
            }
            Record::Target(asset, None) => Ok(self
                .rewrites
                .delete::<TargetRecord>(partition, &name(policy, &asset))),
            Record::Quarantine(asset, Some(row)) => {
                self.rewrites.put(partition, &name(policy, &asset), &row)
            }
            Record::Quarantine(asset, None) => Ok(self
                .rewrites
                .delete::<Quarantined>(partition, &name(policy, &asset))),
        }
    }
}
