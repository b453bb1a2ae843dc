//! What a process of production counts about itself, and how it says so: `GET /metrics` in Prometheus' text format.
//! Shared by frontends and balancers.

use std::fmt;

use hyper::{StatusCode, header::HeaderValue};
use prometheus_client::{
    encoding::{EncodeLabelSet, text},
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

/// Where a process says it.
pub(crate) const PATH: &str = "/metrics";
/// What it is said in.
pub(super) const CONTENT_TYPE: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");

/// The answers of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answers {
    code: String,
}

/// Requests of one process.
pub(super) struct Meter {
    registry: Registry,
    answered: Family<Answers, Counter>,
    in_flight: Gauge,
}

impl Meter {
    /// Nothing has happened yet. What runs a version says so with every series.
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
        // None yet is something else than nobody counts.
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

    /// A request has come; it is in flight until the answer is dropped.
    pub(super) fn begin(&self) -> InFlight<'_> {
        self.in_flight.inc();
        InFlight(self)
    }

    /// All of it.
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

/// A request that is being worked on.
#[must_use = "it counts while it is kept"]
pub(super) struct InFlight<'a>(&'a Meter);

impl InFlight<'_> {
    /// It is answered.
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
