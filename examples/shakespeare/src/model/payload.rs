//! The assets' payloads, what capacity each means to have, and what makes each valid.

use control_plane::{
    prelude::{AssetId, AssetRef, AssetView, Message, Problems},
    sdk::Capacity,
};
use serde::{Deserialize, Serialize};

use crate::{plugins::SCHEMA_VERSIONS, production::api::JobSpec};

/// The most tasks of one job.
const MOST_REPLICAS: u32 = 100;

/// The capacity that a cluster's job provides.
pub fn job_unit(cluster: &str) -> String {
    format!("requests/job/{cluster}")
}

/// The capacity that a cluster's balancer provides.
pub fn balancer_unit(cluster: &str) -> String {
    format!("requests/balancer/{cluster}")
}

/// The cluster that an asset such as `job/eu` belongs to.
pub fn cluster_of(asset: &AssetId) -> &str {
    asset.as_str().rsplit('/').next().unwrap_or_default()
}

/// The frontends of one cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrontendJob {
    /// Where it runs.
    pub cluster: AssetRef,
    /// What it reads from.
    pub database: AssetRef,
    /// Which version.
    pub version: String,
    /// How many tasks.
    pub replicas: u32,
    /// Requests in flight that one task serves.
    pub capacity_per_task: u32,
    /// The database schema that the tasks need.
    pub schema: u32,
    /// More of the tasks' command line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<String>,
}

impl Message for FrontendJob {
    const TYPE: &'static str = "shakespeare.v1.FrontendJob";
}

impl FrontendJob {
    /// What a cell is asked for.
    pub fn spec(&self) -> JobSpec {
        JobSpec {
            replicas: self.replicas,
            capacity_per_task: self.capacity_per_task,
            version: self.version.clone(),
            schema: self.schema,
            flags: self.flags.clone(),
        }
    }

    pub(super) fn capacity(&self) -> Capacity {
        let unit = job_unit(cluster_of(&self.cluster.id));
        [(unit, self.spec().capacity().into())].into()
    }

    pub(super) fn check(&self, view: &AssetView<'_>, problems: &mut Problems) {
        let mut wrong = |field: &str, message: String| {
            problems.push(view.problem(message).field(format!("payload.{field}")));
        };
        if !(1..=MOST_REPLICAS).contains(&self.replicas) {
            let message = format!(
                "{} tasks: give it 1 to {MOST_REPLICAS}; to remove the cluster, say turndown",
                self.replicas
            );
            wrong("replicas", message);
        }
        if !(1..=10_000).contains(&self.capacity_per_task) {
            let message = format!("{}: a task serves 1 to 10000", self.capacity_per_task);
            wrong("capacity_per_task", message);
        }
        let good = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if !(1..=32).contains(&self.version.len()) || !self.version.bytes().all(good) {
            let message = format!("{:?}: use 1 to 32 of A-Z, a-z, 0-9, . _ -", self.version);
            wrong("version", message);
        }
    }
}

/// The balancer of one cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadBalancer {
    /// Where it runs.
    pub cluster: AssetRef,
    /// Where it sends requests.
    pub job: AssetRef,
    /// Requests in flight that it lets through.
    pub max_capacity: u32,
}

impl Message for LoadBalancer {
    const TYPE: &'static str = "shakespeare.v1.LoadBalancer";
}

impl LoadBalancer {
    /// It takes of its job what it provides itself.
    pub(super) fn capacity(&self) -> Capacity {
        let cluster = cluster_of(&self.cluster.id);
        let units = [job_unit(cluster), balancer_unit(cluster)];
        units
            .map(|unit| (unit, u64::from(self.max_capacity)))
            .into()
    }

    pub(super) fn check(&self, view: &AssetView<'_>, problems: &mut Problems) {
        if self.max_capacity == 0 {
            let problem = view.problem("a balancer lets at least 1 request through");
            problems.push(problem.field("payload.max_capacity"));
        }
    }
}

/// The balancer in front of all clusters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GlobalBalancer {
    /// Requests in flight that it lets through.
    pub max_capacity: u32,
    /// Where it sends requests, by cluster.
    pub shares: Vec<Share>,
}

/// What the global balancer takes of one cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Share {
    /// Whose.
    pub balancer: AssetRef,
    /// Requests in flight at most.
    pub capacity: u32,
}

impl Message for GlobalBalancer {
    const TYPE: &'static str = "shakespeare.v1.GlobalBalancer";
}

impl GlobalBalancer {
    pub(super) fn capacity(&self) -> Capacity {
        let share = |share: &Share| {
            let unit = balancer_unit(cluster_of(&share.balancer.id));
            (unit, share.capacity.into())
        };
        self.shares.iter().map(share).collect()
    }

    pub(super) fn check(&self, view: &AssetView<'_>, problems: &mut Problems) {
        if self.max_capacity == 0 {
            let problem = view.problem("a balancer lets at least 1 request through");
            problems.push(problem.field("payload.max_capacity"));
        }
        if self.shares.is_empty() {
            let problem = view.problem("nobody would answer: leave at least one cluster");
            problems.push(problem.field("payload.shares"));
        }
    }
}

/// The schema of the database that all clusters read from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatabaseSchema {
    /// Which version.
    pub version: u32,
}

impl Message for DatabaseSchema {
    const TYPE: &'static str = "shakespeare.v1.DatabaseSchema";
}

impl DatabaseSchema {
    pub(super) fn check(&self, view: &AssetView<'_>, problems: &mut Problems) {
        if !(1..=SCHEMA_VERSIONS).contains(&self.version) {
            let message = format!(
                "there is no schema version {}: use 1 to {SCHEMA_VERSIONS}",
                self.version
            );
            problems.push(view.problem(message).field("payload.version"));
        }
    }
}

/// A cluster as something that can fail as a whole. Modelled only: others refer to it, nobody pushes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FailureDomain {
    /// Its name.
    pub name: String,
}

impl Message for FailureDomain {
    const TYPE: &'static str = "shakespeare.v1.FailureDomain";
}

impl FailureDomain {
    pub(super) fn check(&self, view: &AssetView<'_>, problems: &mut Problems) {
        if cluster_of(&view.asset().id()) != self.name {
            let problem = view.problem("a failure domain is named as its asset is");
            problems.push(problem.field("payload.name"));
        }
    }
}
