//! Reads the stored executions of a lane. The cost is that of live executions, however many have ended.

use std::collections::BTreeMap;

use control_plane_runtime::Runtime;
use control_plane_store::{
    Record, incarnations,
    record::{self, Rewrites},
};
use plugin_sdk::{
    BoxError,
    operation::ExecutionId,
    workflow::{MachineName, WorkflowName},
};
use prodspec_model::{AssetId, Digest, Incarnation, IncarnationNo, operation::Watch};

use super::{build::Workflows, writes::definition_key};
use crate::{
    cron::ScheduleRecord,
    definition::Workflow,
    kernel::{Recovered, RecoveredExecution, RecoveredWatch},
    record::{Changed, Input, KeyRecord, LaneRecord, Live, LogRecord, Output, StepRecord},
    watch::{WatchRecord, WatchedRecord},
};

/// Reads everything that a new owner has to know. Notes in `rewrites` the fields that this program version does not know.
pub(super) async fn recovered<R: Runtime>(
    workflows: &Workflows<R>,
    rewrites: &Rewrites,
) -> Result<Recovered, BoxError> {
    let (store, partition) = (&*workflows.store, &workflows.partition);
    let lane = record::load::<LaneRecord>(store, partition, "").await?;
    if let Some(lane) = &lane {
        rewrites.note(partition, "", lane);
    }
    let mut definitions = BTreeMap::new();
    let mut live = Vec::new();
    for (name, stored) in record::load_all::<Live>(store, partition).await? {
        rewrites.note(partition, &name, &stored);
        let id: ExecutionId = name.parse()?;
        let known = match &stored.value.key {
            Some(key) => load_key(workflows, rewrites, &id.workflow, key).await?,
            None => None,
        };
        let digest = stored.value.definition;
        let workflow = match definitions.get(&digest) {
            Some(known) => Workflow::clone(known),
            None => {
                let read = definition(workflows, digest).await?;
                definitions.insert(digest, read.clone());
                read
            }
        };
        let mut read = execution(workflows, rewrites, id, workflow, stored.value).await?;
        read.runs = known.map(|known| known.runs).unwrap_or_default();
        live.push(read);
    }
    live.sort_by_key(|execution| execution.id.n);
    let mut schedules = Vec::new();
    for (name, stored) in record::load_all::<ScheduleRecord>(store, partition).await? {
        rewrites.note(partition, &name, &stored);
        schedules.push((AssetId::new(&name)?, stored.value));
    }
    let watches = watches(workflows, rewrites).await?;
    Ok(Recovered {
        next: lane.map_or(1, |lane| lane.value.next),
        live,
        schedules,
        watches,
        definitions: definitions.into_keys().collect(),
    })
}

/// The stored watches, with the incarnations that those on intent have taken last.
async fn watches<R: Runtime>(
    workflows: &Workflows<R>,
    rewrites: &Rewrites,
) -> Result<Vec<RecoveredWatch>, BoxError> {
    let (store, partition) = (&*workflows.store, &workflows.partition);
    let mut loaded: BTreeMap<IncarnationNo, Option<Incarnation>> = BTreeMap::new();
    let mut watches = Vec::new();
    for (name, stored) in record::load_all::<WatchRecord>(store, partition).await? {
        rewrites.note(partition, &name, &stored);
        let asset = AssetId::new(&name)?;
        let prefix = format!("{name} ");
        let mut assets = Vec::new();
        for (name, stored) in
            record::load_prefix::<WatchedRecord>(store, partition, &prefix).await?
        {
            rewrites.note(partition, &name, &stored);
            let of = name.strip_prefix(&prefix).unwrap_or(&name);
            assets.push((AssetId::new(of)?, stored.value));
        }
        let no = stored.value.progress.handled;
        let is_intent = matches!(stored.value.wanted.on, Watch::Intent(_));
        if is_intent && !loaded.contains_key(&no) {
            loaded.insert(no, incarnation(workflows, no).await?);
        }
        let handled = loaded.get(&no).cloned().flatten().filter(|_| is_intent);
        if is_intent && handled.is_none() {
            tracing::error!(%partition, watch = %asset, %no, "the incarnation that a watch has taken last is not stored any more; it counts from the newest one, so look for changes since");
        }
        watches.push(RecoveredWatch {
            asset,
            record: stored.value,
            assets,
            handled,
        });
    }
    Ok(watches)
}

/// A sealed incarnation. `None`: it is not stored any more.
async fn incarnation<R: Runtime>(
    workflows: &Workflows<R>,
    no: IncarnationNo,
) -> Result<Option<Incarnation>, incarnations::Error> {
    match workflows.incarnations.load(no).await {
        Ok(incarnation) => Ok(Some(incarnation)),
        Err(incarnations::Error::Unknown(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// What the store knows of a key.
pub(super) async fn load_key<R: Runtime>(
    workflows: &Workflows<R>,
    rewrites: &Rewrites,
    workflow: &WorkflowName,
    key: &str,
) -> Result<Option<KeyRecord>, control_plane_store::Error> {
    let (store, partition) = (&*workflows.store, &workflows.partition);
    let name = KeyRecord::name(workflow, key);
    let stored = record::load::<KeyRecord>(store, partition, &name).await?;
    Ok(stored.map(|stored| {
        rewrites.note(partition, &name, &stored);
        stored.value
    }))
}

/// Reads a stored definition.
pub(super) async fn definition<R: Runtime>(
    workflows: &Workflows<R>,
    digest: Digest,
) -> Result<Workflow, BoxError> {
    let key = definition_key(&workflows.partition, digest);
    let row = workflows.store.get(std::slice::from_ref(&key)).await?;
    let row = row.into_iter().next().flatten();
    let row = row
        .ok_or_else(|| format!("the record `{key}` is missing; restore the store from a backup"))?;
    Ok(Workflow::load(&row.value)?)
}

/// Reads the records of an execution, beside `live` and its definition.
pub(super) async fn execution<R: Runtime>(
    workflows: &Workflows<R>,
    rewrites: &Rewrites,
    id: ExecutionId,
    workflow: Workflow,
    live: Live,
) -> Result<RecoveredExecution, BoxError> {
    let (store, partition) = (&*workflows.store, &workflows.partition);
    let input = record::load::<Input>(store, partition, &id.to_string()).await?;
    let changed = record::load::<Changed>(store, partition, &id.to_string()).await?;
    let logs = record::load_prefix::<LogRecord>(store, partition, &format!("{id} ")).await?;
    let mut log = Vec::new();
    for (name, stored) in logs {
        let first = name.rsplit(' ').next().unwrap_or_default().parse()?;
        log.push((first, stored.value.0.len() as u32));
    }
    Ok(RecoveredExecution {
        steps: of_machines::<R, StepRecord>(workflows, rewrites, &id).await?,
        outputs: of_machines::<R, Output>(workflows, rewrites, &id).await?,
        input: input.map(|input| input.value.0).unwrap_or_default(),
        runs: Vec::new(),
        changed: changed.map(|changed| changed.value),
        id,
        workflow,
        live,
        log,
    })
}

/// The records of one kind of the machines of an execution.
async fn of_machines<R: Runtime, T: Record>(
    workflows: &Workflows<R>,
    rewrites: &Rewrites,
    id: &ExecutionId,
) -> Result<BTreeMap<MachineName, T>, BoxError> {
    let prefix = format!("{id} ");
    let all = record::load_prefix::<T>(&*workflows.store, &workflows.partition, &prefix).await?;
    let mut machines = BTreeMap::new();
    for (name, stored) in all {
        rewrites.note(&workflows.partition, &name, &stored);
        let machine = name.strip_prefix(&prefix).unwrap_or(&name);
        machines.insert(MachineName::new(machine)?, stored.value);
    }
    Ok(machines)
}
