//! What Shakespeare is, as intent: the manifest that people write, the assets it stands for, and how one becomes the
//! other.
//!
//! ```text
//!  global ──capacity──> balancer/eu ──capacity──> job/eu ──version──> database
//!         ──capacity──> balancer/us ──capacity──> job/us ──version──>
//! ```
//!
//! Every edge is generated, none is written by hand. Capacity is requests in flight. Each provider has a unit of its
//! own, such as `requests/job/eu`, so that a consumer of several says how much it takes of each. The `version` that jobs
//! and the database report is a *schema* version: what the job's tasks need, and what the database has. So the schema
//! rises before the tasks that need it, and falls after them.
//!
//! **What goes slowly.** One policy, the asset `rollout`, governs jobs and balancers, the global one too: a rollout that
//! goes back takes a cluster's capacity back on all three levels, or on none. The database is not governed: its schema
//! serves older tasks as well and goes first by its edge; to migrate back destroys, and no rollback may wait until
//! somebody approves of that.

mod generate;
mod manifest;
mod payload;
mod rollout;

pub use generate::ShakespeareModel;
pub use manifest::{Cluster, Global, Manifest, Turndown};
pub use payload::{
    DatabaseSchema, FailureDomain, FrontendJob, GlobalBalancer, LoadBalancer, Share, balancer_unit,
    cluster_of, job_unit,
};
pub use rollout::{Canary, Rollout, Wave};

use control_plane::{model::rollout::RolloutPolicy, prelude::AssetType};

/// The partition that all of it is in.
pub const PARTITION: &str = "shakespeare";
/// What the source of truth is called.
pub const SOURCE: &str = "manifest.yaml";
/// The longest manifest, in bytes.
pub const MANIFEST_LIMIT: u64 = 1 << 20;
/// The policy asset that jobs and balancers are rolled out by.
pub const POLICY: &str = "rollout";
/// The cell of the global balancer: no cluster may be called so.
pub const GLOBAL_CELL: &str = "global";

/// A job as a type: what capacity it means to have, and what makes it valid.
pub fn job_type() -> AssetType<FrontendJob> {
    AssetType::new()
        .capacity(FrontendJob::capacity)
        .valid(FrontendJob::check)
}

/// A cluster's balancer as a type.
pub fn balancer_type() -> AssetType<LoadBalancer> {
    AssetType::new()
        .capacity(LoadBalancer::capacity)
        .valid(LoadBalancer::check)
}

/// The global balancer as a type.
pub fn global_type() -> AssetType<GlobalBalancer> {
    AssetType::new()
        .capacity(GlobalBalancer::capacity)
        .valid(GlobalBalancer::check)
}

/// The database's schema as a type.
pub fn schema_type() -> AssetType<DatabaseSchema> {
    AssetType::new().valid(DatabaseSchema::check)
}

/// A cluster as a type: nobody pushes it.
pub fn domain_type() -> AssetType<FailureDomain> {
    AssetType::new().modelled_only().valid(FailureDomain::check)
}

/// The rollout policy as a type. Whether its stages can stall is for the control plane to play through.
pub fn policy_type() -> AssetType<RolloutPolicy> {
    AssetType::new().modelled_only().valid(rollout::check)
}

#[cfg(test)]
mod tests;
