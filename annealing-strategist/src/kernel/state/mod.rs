//! The data of the kernel. Each type owns one piece of it, with its invariants; transitions are outside, in `kernel`.

pub(super) mod bake_clock;
pub(super) mod closure;
pub(super) mod group;
mod moving;
pub(super) mod past;
pub(super) mod pending;
pub(super) mod pins;
pub(super) mod quarantine;
pub(super) mod verdict;
