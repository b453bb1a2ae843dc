//! Trains: versions that go from stage to stage, several at once (R104).
//!
//! [`record`](self) has the durable state of a train, and `kernel` all decisions: which version enters which stage, and when.
//! Both are pure. Each rollout of a version to a stage is a [change](crate::change) of its own, which the control plane begins.
//! In a train of heads it is the next rollout of the stage's policy group: `heads` says which incarnation that group rolls out.

mod command;
mod heads;
mod kernel;
mod preview;
mod record;
#[cfg(test)]
mod tests;
mod valid;

pub use command::Command;
pub(crate) use heads::Carried;
pub use heads::is_version;
pub use kernel::{Idle, Outcome};
pub use preview::{Arrival, preview};
pub use record::{Facts, Failed, Refused, Run, StageRecord, TrainRecord, Version, VersionNo};
pub use valid::valid;
