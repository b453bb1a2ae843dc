//! Reads the stored executions of a lane. The cost is that of live executions, however many have ended.

use std::collections::BTreeMap;

use control_plane_runtime::Runtime;
use control_plane_store::{Record, record};
use plugin_sdk::{BoxError, operation::ExecutionId, workflow::MachineName};
use prodspec_model::Digest;

use super::{build::Workflows, writes::definition_key};
use crate::{
    definition::Workflow,
    kernel::{Recovered, RecoveredExecution},
    record::{Input, LaneRecord, Live, LogRecord, Output, StepRecord},
};

/// Reads everything that a new owner has to know.
pub(super) async fn recovered<R: Runtime>(workflows: &Workflows<R>) -> Result<Recovered, BoxError> {
    let (store, partition) = (&*workflows.store, &workflows.partition);
    let lane = record::load::<LaneRecord>(store, partition, "").await?;
    let mut definitions = BTreeMap::new();
    let mut live = Vec::new();
    for (name, stored) in record::load_all::<Live>(store, partition).await? {
        let id: ExecutionId = name.parse()?;
        let digest = stored.value.definition;
        let workflow = match definitions.get(&digest) {
            Some(known) => Workflow::clone(known),
            None => {
                let read = definition(workflows, digest).await?;
                definitions.insert(digest, read.clone());
                read
            }
        };
        live.push(execution(workflows, id, workflow, stored.value).await?);
    }
    live.sort_by_key(|execution| execution.id.n);
    Ok(Recovered {
        next: lane.map_or(1, |lane| lane.value.next),
        live,
        definitions: definitions.into_keys().collect(),
    })
}

async fn definition<R: Runtime>(
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

async fn execution<R: Runtime>(
    workflows: &Workflows<R>,
    id: ExecutionId,
    workflow: Workflow,
    live: Live,
) -> Result<RecoveredExecution, BoxError> {
    let (store, partition) = (&*workflows.store, &workflows.partition);
    let input = record::load::<Input>(store, partition, &id.to_string()).await?;
    let logs = record::load_prefix::<LogRecord>(store, partition, &format!("{id} ")).await?;
    let mut log = Vec::new();
    for (name, stored) in logs {
        let first = name.rsplit(' ').next().unwrap_or_default().parse()?;
        log.push((first, stored.value.0.len() as u32));
    }
    Ok(RecoveredExecution {
        steps: of_machines::<R, StepRecord>(workflows, &id).await?,
        outputs: of_machines::<R, Output>(workflows, &id).await?,
        input: input.map(|input| input.value.0).unwrap_or_default(),
        id,
        workflow,
        live,
        log,
    })
}

/// The records of one kind of the machines of an execution.
async fn of_machines<R: Runtime, T: Record>(
    workflows: &Workflows<R>,
    id: &ExecutionId,
) -> Result<BTreeMap<MachineName, T>, BoxError> {
    let prefix = format!("{id} ");
    let all = record::load_prefix::<T>(&*workflows.store, &workflows.partition, &prefix).await?;
    let mut machines = BTreeMap::new();
    for (name, stored) in all {
        let machine = name.strip_prefix(&prefix).unwrap_or(&name);
        machines.insert(MachineName::new(machine)?, stored.value);
    }
    Ok(machines)
}
