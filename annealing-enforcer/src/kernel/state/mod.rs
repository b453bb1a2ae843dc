//! The data of the kernel. Each type owns one piece of it, with its invariants; transitions are outside, in `kernel`.

pub(super) mod ahead;
pub(super) mod attempt;
pub(super) mod breaker;
pub(super) mod census;
pub(super) mod contested;
pub(super) mod edges;
pub(super) mod fences;
pub(super) mod followed;
mod heads;
pub(super) mod holds;
mod index;
pub(super) mod last_settled;
pub(super) mod ledger;
pub(super) mod numbers;
pub(super) mod observations;
pub(super) mod ownership;
pub(super) mod people;
pub(super) mod pin_entry;
pub(super) mod pins;
pub(super) mod registered;
pub(super) mod schedule;
pub(super) mod settle_waits;
pub(super) mod slot;
pub(super) mod table;
