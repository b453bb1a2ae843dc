//! The counters of a process of production, served at `GET /metrics` in the Prometheus text format. Shared by frontends
//! and balancers.

use std::fmt;

use hyper::{StatusCode, header::HeaderValue};
use prometheus_client::{
    encoding::{EncodeLabelSet, text},
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

/// Path at which a process serves its counters.
pub(crate) const PATH: &str = "/metrics";
/// Content type of the answer.
pub(super) const CONTENT_TYPE: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");

/// Label of the request counter: the status code of the answer.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answers {
    code: String,
}

/// The request counters of one process.
pub(super) struct Meter {
    registry: Registry,
    answered: Family<Answers, Counter>,
    in_flight: Gauge,
}

impl Meter {
    /// Creates counters that start at zero. If `version` is given, every series has it as a label.
    pub(super) fn new(version: Option<&str>) -> Self {
        let version = version.map(|version| ("version".into(), version.to_owned().into()));
        let mut registry = Registry::with_labels(version.into_iter());
        let (answered, in_flight) = (Family::<Answers, Counter>::default(), Gauge::default());
        registry.register("http_requests", "Requests answered", answered.clone());
        registry.register(
            "http_requests_in_flight",
            "Requests being worked on, or waiting",
            in_flight.clone(),
        );
        // Create these series at zero now: a missing series would look like a process that does not count.
        for code in ["200", "500"] {
            let code = code.to_owned();
            let _zero = answered.get_or_create(&Answers { code });
        }
        Self {
            registry,
            answered,
            in_flight,
        }
    }

    /// Counts a request that has arrived. The request is in flight until the returned value is dropped.
    pub(super) fn begin(&self) -> InFlight<'_> {
        self.in_flight.inc();
        InFlight(self)
    }

    /// Returns all counters in the Prometheus text format.
    pub(super) fn text(&self) -> Result<String, fmt::Error> {
        let mut said = String::new();
        text::encode(&mut said, &self.registry)?;
        Ok(said)
    }
}

impl fmt::Debug for Meter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Meter").finish_non_exhaustive()
    }
}

/// A request in flight.
#[must_use = "the request counts as in flight until this value is dropped"]
pub(super) struct InFlight<'a>(&'a Meter);

impl InFlight<'_> {
    /// Counts the answer to the request by its status.
    pub(super) fn answered(self, status: StatusCode) {
        let code = status.as_str().to_owned();
        self.0.answered.get_or_create(&Answers { code }).inc();
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.in_flight.dec();
    }
}
