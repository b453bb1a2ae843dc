//! Turns the kernel's records into writes of the store.

use control_plane_store::{
    Error, Key, Write,
    record::{self, Rewrites},
};
use prodspec_model::{Digest, PartitionId};

use crate::{
    definition::Workflow,
    kernel::Record,
    record::{Ended, InboxRecord, Input, KeyRecord, Live, LogRecord, RateRecord, StepRecord},
    watch::WatchedRecord,
};

/// First segment of the keys of definitions.
pub(super) const DEFINITION: &str = "workflow-definition";

/// The key of a definition.
pub(super) fn definition_key(partition: &PartitionId, digest: Digest) -> Key {
    record::key(partition, DEFINITION, &digest.to_string())
}

/// The writes of one record of the kernel, with the fields that a newer program version has put into the stored one.
///
/// # Errors
/// When JSON cannot hold a value.
pub(super) fn writes(
    partition: &PartitionId,
    rewrites: &Rewrites,
    made: Record,
) -> Result<Vec<Write>, Error> {
    let one = match made {
        Record::Lane(lane) => rewrites.put(partition, "", &lane)?,
        Record::Definition(workflow) => definition(partition, &workflow),
        Record::Live(id, live) => rewrites.put(partition, &id.to_string(), &*live)?,
        Record::Input(id, input) => rewrites.put(partition, &id.to_string(), &Input(input))?,
        Record::Step(id, machine, step) => {
            rewrites.put(partition, &StepRecord::name(&id, &machine), &*step)?
        }
        Record::Output(id, machine, output) => {
            let name = StepRecord::name(&id, &machine);
            rewrites.put_or_delete(partition, &name, output.as_deref())?
        }
        Record::Log(id, first, log) => {
            rewrites.put(partition, &LogRecord::name(&id, first), &log)?
        }
        Record::ForgetLog(id, first) => {
            rewrites.delete::<LogRecord>(partition, &LogRecord::name(&id, first))
        }
        Record::Key(key) => {
            rewrites.put(partition, &KeyRecord::name(&key.workflow, &key.key), &*key)?
        }
        Record::Reopened(id) => rewrites.delete::<Ended>(partition, &id.to_string()),
        Record::Ended(ended) => {
            let name = ended.id.to_string();
            let gone = rewrites.delete::<Live>(partition, &name);
            return Ok(vec![gone, rewrites.put::<Ended>(partition, &name, &ended)?]);
        }
        Record::Schedule(asset, schedule) => {
            rewrites.put_or_delete(partition, asset.as_str(), schedule.as_deref())?
        }
        Record::Watch(asset, watch) => {
            rewrites.put_or_delete(partition, asset.as_str(), watch.as_deref())?
        }
        Record::Watched(watch, asset, watched) => {
            let name = WatchedRecord::name(&watch, &asset);
            rewrites.put_or_delete(partition, &name, watched.as_deref())?
        }
        Record::Rate(key, rate) => {
            rewrites.put_or_delete(partition, &RateRecord::name(&key.0), rate.as_deref())?
        }
        Record::Drained(workflow, drain) => {
            rewrites.put_or_delete(partition, workflow.as_str(), drain.as_deref())?
        }
        // It is in the feed only.
        Record::Told(..) => return Ok(Vec::new()),
        Record::Answered(id, answer) => {
            let gone = record::delete::<InboxRecord>(partition, &id.0);
            return Ok(vec![gone, record::put(partition, &id.0, &*answer)?]);
        }
        Record::Changed(id, changed) => rewrites.put(partition, &id.to_string(), &changed)?,
    };
    Ok(vec![one])
}

fn definition(partition: &PartitionId, workflow: &Workflow) -> Write {
    Write::Put(
        definition_key(partition, workflow.digest()),
        workflow.json().to_vec().into(),
    )
}
