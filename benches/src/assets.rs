//! The assets of the scenarios: small jobs of about the size of the article's examples.

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
