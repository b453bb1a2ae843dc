//! The process that edits intent at random, always consistently, and seals it.

mod edit;
mod group;
mod seal;

pub use seal::seal_for_ever;
