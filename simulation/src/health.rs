//! The health of production: an error metric of each resource, read from a metric source with faults. The judge records
//! the samples that were read.

use std::{sync::Arc, time::Duration};

use annealing_strategist::health::absolute::{Absolute, of};
use async_trait::async_trait;
use jiff::Timestamp;
use plugin_sdk::{
    BoxError, Health, HealthRequest, HealthValidator, SampleQuery, SampleSource, Series,
};

use crate::{
    executor::{Instant, NodeRuntime},
    faults::Fault,
    intent::number,
    world::{State, World},
};

/// Interval between two samples of a metric.
const EVERY: Duration = Duration::from_secs(4);
/// Share of errors of a resource with bad content.
const SHARE: f64 = 0.5;
/// Maximum share of errors of a healthy resource.
const MOST: f64 = 0.1;
/// Age of the newest sample when data is stale.
const OLD: Duration = Duration::from_secs(90);

/// The source of production's metrics.
struct Metrics(World);

/// The health validator: updated assets must not answer with errors. Like metrics by version, it leaves out assets
/// under way that still have their old content.
pub struct Errors {
    world: World,
    rule: Absolute,
}

impl Errors {
    /// Makes the validator for the production of `world`.
    pub fn new(world: &World) -> Self {
        let rule = Absolute::value("errors", of("errors"))
            .at_most(MOST)
            .over(Duration::from_secs(15))
            .min_samples(1)
            .without_neighbours()
            .reading(Arc::new(Metrics(world.clone())));
        Self {
            world: world.clone(),
            rule,
        }
    }
}

#[async_trait]
impl HealthValidator for Errors {
    fn name(&self) -> Arc<str> {
        HealthValidator::name(&self.rule)
    }

    async fn validate(&self, mut request: HealthRequest) -> Result<Health, BoxError> {
        let reader = request.reader.clone();
        let panics = self.world.state().strikes(Fault::ValidatorPanics);
        if panics {
            // `resume_unwind` instead of `panic!`: the panic hook would print thousands of these panics.
            std::panic::resume_unwind(Box::new("a validator panicked"));
        }
        {
            let mut state = self.world.state();
            request.under_way.retain(|watched| {
                let asset = &watched.asset;
                let wanted = reader
                    .get(asset)
                    .map(|it| state.production.content(&it).mark);
                let resource = &state.production.resources[number(asset.as_str())];
                let there = resource.content.map(|it| it.mark);
                // A manual change flips the lowest bit of the mark and does not change how the content serves.
                there.map(|mark| mark | 1) == wanted.map(|mark| mark | 1)
            });
        }
        self.rule.validate(request).await
    }
}

#[async_trait]
impl SampleSource for Metrics {
    async fn read(&self, query: SampleQuery) -> Result<Vec<Series>, BoxError> {
        let at = number(query.asset.as_str());
        let slow = {
            let mut state = self.0.state();
            let slow = state.strikes(Fault::MetricsSlow);
            slow.then(|| {
                let most = Duration::from_secs(8);
                state.random.between(Duration::from_millis(100), most)
            })
        };
        if let Some(slow) = slow {
            self.0.sleep(slow).await;
        }
        self.0.state().measure(at, &query)
    }
}

impl State {
    fn measure(&mut self, at: usize, query: &SampleQuery) -> Result<Vec<Series>, BoxError> {
        if self.strikes(Fault::MetricsFail) {
            return Err("the metrics cannot be reached".into());
        }
        if self.strikes(Fault::NoData) || at >= self.production.resources.len() {
            return Ok(Vec::new());
        }
        let stale = self.strikes(Fault::MetricsStale);
        let end = match stale {
            true => Instant(self.now.0.saturating_sub(OLD.as_nanos() as u64)),
            false => self.now,
        };
        let number = !self.strikes(Fault::NotANumber);
        let resource = &self.production.resources[at];
        let (from, to) = (instant(query.from), instant(query.to).min(end));
        let first = from.0.div_ceil(EVERY.as_nanos() as u64);
        let last = to.0 / EVERY.as_nanos() as u64;
        let mut samples = Vec::new();
        for tick in first..=last {
            let time = Instant(tick * EVERY.as_nanos() as u64);
            let share = match resource.served_badly(time) {
                _ if !number => f64::NAN,
                true => SHARE,
                false => 0.0,
            };
            samples.push((NodeRuntime::wall(time), share));
        }
        if let (true, true) = (number, first <= last) {
            let newest = Instant(last * EVERY.as_nanos() as u64);
            let well = samples.iter().all(|(_, share)| *share <= MOST);
            self.judge.eyes[at].seen(newest, well);
        }
        let labels = [("asset".to_owned(), query.asset.to_string())].into();
        Ok(vec![Series { labels, samples }])
    }
}

/// Converts a time of a correct wall clock to true time.
fn instant(at: Timestamp) -> Instant {
    let since = at.duration_since(NodeRuntime::wall(Instant(0)));
    Instant(u64::try_from(since.as_nanos()).unwrap_or(0))
}
