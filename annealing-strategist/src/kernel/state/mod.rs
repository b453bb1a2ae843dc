//! The data of the kernel. Each type owns one piece of it, with its invariants; transitions are outside, in `kernel`.

mod back;
pub(super) mod closure;
mod control;
pub(super) mod group;
mod idle;
pub(super) mod judging;
pub(super) mod live;
mod moving;
pub(super) mod neighbours;
pub(super) mod past;
pub(super) mod pending;
pub(super) mod pins;
pub(super) mod quarantine;
pub(super) mod selecting;
mod tally;
pub(super) mod targets;
#[cfg(test)]
mod tests;
pub(super) mod verdict;
pub(super) mod watch;
