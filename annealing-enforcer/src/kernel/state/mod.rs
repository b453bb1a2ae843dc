//! The data of the kernel. Each type owns one piece of it, with its invariants; transitions are outside, in `kernel`.

pub(super) mod amounts;
pub(super) mod attempt;
pub(super) mod breaker;
pub(super) mod claims;
pub(super) mod edges;
pub(super) mod people;
pub(super) mod pin_entry;
pub(super) mod rates;
pub(super) mod registered;
pub(super) mod schedule;
pub(super) mod slot;
pub(super) mod table;
