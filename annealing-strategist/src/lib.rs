//! Progressive rollouts: select, update, validate; and back again when what was updated is not well.

pub mod health;
pub mod policy;
pub mod preview;
