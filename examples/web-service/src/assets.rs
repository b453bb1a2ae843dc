//! The assets of a web service: uniform, whatever the configuration looks like.

use control_plane::prelude::{AssetRef, Message};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The tasks of a service in one cluster.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// Name of the service that runs.
    pub service: String,
    /// Name of the cluster in which the tasks run.
    pub cluster: String,
    /// Version of the program, which only grows.
    pub version: u64,
    /// Number of tasks that run at once.
    pub tasks: u64,
    /// Queries per second that one task serves.
    pub qps_per_task: u64,
    /// Services that the tasks call in their cluster.
    pub calls: Vec<String>,
}

impl Job {
    /// The unit in which the capacity of the job is counted.
    pub fn unit(&self) -> String {
        format!("qps/{}/{}", self.service, self.cluster)
    }
}

/// Distributes queries over the tasks of one job.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Balancer {
    /// The job that gets the queries.
    pub job: AssetRef,
    /// Maximum number of queries per second that pass.
    pub max_qps: u64,
}

/// Tells the owner of a service that too many queries fail.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Alert {
    /// Name of the service that is watched.
    pub service: String,
    /// Percentage of failed queries above which the owner is told.
    pub above_percent: u64,
    /// Name of the team that is told.
    pub owner: String,
}

impl Message for Job {
    const TYPE: &'static str = "web.v1.Job";
}

impl Message for Balancer {
    const TYPE: &'static str = "web.v1.Balancer";
}

impl Message for Alert {
    const TYPE: &'static str = "web.v1.Alert";
}
