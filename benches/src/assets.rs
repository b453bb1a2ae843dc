//! The assets of the scenarios: small jobs of about the size of the article's examples.

use plugin_sdk::{AssetView, Problems};
use prodspec_model::{Asset, AssetId, Message};
use serde::{Deserialize, Serialize};

use crate::Error;

/// Payload type of all assets in the scenarios.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct JobType {
    cluster: String,
    replicas: u64,
    version: u64,
}

impl Message for JobType {
    const TYPE: &'static str = "benches.v1.Job";
}

impl JobType {
    /// The version of the program that runs.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// Refuses a job without replicas.
    pub(crate) fn valid(&self, view: &AssetView<'_>, problems: &mut Problems) {
        if self.replicas == 0 {
            problems.push(view.problem("must have a replica"));
        }
    }
}

/// A manifest of `n` jobs by name, in JSON.
pub(crate) fn manifest(n: usize) -> Result<String, Error> {
    let job = |no: usize| {
        let job = JobType {
            cluster: format!("cluster-{:02}", no % 50),
            replicas: 3 + (no % 7) as u64,
            version: 1,
        };
        (format!("service-{no:07}"), job)
    };
    let jobs: std::collections::BTreeMap<String, JobType> = (0..n).map(job).collect();
    Ok(serde_json::to_string_pretty(&jobs)?)
}

/// The id of job number `no`.
pub(crate) fn id(no: usize) -> String {
    format!("job/cluster-{:02}/service-{no:07}", no % 50)
}

/// Job number `no` with the given `version`.
pub(crate) fn job(no: usize, version: u64) -> Result<Asset, Error> {
    build(&id(no), no, version)
}

fn build(id: &str, no: usize, version: u64) -> Result<Asset, Error> {
    let job = JobType {
        cluster: format!("cluster-{:02}", no % 50),
        replicas: 3 + (no % 7) as u64,
        version,
    };
    Ok(Asset::builder(AssetId::new(id)?).payload(&job)?.build()?)
}

/// An additional job whose id follows that of job `no`; no other job has this id.
pub(crate) fn added(no: usize) -> Result<Asset, Error> {
    build(&format!("{}-b", id(no)), no, 1)
}

/// A job number below `n`: as `turn` counts from 0 to `n`, each number comes once, in a scattered order.
pub(crate) fn shuffled(turn: usize, n: usize) -> usize {
    turn * 7919 % n
}

/// The first `n` jobs, at version 1.
pub(crate) fn jobs(n: usize) -> Result<Vec<Asset>, Error> {
    (0..n).map(|no| job(no, 1)).collect()
}
