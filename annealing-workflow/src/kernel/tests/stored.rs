//! What is durable in the world of these tests.

use std::collections::BTreeMap;

use plugin_sdk::{operation::ExecutionId, workflow::MachineName};
use prodspec_model::{AssetId, Incarnation};
use serde_json::Value;

use super::*;
use crate::cron::ScheduleRecord;
use crate::record::{
    Answered, Changed, Ended, InboxId, KeyRecord, LaneRecord, Live, LogRecord, Output, RateRecord,
    Said, StepRecord, Subject, What,
};
use crate::watch::{WatchRecord, WatchedRecord};

/// What is durable.
#[derive(Debug, Clone, Default)]
pub(super) struct Stored {
    pub(super) lane: LaneRecord,
    pub(super) definitions: BTreeMap<Digest, Workflow>,
    pub(super) live: BTreeMap<ExecutionId, Live>,
    pub(super) inputs: BTreeMap<ExecutionId, Value>,
    pub(super) steps: BTreeMap<(ExecutionId, MachineName), StepRecord>,
    pub(super) outputs: BTreeMap<(ExecutionId, MachineName), Output>,
    pub(super) logs: BTreeMap<(ExecutionId, u32), LogRecord>,
    pub(super) keys: BTreeMap<String, KeyRecord>,
    pub(super) ended: BTreeMap<ExecutionId, Ended>,
    pub(super) schedules: BTreeMap<AssetId, ScheduleRecord>,
    pub(super) watches: BTreeMap<AssetId, WatchRecord>,
    pub(super) watched: BTreeMap<(AssetId, AssetId), WatchedRecord>,
    pub(super) changed: BTreeMap<ExecutionId, Changed>,
    pub(super) drained: BTreeMap<WorkflowName, Said>,
    /// The owners that have lost the partition and lived on.
    pub(super) survived: BTreeSet<KeyIdentity>,
    pub(super) rates: BTreeMap<Key, RateRecord>,
    /// The feed's entries about schedules and watches.
    pub(super) told: Vec<(AssetId, What)>,
    /// Commands of other processes.
    pub(super) inbox: BTreeMap<InboxId, Command>,
    pub(super) answers: BTreeMap<InboxId, Answered>,
}

impl Stored {
    pub(super) fn apply(&mut self, record: Record) {
        match record {
            Record::Lane(lane) => self.lane = lane,
            Record::Definition(workflow) => {
                drop(self.definitions.insert(workflow.digest(), workflow))
            }
            Record::Live(id, live) => drop(self.live.insert(id, *live)),
            Record::Input(id, input) => drop(self.inputs.insert(id, input)),
            Record::Step(id, machine, step) => drop(self.steps.insert((id, machine), *step)),
            Record::Output(id, machine, Some(output)) => {
                drop(self.outputs.insert((id, machine), *output))
            }
            Record::Output(id, machine, None) => drop(self.outputs.remove(&(id, machine))),
            Record::Log(id, n, log) => drop(self.logs.insert((id, n), log)),
            Record::ForgetLog(id, n) => drop(self.logs.remove(&(id, n))),
            Record::Key(key) => drop(
                self.keys
                    .insert(KeyRecord::name(&key.workflow, &key.key), *key),
            ),
            Record::Reopened(id) => drop(self.ended.remove(&id)),
            Record::Ended(ended) => {
                self.live.remove(&ended.id);
                self.ended.insert(ended.id.clone(), *ended);
            }
            Record::Schedule(asset, Some(schedule)) => {
                drop(self.schedules.insert(asset, *schedule))
            }
            Record::Schedule(asset, None) => drop(self.schedules.remove(&asset)),
            Record::Watch(asset, Some(watch)) => drop(self.watches.insert(asset, *watch)),
            Record::Watch(asset, None) => drop(self.watches.remove(&asset)),
            Record::Watched(watch, asset, Some(watched)) => {
                drop(self.watched.insert((watch, asset), *watched))
            }
            Record::Watched(watch, asset, None) => drop(self.watched.remove(&(watch, asset))),
            Record::Answered(id, answer) => {
                self.inbox.remove(&id);
                self.answers.insert(id, answer.answer);
            }
            Record::Changed(id, changed) => drop(self.changed.insert(id, changed)),
            Record::Rate(key, Some(rate)) => drop(self.rates.insert(key, *rate)),
            Record::Rate(key, None) => drop(self.rates.remove(&key)),
            Record::Drained(workflow, Some(drain)) => drop(self.drained.insert(workflow, drain.0)),
            Record::Drained(workflow, None) => drop(self.drained.remove(&workflow)),
            Record::Told(Subject::Asset(asset), entry) => self.told.push((asset, entry.what)),
            Record::Told(..) => {}
        }
    }

    pub(super) fn execution(&self, id: &ExecutionId, live: &Live) -> RecoveredExecution {
        let key = live.key.as_ref();
        let key = key.map(|key| KeyRecord::name(&id.workflow, key));
        let known = key.and_then(|name| self.keys.get(&name));
        let logs = self.logs.iter().filter(|((of, _), _)| of == id);
        RecoveredExecution {
            id: id.clone(),
            workflow: self.definitions[&live.origin.definition].clone(),
            live: live.clone(),
            input: self.inputs.get(id).cloned().unwrap_or_default(),
            runs: known.map(|it| it.runs.clone()).unwrap_or_default(),
            changed: self.changed.get(id).cloned(),
            steps: of(&self.steps, id),
            outputs: of(&self.outputs, id),
            log: logs.map(|((_, n), log)| (*n, log.0.len() as u32)).collect(),
        }
    }

    pub(super) fn recovered(&self, sealed: &[Incarnation]) -> Recovered {
        let live = self.live.iter().map(|(id, live)| self.execution(id, live));
        let mut live: Vec<_> = live.collect();
        live.sort_by_key(|execution| execution.id.n);
        Recovered {
            aside: Vec::new(),
            next: self.lane.next,
            live,
            schedules: self.schedules.clone().into_iter().collect(),
            watches: self.recovered_watches(sealed),
            drained: self.drained.clone(),
            survived: self.survived.clone(),
            rates: self.rates.values().cloned().collect(),
            definitions: self.definitions.keys().copied().collect(),
        }
    }
}

impl Stored {
    fn recovered_watches(&self, sealed: &[Incarnation]) -> Vec<RecoveredWatch> {
        let watches = self.watches.iter().map(|(asset, record)| {
            let assets = self.watched.iter().filter(|((watch, _), _)| watch == asset);
            let assets = assets.map(|((_, of), watched)| (of.clone(), watched.clone()));
            let handled = record.progress.handled;
            RecoveredWatch {
                asset: asset.clone(),
                record: record.clone(),
                assets: assets.collect(),
                handled: sealed.iter().find(|it| it.no() == handled).cloned(),
            }
        });
        watches.collect()
    }
}

fn of<T: Clone>(
    all: &BTreeMap<(ExecutionId, MachineName), T>,
    id: &ExecutionId,
) -> BTreeMap<MachineName, T> {
    let ours = all.iter().filter(|((of, _), _)| of == id);
    ours.map(|((_, machine), value)| (machine.clone(), value.clone()))
        .collect()
}
