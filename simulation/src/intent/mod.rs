//! The intent: assets with edges, edited at random and always consistent, and sealed by one process.

mod asset;
mod edit;
mod group;
mod plan;
mod sealer;

pub use asset::{Bad, Kind, Payload, asset, id, number, partition, unit};
pub use edit::edit;
pub use group::{CLUSTERS, Group, policy_id, policy_number};
pub use plan::{Plan, Wish};
pub use sealer::seal_for_ever;
