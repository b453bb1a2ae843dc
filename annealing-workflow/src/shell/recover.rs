//! Reads the stored executions of a lane. The cost is that of live executions, however many have ended.

use std::collections::{BTreeMap, BTreeSet, btree_map::Entry};

use control_plane_runtime::Runtime;
use control_plane_store::{
    Record, incarnations,
    record::{self, Rewrites, Stored},
};
use plugin_sdk::{
    BoxError,
    operation::{ExecutionId, KeyIdentity},
    workflow::{MachineName, WorkflowName},
};
use prodspec_model::{AssetId, Digest, Incarnation, IncarnationNo, operation::Watch};

use super::{build::Workflows, rows, writes::definition_key};
use crate::{
    cron::ScheduleRecord,
    definition::{LoadError, Workflow},
    kernel::{Aside, Recovered, RecoveredExecution, RecoveredWatch},
    record::{
        Changed, DrainRecord, Ended, Input, KeyRecord, LaneRecord, Live, LogLength, Output,
        RateRecord, StepRecord, SurvivedRecord,
    },
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
    let (live, aside, definitions) = live(workflows, rewrites).await?;
    let mut schedules = Vec::new();
    for (name, stored) in record::load_all::<ScheduleRecord>(store, partition).await? {
        rewrites.note(partition, &name, &stored);
        schedules.push((AssetId::new(&name)?, stored.value));
    }
    let watches = watches(workflows, rewrites).await?;
    let mut drained = BTreeMap::new();
    for (name, stored) in record::load_all::<DrainRecord>(store, partition).await? {
        rewrites.note(partition, &name, &stored);
        drained.insert(name.as_str().into(), stored.value.0);
    }
    let mut survived = BTreeSet::new();
    for (name, _) in record::load_all::<SurvivedRecord>(store, partition).await? {
        survived.extend(name.parse::<KeyIdentity>());
    }
    let mut rates = Vec::new();
    for (name, stored) in record::load_all::<RateRecord>(store, partition).await? {
        rewrites.note(partition, &name, &stored);
        rates.push(stored.value);
    }
    Ok(Recovered {
        next: lane.map_or(1, |lane| lane.value.next),
        live,
        aside,
        schedules,
        watches,
        survived,
        drained,
        rates,
        definitions,
    })
}

/// The live executions by number, those that are set aside, and the digests of the definitions that were read.
async fn live<R: Runtime>(
    workflows: &Workflows<R>,
    rewrites: &Rewrites,
) -> Result<(Vec<RecoveredExecution>, Vec<Aside>, Vec<Digest>), BoxError> {
    let (store, partition) = (&*workflows.store, &workflows.partition);
    let mut definitions = BTreeMap::new();
    let (mut live, mut others) = (Vec::new(), BTreeMap::new());
    for (name, stored) in record::load_all::<Live>(store, partition).await? {
        let definition = match definitions.entry(stored.value.origin.definition) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let read = load_definition(workflows, *new.key()).await?;
                new.insert(read)
            }
        };
        match definition {
            Ok(workflow) => {
                rewrites.note(partition, &name, &stored);
                live.push((name.parse()?, workflow.clone(), stored.value));
            }
            Err(error) => {
                tracing::error!(%partition, execution = name, error = error as &dyn std::error::Error, "the definition of an execution cannot be read, so it stands still with its claims; run the program version that started it");
                others.insert(name, stored.value);
            }
        }
    }
    let mut live = executions(workflows, rewrites, live).await?;
    live.sort_by_key(|execution| execution.id.n);
    let read = definitions.into_iter().filter(|(_, read)| read.is_ok());
    let read = read.map(|(digest, _)| digest).collect();
    Ok((live, aside(workflows, others).await?, read))
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

/// The executions whose definitions cannot be read, with all claims that they hold.
async fn aside<R: Runtime>(
    workflows: &Workflows<R>,
    live: BTreeMap<String, Live>,
) -> Result<Vec<Aside>, BoxError> {
    let (store, partition) = (&*workflows.store, &workflows.partition);
    let ids = live.keys().cloned().collect();
    let claims = |step: Stored<StepRecord>| step.value.claims;
    let mut steps = rows::beneath(store, partition, &ids, claims).await?;
    let with_claims = |(name, live): (String, Live)| {
        let steps = steps.remove(&name).unwrap_or_default().into_iter();
        let of_steps = steps.flat_map(|(_, claims)| claims);
        Ok(Aside {
            id: name.parse()?,
            key: live.key,
            claims: live.claims.into_iter().chain(of_steps).collect(),
        })
    };
    live.into_iter().map(with_claims).collect()
}

/// Reads a stored definition.
pub(super) async fn definition<R: Runtime>(
    workflows: &Workflows<R>,
    digest: Digest,
) -> Result<Workflow, BoxError> {
    Ok(load_definition(workflows, digest).await??)
}

/// The same; the inner error is that of a definition that this program version does not understand.
async fn load_definition<R: Runtime>(
    workflows: &Workflows<R>,
    digest: Digest,
) -> Result<Result<Workflow, LoadError>, BoxError> {
    let key = definition_key(&workflows.partition, digest);
    let row = workflows.store.get(std::slice::from_ref(&key)).await?;
    let row = row.into_iter().next().flatten();
    let row = row
        .ok_or_else(|| format!("the record `{key}` is missing; restore the store from a backup"))?;
    Ok(Workflow::load(&row.value))
}

/// Reads the records of executions, beside their definitions and what is in `Live`.
pub(super) async fn executions<R: Runtime>(
    workflows: &Workflows<R>,
    rewrites: &Rewrites,
    live: Vec<(ExecutionId, Workflow, Live)>,
) -> Result<Vec<RecoveredExecution>, BoxError> {
    let (store, partition) = (&*workflows.store, &workflows.partition);
    let ids: BTreeSet<String> = live.iter().map(|(id, ..)| id.to_string()).collect();
    // Only the numbers of entries are kept: the log of an execution may be long.
    let entries = |stored: Stored<LogLength>| stored.value.0.len() as u32;
    let keys = live.iter().filter_map(|(id, _, live)| key_of(id, live));
    let keys = keys.collect();
    // While rows of one kind are decoded, those of another are read.
    let (mut inputs, mut changed, mut logs, mut steps, mut outputs, mut keys) = futures::try_join!(
        rows::named::<Input>(store, partition, &ids),
        rows::named::<Changed>(store, partition, &ids),
        rows::beneath(store, partition, &ids, entries),
        rows::beneath(store, partition, &ids, |it: Stored<StepRecord>| it),
        rows::beneath(store, partition, &ids, |it: Stored<Output>| it),
        rows::named::<KeyRecord>(store, partition, &keys),
    )?;
    let mut all = Vec::with_capacity(live.len());
    for (id, workflow, live) in live {
        let name = id.to_string();
        let known = key_of(&id, &live).and_then(|key| {
            let known = keys.remove(&key)?;
            rewrites.note(partition, &key, &known);
            Some(known.value)
        });
        let mut log = Vec::new();
        for (first, entries) in logs.remove(&name).unwrap_or_default() {
            log.push((first.parse()?, entries));
        }
        let (steps, outputs) = (steps.remove(&name), outputs.remove(&name));
        all.push(RecoveredExecution {
            steps: of_machines(workflows, rewrites, &name, steps)?,
            outputs: of_machines(workflows, rewrites, &name, outputs)?,
            input: inputs
                .remove(&name)
                .map(|it| it.value.0)
                .unwrap_or_default(),
            runs: known.map(|known| known.runs).unwrap_or_default(),
            changed: changed.remove(&name).map(|it| it.value),
            id,
            workflow,
            live,
            log,
        });
    }
    Ok(all)
}

/// The same for one execution.
async fn execution<R: Runtime>(
    workflows: &Workflows<R>,
    rewrites: &Rewrites,
    id: ExecutionId,
    workflow: Workflow,
    live: Live,
) -> Result<RecoveredExecution, BoxError> {
    let one = vec![(id, workflow, live)];
    let read = executions(workflows, rewrites, one).await?;
    let read = read.into_iter().next();
    Ok(read.ok_or("each execution that is asked for is read")?)
}

/// An execution that has ended, with all its records. `None`: it is live, is not kept any more, or was removed or made live
/// again while it was read, so that some of the records may be missing.
pub(super) async fn ended<R: Runtime>(
    workflows: &Workflows<R>,
    rewrites: &Rewrites,
    id: &ExecutionId,
) -> Result<Option<RecoveredExecution>, BoxError> {
    let (store, name) = (&*workflows.store, id.to_string());
    let load = || record::load::<Ended>(store, &workflows.partition, &name);
    let Some(before) = load().await? else {
        return Ok(None);
    };
    let live = before.value.live;
    let workflow = definition(workflows, live.origin.definition).await?;
    let read = execution(workflows, rewrites, id.clone(), workflow, live).await?;
    let after = load().await?;
    Ok(after
        .filter(|after| after.version == before.version)
        .map(|_| read))
}

/// The name of the record of an execution's key, if it has one.
fn key_of(id: &ExecutionId, live: &Live) -> Option<String> {
    let key = live.key.as_ref()?;
    Some(KeyRecord::name(&id.workflow, key))
}

/// Records of one kind of the machines of the execution `of`.
fn of_machines<R: Runtime, T: Record>(
    workflows: &Workflows<R>,
    rewrites: &Rewrites,
    of: &str,
    all: Option<Vec<(String, Stored<T>)>>,
) -> Result<BTreeMap<MachineName, T>, BoxError> {
    let mut machines = BTreeMap::new();
    for (machine, stored) in all.unwrap_or_default() {
        rewrites.note(&workflows.partition, &format!("{of} {machine}"), &stored);
        machines.insert(MachineName::new(&machine)?, stored.value);
    }
    Ok(machines)
}
