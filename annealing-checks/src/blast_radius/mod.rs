//! Blast radius: a limit on the assets of a scope that are on their way at once, whichever rollout moves them.

mod check;
mod layer;

pub use check::{BlastRadius, Most};
pub use layer::BlastRadiusLayer;
