//! Turns the kernel's records into writes of the store.

use control_plane_store::{Error, Key, Write, record};
use prodspec_model::{Digest, PartitionId};

use crate::{
    definition::Workflow,
    kernel::Record,
    record::{Ended, Input, KeyRecord, Live, LogRecord, Output, StepRecord},
};

/// First segment of the keys of definitions.
pub(super) const DEFINITION: &str = "workflow-definition";

/// The key of a definition.
pub(super) fn definition_key(partition: &PartitionId, digest: Digest) -> Key {
    record::key(partition, DEFINITION, &digest.to_string())
}

/// The writes of one record of the kernel.
///
/// # Errors
/// When JSON cannot hold a value.
pub(super) fn writes(partition: &PartitionId, made: Record) -> Result<Vec<Write>, Error> {
    let one = match made {
        Record::Lane(lane) => record::put(partition, "", &lane)?,
        Record::Definition(workflow) => definition(partition, &workflow),
        Record::Live(id, live) => record::put(partition, &id.to_string(), &*live)?,
        Record::Input(id, input) => record::put(partition, &id.to_string(), &Input(input))?,
        Record::Step(id, machine, step) => {
            record::put(partition, &StepRecord::name(&id, &machine), &*step)?
        }
        Record::Output(id, machine, output) => {
            let name = StepRecord::name(&id, &machine);
            match output {
                Some(output) => record::put(partition, &name, &*output)?,
                None => record::delete::<Output>(partition, &name),
            }
        }
        Record::Log(id, first, log) => record::put(partition, &LogRecord::name(&id, first), &log)?,
        Record::ForgetLog(id, first) => {
            record::delete::<LogRecord>(partition, &LogRecord::name(&id, first))
        }
        Record::Key(key) => {
            record::put(partition, &KeyRecord::name(&key.workflow, &key.key), &*key)?
        }
        Record::Ended(ended) => {
            let name = ended.id.to_string();
            let gone = record::delete::<Live>(partition, &name);
            return Ok(vec![gone, record::put::<Ended>(partition, &name, &ended)?]);
        }
    };
    Ok(vec![one])
}

fn definition(partition: &PartitionId, workflow: &Workflow) -> Write {
    Write::Put(
        definition_key(partition, workflow.digest()),
        workflow.json().to_vec().into(),
    )
}
