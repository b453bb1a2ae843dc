//! The intent of the Shakespeare service: the manifest that people write, the assets, and the generator that makes the
//! assets from the manifest.
//!
//! ```text
//!  global ──capacity──> balancer/eu ──capacity──> job/eu ──version──> database
//!         ──capacity──> balancer/us ──capacity──> job/us ──version──>
//! ```
//!
//! All edges are generated. Capacity is a number of requests in flight. Each provider has its own unit, such as
//! `requests/job/eu`, so that a consumer with several providers states how much it takes of each. The `version` that
//! jobs and the database report is a *schema* version: the one that the job's tasks need, and the one that the database
//! has. The edge makes the schema rise before the tasks that need it, and fall after them.
//!
//! **Rollouts.** One policy, the asset `rollout`, governs the jobs and all balancers, including the global one. A
//! rollback therefore restores a cluster's capacity on all three levels together. The policy does not govern the
//! database: a newer schema also serves older tasks, and its edge makes it move first. Migrating the schema back is
//! destructive and needs an approval, and a rollback must not wait for an approval.

mod generate;
mod manifest;
mod payload;
mod rollout;

pub use generate::ShakespeareModel;
pub use manifest::{Cluster, Global, Manifest, Notices, Performances, Turndown};
pub use payload::{
    DatabaseSchema, FailureDomain, FreshIndex, FrontendJob, GlobalBalancer, LoadBalancer, Peak,
    Share, balancer_unit, cluster_of, job_unit,
};
pub use rollout::{Canary, Rollout, Wave};

use control_plane::{model::rollout::RolloutPolicy, prelude::AssetType};

/// Id of the partition that contains all assets of the service.
pub const PARTITION: &str = "shakespeare";
/// Name of the source of truth, the only one of the generator.
pub const SOURCE: &str = testbed::manifest::NAME;
/// Id of the policy asset that governs jobs and balancers.
pub const POLICY: &str = "rollout";

/// Returns the asset type of jobs, with their intended capacity and their validation.
pub fn job_type() -> AssetType<FrontendJob> {
    AssetType::new()
        .capacity(FrontendJob::capacity)
        .valid(FrontendJob::check)
}

/// Returns the asset type of a cluster's balancer.
pub fn balancer_type() -> AssetType<LoadBalancer> {
    AssetType::new()
        .capacity(LoadBalancer::capacity)
        .valid(LoadBalancer::check)
}

/// Returns the asset type of the global balancer.
pub fn global_type() -> AssetType<GlobalBalancer> {
    AssetType::new()
        .capacity(GlobalBalancer::capacity)
        .valid(GlobalBalancer::check)
}

/// Returns the asset type of the database schema.
pub fn schema_type() -> AssetType<DatabaseSchema> {
    AssetType::new().valid(DatabaseSchema::check)
}

/// Returns the asset type of the index.
pub fn index_type() -> AssetType<FreshIndex> {
    AssetType::new().valid(FreshIndex::check)
}

/// Returns the asset type of failure domains. They are modelled only: no plugin pushes them.
pub fn domain_type() -> AssetType<FailureDomain> {
    AssetType::new().modelled_only().valid(FailureDomain::check)
}

/// Returns the asset type of the rollout policy. The control plane itself checks whether the policy's stages can stall.
pub fn policy_type() -> AssetType<RolloutPolicy> {
    AssetType::new().modelled_only().valid(rollout::check)
}
