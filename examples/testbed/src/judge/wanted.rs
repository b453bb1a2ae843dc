//! What a demo wants of production, as plain data: the judge compares production with it and knows no manifest.

use std::collections::BTreeMap;

use crate::production::api::JobSpec;

/// The intent of a demo: a manifest that its steps edit.
pub trait Intent: 'static {
    /// Returns the text of the manifest, as the control plane reads it.
    fn text(&self) -> String;

    /// Returns the state of production that the manifest asks for.
    fn wanted(&self) -> Wanted;
}

/// The wanted state of production, and how slowly it may change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Version that the tasks run, unless their cluster names another one.
    pub version: String,
    /// Version of the database schema.
    pub schema: u32,
    /// Maximum number of requests in flight through the global balancer.
    pub global_capacity: u32,
    /// All clusters by name, also those that are being turned down.
    pub clusters: BTreeMap<String, WantedCluster>,
    /// How slowly jobs are updated.
    pub pace: Pace,
}

/// The wanted state of one cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedCluster {
    /// Specification of the cluster's job.
    pub job: JobSpec,
    /// Maximum number of requests in flight through the cluster's balancer.
    pub balancer_capacity: u32,
    /// True if the cluster is being turned down.
    pub leaves: bool,
}

/// How slowly jobs are updated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pace {
    /// Order of the clusters. Clusters that are not listed follow, sorted by name.
    pub order: Vec<String>,
    /// Bake of the first cluster, in seconds.
    pub canary_bake: u64,
    /// Bake of every cluster, in seconds.
    pub bake: u64,
}
