//! Whether what was updated is well: by what its own processes count, under the load that is there.

use std::{sync::Arc, time::Duration};

use control_plane::{
    prelude::Message,
    sdk::{HealthValidator, MetricSource},
    strategist::health::absolute::{Absolute, of},
};

use crate::model::{FrontendJob, LoadBalancer};

/// More of the answers of a job or of a balancer than this share must not be errors.
const ERRORS: f64 = 0.02;
/// What is older says nothing any more.
const WINDOW: Duration = Duration::from_secs(5);
/// A second apart: fewer samples, or requests, are no evidence.
const SAMPLES: usize = 3;
const REQUESTS: u64 = 20;

/// At most one in fifty of the answers of an updated job or balancer is an error, each by its own counters: what a
/// balancer refuses, no job has seen. Without requests nobody can tell.
pub(crate) fn errors(metrics: Arc<dyn MetricSource>) -> impl HealthValidator {
    let requests = of("http_requests_total");
    let errors = requests.clone().beginning("code", "5");
    let rule = Absolute::ratio("errors", errors, requests)
        .at_most(ERRORS)
        .over(WINDOW)
        .min_samples(SAMPLES)
        .min_events(REQUESTS)
        .only([FrontendJob::TYPE, LoadBalancer::TYPE])
        .without_neighbours();
    rule.reading(metrics)
}
