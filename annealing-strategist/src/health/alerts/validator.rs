//! [`Alerts`], the validator: finds the alerts that are about assets that the rollout can hurt.

use std::{cell::OnceCell, collections::BTreeSet, fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use plugin_sdk::{
    Alert, BoxError, Finding, Health, HealthRequest, HealthValidator, Judgement, SignalSource,
    Signals,
};
use serde_json::json;

use crate::policy::target_of;

/// Default maximum age of signals.
const MAX_AGE: Duration = Duration::from_secs(30);

/// A validator by the alerts of production. Its rules are listed in the [module](super).
#[derive(Clone)]
pub struct Alerts {
    name: Arc<str>,
    source: Arc<dyn SignalSource>,
    label: Option<String>,
    watchdog: Option<String>,
    max_age: Duration,
}

impl Alerts {
    /// Makes a validator named `alerts`, in which each alert of `source` is about all assets.
    pub fn new(source: impl SignalSource) -> Self {
        Self {
            name: "alerts".into(),
            source: Arc::new(source),
            label: None,
            watchdog: None,
            max_age: MAX_AGE,
        }
    }

    /// Sets the name of the validator. A stack with several of them needs different names.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.name = name.into();
        self
    }

    /// Limits alerts by failure domain: one with the label `label` is about the domain that the value names. An alert
    /// without this label is about all assets.
    #[must_use]
    pub fn per_domain(mut self, label: &str) -> Self {
        self.label = Some(label.into());
        self
    }

    /// Sets the name of an alert that always fires while alerting works. It condemns nothing; without it, health is
    /// unknown.
    #[must_use]
    pub fn watchdog(mut self, alert: &str) -> Self {
        self.watchdog = Some(alert.into());
        self
    }

    /// Sets the maximum age of signals; with older ones, health is unknown. An alert that began less than this before the
    /// rollout is unknown, too, because clocks may differ. The default is 30 s.
    #[must_use]
    pub fn max_age(mut self, age: Duration) -> Self {
        self.max_age = age;
        self
    }

    /// Judges a rollout by the alerts that fire.
    pub(in crate::health) fn verdict(&self, request: &HealthRequest, signals: &Signals) -> Health {
        let as_of = signals.as_of;
        let mut health = Health::healthy(as_of.min(request.now));
        let age = request.now.duration_since(as_of);
        let untrusted = signals.blind(age, self.max_age, self.watchdog.as_deref());
        health.findings.extend(untrusted.map(|why| {
            let evidence = json!({"as_of": as_of, "now": request.now});
            Finding::new(Judgement::Unknown, why).because(evidence)
        }));
        let findings = self.concerning(request, signals).map(|alert| {
            let (judgement, why) = self.judged(alert, request.began);
            let evidence = json!({"alert": alert, "as_of": as_of, "began": request.began});
            Finding::new(judgement, format!("the alert {alert} {why}")).because(evidence)
        });
        health.findings.extend(findings);
        let all = health.findings.iter().map(|finding| finding.judgement);
        health.judgement = all.max().unwrap_or(Judgement::Healthy);
        health
    }

    /// The alerts about assets that the rollout can hurt.
    fn concerning<'a>(
        &'a self,
        request: &'a HealthRequest,
        signals: &'a Signals,
    ) -> impl Iterator<Item = &'a Alert> {
        // Most requests meet no alert with the label, and then no asset is read.
        let hurt = OnceCell::new();
        signals.firing.iter().filter(move |alert| {
            let label = self.label.as_ref();
            let domain = label.and_then(|label| alert.labels.get(label));
            let hurts = |domain: &String| hurt.get_or_init(|| Hurt::by(request)).has(domain);
            self.watchdog.as_ref() != Some(&alert.name) && domain.is_none_or(hurts)
        })
    }

    /// Judges the rollout that moved its first asset at `began` by an alert, with the reason.
    fn judged(&self, alert: &Alert, began: Option<Timestamp>) -> (Judgement, &'static str) {
        let before = |since| began.map_or(SignedDuration::MAX, |began| began.duration_since(since));
        match (&alert.silenced, alert.since.map(before)) {
            (Some(_), _) => (Judgement::Healthy, "does not count"),
            (None, None) => (Judgement::Unknown, "fires, and its start is not known"),
            (None, Some(before)) if before <= SignedDuration::ZERO => {
                (Judgement::Unhealthy, "fires")
            }
            // The clocks of two machines decide.
            (None, Some(before)) if before.unsigned_abs() < self.max_age => (
                Judgement::Unknown,
                "fires, and began about when the rollout did",
            ),
            (None, Some(_)) => (
                Judgement::Healthy,
                "fires, and did before the rollout began",
            ),
        }
    }
}

#[async_trait]
impl HealthValidator for Alerts {
    fn name(&self) -> Arc<str> {
        self.name.clone()
    }

    async fn validate(&self, request: HealthRequest) -> Result<Health, BoxError> {
        let signals = self.source.firing().await?;
        Ok(self.verdict(&request, &signals))
    }
}

/// The failure domains that a rollout can hurt.
#[derive(Default)]
struct Hurt {
    /// Whether an asset has moved that names no domain, or that cannot be read.
    everywhere: bool,
    domains: BTreeSet<Arc<str>>,
}

impl Hurt {
    fn by(request: &HealthRequest) -> Self {
        let mut hurt = Self::default();
        for moved in request.updated.iter().chain(&request.under_way) {
            let domains = request
                .reader
                .get(&moved.asset)
                .map(|it| target_of(&it).domains);
            let domains = domains.unwrap_or_default();
            hurt.everywhere |= domains.is_empty();
            hurt.domains.extend(domains.iter().cloned());
        }
        for near in &request.neighbours {
            let asset = request.reader.get(&near.asset);
            let domains = asset.map(|asset| target_of(&asset).domains);
            hurt.domains
                .extend(domains.iter().flat_map(|domains| domains.iter().cloned()));
        }
        hurt
    }

    fn has(&self, domain: &str) -> bool {
        self.everywhere || self.domains.contains(domain)
    }
}

impl fmt::Debug for Alerts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Alerts")
            .field("name", &self.name)
            .field("label", &self.label)
            .finish_non_exhaustive()
    }
}
