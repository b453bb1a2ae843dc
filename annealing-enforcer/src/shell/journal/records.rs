//! The write of each record of the kernel: its key and its value in the store.

use control_plane_store::{
    Error, Write,
    record::Rewrites,
    records::{AssetRecord, Orphaned, Taken},
};
use plugin_sdk::Pin;
use prodspec_model::PartitionId;

use crate::kernel::Record;

/// Returns the write of a record, with the fields that `rewrites` keeps for it. `None`: the record belongs to the history
/// of decisions.
///
/// # Errors
/// When the record is too large.
pub(super) fn write(
    partition: &PartitionId,
    rewrites: &Rewrites,
    record: Record,
) -> Result<Option<Write>, Error> {
    let write = match record {
        Record::Asset(asset, state) => {
            rewrites.put_or_delete::<AssetRecord>(partition, asset.as_str(), state.as_ref())
        }
        Record::Orphan(asset, state) => {
            rewrites.put_or_delete::<Orphaned>(partition, asset.as_str(), state.as_ref())
        }
        Record::Pin(asset, pin) => {
            let kept = Some(&pin).filter(|pin| **pin != Pin::Default);
            rewrites.put_or_delete(partition, asset.as_str(), kept)
        }
        Record::Head(policy, head) => rewrites.put(partition, policy.as_str(), &head),
        Record::Taken(incarnation) => rewrites.put(partition, "", &Taken { incarnation }),
        Record::Owned(owned) => rewrites.put(partition, "", &owned),
        Record::Floor(floor) => rewrites.put(partition, "", &floor),
        Record::Pause(word) => rewrites.put(partition, &word.scope.to_string(), &word),
        Record::Approval(word) => rewrites.put(partition, &word.name(), &word),
        Record::Override(word) => rewrites.put(partition, &word.name(), &word),
        Record::Decision(..) | Record::Renamed(..) | Record::Gone(_) => return Ok(None),
    };
    write.map(Some)
}
