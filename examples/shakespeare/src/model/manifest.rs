//! The manifest that people write. Unknown fields are errors, so that a typing error cannot remove a part of the
//! service.

use std::collections::BTreeMap;

use control_plane::{model::train::Train, sdk::Located, workflow::Concurrency};
use serde::{Deserialize, Serialize};

use super::{FreshIndex, Rollout};

/// The whole manifest: everything about the service, in one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest<C = Cluster> {
    /// The team that owns the service, for people who have questions.
    pub owner: String,
    /// Version that the tasks run, unless their cluster names another one.
    pub version: String,
    /// Version of the database schema that the database has and the tasks need.
    pub schema: u32,
    /// Additional flags for every task, such as `--warm-up-ms=500`, or `--fail-percent=50` to simulate a bad version.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<String>,
    /// How slowly the clusters follow an edit of the manifest.
    pub rollout: Rollout,
    /// Policies of changes and of the stages of the train, by name. Each is the asset `policy/` and the name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub policies: BTreeMap<String, Rollout>,
    /// Sends versions through stages of clusters. None: versions come by edits of this file, and by changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub train: Option<Train>,
    /// The balancer in front of all clusters.
    pub global: Global,
    /// The index of all texts. None: there is no index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<FreshIndex>,
    /// What is printed and performed at the times of a cron expression, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub schedules: BTreeMap<String, Performances>,
    /// Policies that hold changes back, by id. Each has the last part of the name of its type in the field `type`, such as
    /// `FreezePolicy`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub checks: BTreeMap<String, serde_json::Map<String, serde_json::Value>>,
    /// When people are told that tasks are not as the manifest says. None: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notices: Option<Notices>,
    /// The clusters of the service, by name.
    pub clusters: BTreeMap<String, C>,
}

/// A manifest whose clusters carry their positions in the file.
pub(super) type Placed = Manifest<Located<Cluster>>;

/// The balancer in front of all clusters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Global {
    /// Maximum number of requests in flight. Further requests wait.
    pub max_capacity: u32,
}

/// Performances at the times of a cron expression.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Performances {
    /// The times, as a cron expression of five fields, in UTC.
    pub cron: String,
    /// What happens at a time at which the performance before is not over.
    #[serde(default)]
    pub concurrency: Concurrency,
    /// Length of a performance, in seconds.
    pub secs: u64,
}

/// Notices about clusters whose tasks are not as the manifest says. Each is printed once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Notices {
    /// For how long the tasks must have been out of sync, in seconds.
    pub out_of_sync_secs: u64,
}

/// One cluster of the service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    /// Number of tasks, from 1 to 100.
    pub replicas: u32,
    /// Number of requests that one task serves at the same time, from 1 to 10,000.
    pub capacity_per_task: u32,
    /// Maximum number of requests in flight through the cluster's balancer.
    pub balancer_capacity: u32,
    /// Version that the cluster's tasks run. None means the version of the manifest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Working time of one request, in milliseconds: the flag `--work-ms` of the cluster's tasks. None means that of the
    /// program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_ms: Option<u32>,
    /// Number of requests at the same time that the cluster serves at its busiest. Its job keeps as much capacity, whatever is
    /// edited. None: it may shrink.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak: Option<u64>,
    /// Present if the cluster shall be removed from production.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turndown: Option<Turndown>,
}

/// Why a cluster is removed from production, and who agreed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Turndown {
    /// Reason for the removal, as text.
    pub reason: String,
    /// Name of the person who agreed to the removal.
    pub approved_by: String,
}

impl<C> Manifest<C> {
    /// Returns the flags of the tasks of a cluster.
    pub fn flags_of(&self, cluster: &Cluster) -> Vec<String> {
        let own = cluster.work_ms.map(|millis| format!("--work-ms={millis}"));
        self.flags.iter().cloned().chain(own).collect()
    }
}

impl Manifest {
    /// The manifest that a new state directory gets.
    pub const DEFAULT: &str = include_str!("default.yaml");

    /// Returns the manifest as YAML text, with the end marker.
    pub fn to_yaml(&self) -> String {
        // JSON is valid YAML. If it could not be written, reading would fail, because the section is required.
        let rollout = serde_json::to_string(&self.rollout).unwrap_or_default();
        let mut text = format!(
            "owner: {:?}\nversion: {:?}\nschema: {}\nflags: {:?}\nrollout: {rollout}\nglobal:\n  max_capacity: {}\n",
            self.owner, self.version, self.schema, self.flags, self.global.max_capacity
        );
        if !self.policies.is_empty() {
            let policies = serde_json::to_string(&self.policies).unwrap_or_default();
            text.push_str(&format!("policies: {policies}\n"));
        }
        if let Some(train) = &self.train {
            let train = serde_json::to_string(train).unwrap_or_default();
            text.push_str(&format!("train: {train}\n"));
        }
        if let Some(FreshIndex { max_age_secs }) = self.index {
            text.push_str(&format!("index:\n  max_age_secs: {max_age_secs}\n"));
        }
        if !self.schedules.is_empty() {
            let schedules = serde_json::to_string(&self.schedules).unwrap_or_default();
            text.push_str(&format!("schedules: {schedules}\n"));
        }
        if !self.checks.is_empty() {
            let checks = serde_json::to_string(&self.checks).unwrap_or_default();
            text.push_str(&format!("checks: {checks}\n"));
        }
        if let Some(Notices { out_of_sync_secs }) = self.notices {
            text.push_str(&format!(
                "notices:\n  out_of_sync_secs: {out_of_sync_secs}\n"
            ));
        }
        text.push_str("clusters:\n");
        for (name, cluster) in &self.clusters {
            text.push_str(&format!(
                "  {name}:\n    replicas: {}\n    capacity_per_task: {}\n    balancer_capacity: {}\n",
                cluster.replicas, cluster.capacity_per_task, cluster.balancer_capacity
            ));
            if let Some(version) = &cluster.version {
                text.push_str(&format!("    version: {version:?}\n"));
            }
            if let Some(work_ms) = cluster.work_ms {
                text.push_str(&format!("    work_ms: {work_ms}\n"));
            }
            if let Some(peak) = cluster.peak {
                text.push_str(&format!("    peak: {peak}\n"));
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
