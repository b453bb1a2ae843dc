//! The health of updated assets: judged by the counters of their own processes, under the load at that time.

use std::{sync::Arc, time::Duration};

use control_plane::{
    prelude::Message,
    sdk::{HealthValidator, SampleSource},
    strategist::health::absolute::{Absolute, of},
};

use crate::model::{FrontendJob, LoadBalancer};

/// Maximum share of a job's or balancer's answers that may be errors.
const ERRORS: f64 = 0.02;
/// How far back samples are used.
const WINDOW: Duration = Duration::from_secs(5);
/// Minimum number of samples, taken one second apart. With fewer, health is unknown.
const SAMPLES: usize = 3;
/// Minimum number of requests in the window. With fewer, health is unknown.
const REQUESTS: u64 = 20;

/// Judges an updated job or balancer by its own counters: at most one in fifty of its answers may be an error.
///
/// Jobs and balancers are judged separately, because a request that a balancer refuses never reaches a job. Without
/// requests, health is unknown.
pub(crate) fn errors(metrics: Arc<dyn SampleSource>) -> impl HealthValidator {
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
