//! What people want: assets with edges, edited at random, always consistent in themselves; sealed by one process.

mod asset;
mod edit;
mod plan;
mod sealer;

pub use asset::{Kind, Payload, asset, id, number, partition, unit};
pub use edit::edit;
pub use plan::{Plan, Wish};
pub use sealer::seal_for_ever;
