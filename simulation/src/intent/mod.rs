//! The intent: assets with edges, in policy groups, as chosen at the beginning.

mod asset;
mod group;
mod plan;

pub use asset::{Bad, Kind, Payload, asset, id, number, partition, unit};
pub use group::{CLUSTERS, Group, draw_policy, policy_id, policy_number};
pub use plan::{Plan, Wish};
