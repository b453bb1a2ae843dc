//! Changes: rollouts that edit fields of sources (R101). The kernel of rollouts is the same; it moves pins between two
//! incarnations that exist only here: one with the targets as they were when the change began, and one with all its fields
//! set. `intent` makes these two, `fields` turns moved pins into edits and their outcomes into `standings`, and
//! `record` has the stored data.

mod fields;
mod form;
mod intent;
mod record;
mod standings;
mod targets;
#[cfg(test)]
mod tests;
mod unit;

pub use record::{
    HandOver, Known, LiveChange, Planned, PlannedTarget, key_of, name_of, requested_key,
};

pub(crate) use fields::{Call, Fields, Out};
pub(crate) use intent::Intent;
pub use record::is_key;
pub(crate) use record::{BESIDE, RollOutRecord, RollOutTarget, Stored};
