//! Commands of processes that do not own the partition, as rows of the store.
//!
//! The caller writes a row, the owner *takes* it, which is a commit of its own, and its kernel handles it: the row goes in
//! the commit with the effect and the answer. A row that no owner has taken can be withdrawn; both commits expect its version,
//! so only one of them succeeds. So a caller that gives up knows that nothing was changed, or that an owner is at it.

mod caller;
mod owner;

use control_plane_store::{Key, Record, Topic, record};
use prodspec_model::PartitionId;

pub use self::caller::Inbox;
pub(super) use self::owner::read;
use crate::record::{AnswerRecord, InboxId, InboxRecord};

/// The key of a command.
fn command_key(partition: &PartitionId, id: &InboxId) -> Key {
    record::key(partition, InboxRecord::KIND, &id.0)
}

/// The topic announced when a command is written.
fn commands(partition: &PartitionId) -> Topic {
    format!("{}/{partition}", InboxRecord::KIND).into()
}

/// The topic announced when commands are answered.
pub(super) fn answers(partition: &PartitionId) -> Topic {
    format!("{}/{partition}", AnswerRecord::KIND).into()
}
