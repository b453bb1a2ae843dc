//! The check behind [`MonitoringLayer`](super::MonitoringLayer).

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use plugin_sdk::{
    Alert, BoxError, Causes, CheckInfo, CheckName, CheckPlugin, CheckRequest, Delay, Recheck,
    SignalSource, Signals, Verdict,
};
use serde_json::{Value, json};

use crate::{
    Scope, Types,
    cache::{Answer, Cache},
};

/// Default time for which one answer is used.
const TTL: Duration = Duration::from_secs(5);
/// Default maximum age of signals.
const MAX_AGE: Duration = Duration::from_secs(30);

/// Delays pushes while an alert fires in their scope, or while the alerts cannot be read.
///
/// By default every alert delays every asset, for the cause intent only.
///
/// ```
/// use annealing_checks::{Scope, monitoring::Monitoring};
/// use plugin_sdk::SignalSource;
/// use std::time::Duration;
///
/// # fn check(alertmanager: impl SignalSource) {
/// let monitoring = Monitoring::new(alertmanager)
///     // An alert with `cluster="eu"` delays assets in eu; an alert without a cluster delays all assets.
///     .within(Scope::per_cluster(), "cluster")
///     .watchdog("Watchdog")
///     .max_age(Duration::from_secs(45));
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Monitoring {
    name: CheckName,
    causes: Causes,
    types: Types,
    scopes: Vec<(Scope, String)>,
    watchdog: Option<String>,
    ttl: Duration,
    max_age: Duration,
    cache: Arc<Cache<dyn SignalSource, Signals>>,
}

impl Monitoring {
    /// Makes a check named `monitoring` that reads the alerts of `source`.
    pub fn new(source: impl SignalSource) -> Self {
        Self::over(Arc::new(Cache::new(Box::new(source))))
    }

    /// Makes the check over answers that others share.
    pub(crate) fn over(cache: Arc<Cache<dyn SignalSource, Signals>>) -> Self {
        Self {
            name: "monitoring".into(),
            causes: Causes::INTENT,
            types: Types::default(),
            scopes: Vec::new(),
            watchdog: None,
            ttl: TTL,
            max_age: MAX_AGE,
            cache,
        }
    }

    /// Sets the name of the check. A stack with several monitoring checks needs different names.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the causes for which the check applies. The default is intent only: a rollback or repair must not wait for
    /// the alert that it would end.
    #[must_use]
    pub fn causes(mut self, causes: Causes) -> Self {
        self.causes = causes;
        self
    }

    /// Limits the check to assets of these types. The default is all types.
    #[must_use]
    pub fn types(mut self, types: Types) -> Self {
        self.types = types;
        self
    }

    /// Limits alerts by scope: an alert with the label `label` delays only the assets that `scope` counts under the
    /// label's value. An alert without this label delays all assets. With several labels, all of an alert's have to fit.
    #[must_use]
    pub fn within(mut self, scope: Scope, label: &str) -> Self {
        self.scopes.push((scope, label.into()));
        self
    }

    /// Sets the name of an alert that always fires while alerting works. This alert delays nothing; its absence delays
    /// every push to which the check applies.
    #[must_use]
    pub fn watchdog(mut self, alert: &str) -> Self {
        self.watchdog = Some(alert.into());
        self
    }

    /// Sets how long one answer is used, by the monotonic clock. The default is 5 s. A reused answer does not make the
    /// verdict younger: it has the age of the signals.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// Sets the maximum age of signals; older signals delay pushes. The default is 30 s. The enforcer refuses verdicts
    /// older than 60 s, so a longer age has no use.
    #[must_use]
    pub fn max_age(mut self, age: Duration) -> Self {
        self.max_age = age;
        self
    }

    /// Whether an alert delays the assets that the scopes count under `values`.
    fn concerns(&self, alert: &Alert, values: &[Vec<String>]) -> bool {
        if self.watchdog.as_ref() == Some(&alert.name) {
            return false;
        }
        let fits = |((_, label), values): (&(Scope, String), &Vec<String>)| {
            let value = alert.labels.get(label);
            // The empty text: it is not known which alerts are about the asset.
            let is_own = |it: &String, value: &String| it == value || it.is_empty();
            value.is_none_or(|value| values.iter().any(|it| is_own(it, value)))
        };
        self.scopes.iter().zip(values).all(fits)
    }

    fn delay(&self, reason: String, evidence: Value) -> Delay {
        let again = Recheck::After(self.ttl.max(Duration::from_secs(1)));
        Delay::new(reason, again).because(evidence)
    }
}

#[async_trait]
impl CheckPlugin for Monitoring {
    fn info(&self) -> CheckInfo {
        CheckInfo::new(self.name.clone()).only_for(self.causes)
    }

    async fn check(&self, request: CheckRequest) -> Result<Verdict, BoxError> {
        let now = request.now;
        if !self.types.apply(&request) {
            return Ok(Verdict::proceed(now));
        }
        let values = self.scopes.iter();
        let values = values.map(|(scope, _)| scope.values(&request));
        let values = values.collect::<Result<Vec<_>, _>>()?;
        let good = |answer: &Answer<Signals>| answer.passed(request.mono).unsigned_abs() < self.ttl;
        let call = self.cache.source.firing();
        let answer = self.cache.answer(&request, good, call).await;
        let signals = match &answer.result {
            Ok(signals) => signals,
            Err(error) => {
                let reason = format!("the alerts cannot be read: {error}");
                return Ok(Verdict::delay(now, self.delay(reason, Value::Null)));
            }
        };
        let concerning = signals.firing.iter();
        let concerning = concerning.filter(|alert| self.concerns(alert, &values));
        let (silenced, firing): (Vec<&Alert>, Vec<&Alert>) =
            concerning.partition(|alert| alert.silenced.is_some());
        let evidence = |firing: &[&Alert]| json!({"as_of": signals.as_of, "firing": firing, "silenced": silenced});
        let age = answer.age(signals.as_of, request.mono);
        let seen = now.saturating_sub(age.max(SignedDuration::ZERO));
        let mut verdict = Verdict::proceed(seen.unwrap_or(Timestamp::MIN));
        let blind = signals.blind(age, self.max_age, self.watchdog.as_deref());
        if let Some(why) = blind {
            verdict.delays.push(self.delay(why, evidence(&[])));
        }
        for alert in firing {
            let reason = format!("the alert {alert} fires");
            verdict.delays.push(self.delay(reason, evidence(&[alert])));
        }
        Ok(verdict)
    }
}
