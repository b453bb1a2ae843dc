//! The payloads of the assets, with their intended capacity and their validation.

use control_plane::{
    prelude::{AssetId, AssetRef, AssetView, Message, Problems},
    sdk::Capacity,
};
use serde::{Deserialize, Serialize};
use testbed::production::{api::JobSpec, database::SCHEMA_VERSIONS};

/// Maximum number of tasks of one job.
const MOST_REPLICAS: u32 = 100;

/// Returns the unit of the capacity that the job of `cluster` provides, such as `requests/job/eu`.
pub fn job_unit(cluster: &str) -> String {
    format!("requests/job/{cluster}")
}

/// Returns the unit of the capacity that the balancer of `cluster` provides, such as `requests/balancer/eu`.
pub fn balancer_unit(cluster: &str) -> String {
    format!("requests/balancer/{cluster}")
}

/// Returns the cluster of an asset: the last part of its id, such as `eu` for `job/eu`.
pub fn cluster_of(asset: &AssetId) -> &str {
    asset.as_str().rsplit('/').next().unwrap_or_default()
}

/// Addon of a job: the usage of its cluster at its busiest, which is modelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Peak {
    /// Number of requests at the same time.
    pub requests: u64,
}

impl Message for Peak {
    const TYPE: &'static str = "shakespeare.v1.Peak";
}

/// Payload of a job: the frontends of one cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrontendJob {
    /// Cluster in which the job runs.
    pub cluster: AssetRef,
    /// Database from which the tasks read.
    pub database: AssetRef,
    /// Version of the frontend that the tasks run.
    pub version: String,
    /// Number of tasks, from 1 to 100.
    pub replicas: u32,
    /// Number of requests that one task serves at the same time, from 1 to 10,000.
    pub capacity_per_task: u32,
    /// Version of the database schema that the tasks need.
    pub schema: u32,
    /// Additional flags on the tasks' command line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<String>,
}

impl Message for FrontendJob {
    const TYPE: &'static str = "shakespeare.v1.FrontendJob";
}

impl FrontendJob {
    /// Returns the job specification for the cell.
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
                "{} tasks: use 1 to {MOST_REPLICAS}; to remove the cluster, add a `turndown`",
                self.replicas
            );
            wrong("replicas", message);
        }
        if !(1..=10_000).contains(&self.capacity_per_task) {
            let message = format!("{}: use 1 to 10000 requests", self.capacity_per_task);
            wrong("capacity_per_task", message);
        }
        let good = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if !(1..=32).contains(&self.version.len()) || !self.version.bytes().all(good) {
            let message = format!(
                "{:?}: use 1 to 32 of the characters A-Z, a-z, 0-9, . _ -",
                self.version
            );
            wrong("version", message);
        }
    }
}

/// Payload of the balancer of one cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadBalancer {
    /// Cluster in which the balancer runs.
    pub cluster: AssetRef,
    /// Job to which the balancer sends requests.
    pub job: AssetRef,
    /// Maximum number of requests in flight, at least 1.
    pub max_capacity: u32,
}

impl Message for LoadBalancer {
    const TYPE: &'static str = "shakespeare.v1.LoadBalancer";
}

impl LoadBalancer {
    /// The balancer takes as much capacity of its job as it provides itself.
    pub(super) fn capacity(&self) -> Capacity {
        let cluster = cluster_of(&self.cluster.id);
        let units = [job_unit(cluster), balancer_unit(cluster)];
        units
            .map(|unit| (unit, u64::from(self.max_capacity)))
            .into()
    }

    pub(super) fn check(&self, view: &AssetView<'_>, problems: &mut Problems) {
        if self.max_capacity == 0 {
            let problem = view.problem("0: a balancer needs a capacity of at least 1 request");
            problems.push(problem.field("payload.max_capacity"));
        }
    }
}

/// Payload of the global balancer, in front of all clusters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GlobalBalancer {
    /// Maximum number of requests in flight, at least 1.
    pub max_capacity: u32,
    /// The clusters' balancers that it sends requests to, and the capacity that it takes of each.
    pub shares: Vec<Share>,
}

/// The capacity that the global balancer takes of one cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Share {
    /// The cluster's balancer that provides the capacity.
    pub balancer: AssetRef,
    /// Maximum number of requests in flight to this balancer.
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
            let problem = view.problem("0: a balancer needs a capacity of at least 1 request");
            problems.push(problem.field("payload.max_capacity"));
        }
        if self.shares.is_empty() {
            let problem = view
                .problem("no cluster would answer requests: keep at least one without a turndown");
            problems.push(problem.field("payload.shares"));
        }
    }
}

/// Least age that an index may reach, in seconds: twice what a run and a new start of the control plane take.
const YOUNGEST: u64 = 10;

/// Payload of the index of all texts, which is made anew again and again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FreshIndex {
    /// Age that the index never reaches, in seconds, at least 10.
    pub max_age_secs: u64,
}

impl Message for FreshIndex {
    const TYPE: &'static str = "shakespeare.v1.FreshIndex";
}

impl FreshIndex {
    pub(super) fn check(&self, view: &AssetView<'_>, problems: &mut Problems) {
        if self.max_age_secs < YOUNGEST {
            let message = format!("{} s: use {YOUNGEST} s or more", self.max_age_secs);
            problems.push(view.problem(message).field("payload.max_age_secs"));
        }
    }
}

/// Payload of the database schema: all clusters read from this database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatabaseSchema {
    /// Version of the schema, from 1 to [`SCHEMA_VERSIONS`].
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

/// Payload of a cluster as a failure domain. It is modelled only: other assets refer to it, and no plugin pushes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FailureDomain {
    /// Name of the cluster, the same as the last part of the asset's id.
    pub name: String,
}

impl Message for FailureDomain {
    const TYPE: &'static str = "shakespeare.v1.FailureDomain";
}

impl FailureDomain {
    pub(super) fn check(&self, view: &AssetView<'_>, problems: &mut Problems) {
        if cluster_of(&view.asset().id()) != self.name {
            let problem = view.problem("the name must be the last part of the asset's id");
            problems.push(problem.field("payload.name"));
        }
    }
}
