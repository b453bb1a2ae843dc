//! The manifest: what people write. Strict, so that a slip of the pen is an error and not a smaller service.

use std::collections::BTreeMap;

use control_plane::sdk::Located;
use serde::{Deserialize, Serialize};

use super::Rollout;

/// Everything about the service, in one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest<C = Cluster> {
    /// Whom to ask.
    pub owner: String,
    /// Which version the tasks run, where a cluster says nothing else.
    pub version: String,
    /// The database schema: what the database has, and what the tasks need.
    pub schema: u32,
    /// More of the tasks' command line, such as `--warm-up-ms=500`, or `--fail-percent=50` for a version that is no good.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<String>,
    /// How slowly the clusters follow what is written here.
    pub rollout: Rollout,
    /// The balancer in front of all clusters.
    pub global: Global,
    /// The clusters by name.
    pub clusters: BTreeMap<String, C>,
}

/// A manifest whose clusters know where they stand.
pub(super) type Placed = Manifest<Located<Cluster>>;

/// The balancer in front of all clusters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Global {
    /// Requests in flight that it lets through; more wait.
    pub max_capacity: u32,
}

/// One cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    /// How many tasks.
    pub replicas: u32,
    /// Requests in flight that one task serves.
    pub capacity_per_task: u32,
    /// Requests in flight that the cluster's balancer lets through.
    pub balancer_capacity: u32,
    /// Which version its tasks run, if not the same as everywhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The cluster is to be removed from production.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turndown: Option<Turndown>,
}

/// Why a cluster goes, and who agreed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Turndown {
    /// For people and for the audit.
    pub reason: String,
    /// Who agreed that it may go.
    pub approved_by: String,
}

impl Manifest {
    /// What a new state directory gets.
    pub const DEFAULT: &str = include_str!("default.yaml");

    /// The manifest as a file, with its end marked.
    pub fn to_yaml(&self) -> String {
        // JSON is YAML. That it can be written is seen when it is read: the section is required.
        let rollout = serde_json::to_string(&self.rollout).unwrap_or_default();
        let mut text = format!(
            "owner: {:?}\nversion: {:?}\nschema: {}\nflags: {:?}\nrollout: {rollout}\nglobal:\n  max_capacity: {}\nclusters:\n",
            self.owner, self.version, self.schema, self.flags, self.global.max_capacity
        );
        for (name, cluster) in &self.clusters {
            text.push_str(&format!(
                "  {name}:\n    replicas: {}\n    capacity_per_task: {}\n    balancer_capacity: {}\n",
                cluster.replicas, cluster.capacity_per_task, cluster.balancer_capacity
            ));
            if let Some(version) = &cluster.version {
                text.push_str(&format!("    version: {version:?}\n"));
            }
            if let Some(Turndown {
                reason,
                approved_by,
            }) = &cluster.turndown
            {
                text.push_str(&format!(
                    "    turndown:\n      reason: {reason:?}\n      approved_by: {approved_by:?}\n"
                ));
            }
        }
        text + "...\n"
    }
}
