//! Health policies: the bounds within which some assets are healthy.

use std::{collections::BTreeMap, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::{AssetField, Counter, Threshold, span};
use crate::{filter::Filter, message::Message, tolerant};

/// Default length of a window.
const WINDOW: Duration = Duration::from_secs(60);

/// A health policy: the rules by which some assets are judged while a rollout moves them, or something near them.
///
/// A policy is the payload of a modelled-only asset, and is edited like any other asset. Health is judged by the newest text of
/// each policy.
///
/// ```
/// use prodspec_model::{Filter, policy::{Counter, HealthPolicy, HealthRule}};
///
/// let policy = HealthPolicy::of(Filter::types(["shakespeare.v1.FrontendJob"]))
///     .meets("cluster", "addon.PhysicalCluster.cluster")
///     .rule(HealthRule::share("errors", Counter::of("http_requests_total").with("code", "5.."), Counter::of("http_requests_total"))
///         .at_most("2%"))
///     .rule(HealthRule::expression("queue", "max by (cluster) (http_in_flight)").at_most(50.0));
/// # assert_eq!(policy.rules.len(), 2);
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename = "prodspec.v1.HealthPolicy")]
#[schemars(deny_unknown_fields)]
pub struct HealthPolicy {
    /// The assets that the policy judges.
    pub judges: Filter,
    /// The name of the source of metrics. May be left out if there is one source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The labels by which series meet assets, each with the field of an asset that has the same text. Empty: the one series is about
    /// all assets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub assets: BTreeMap<String, AssetField>,
    /// The length of the windows in which metrics are read, in whole seconds, such as `60s`.
    #[serde(default = "window", with = "span")]
    #[schemars(with = "String")]
    pub window: Duration,
    /// The time after an asset has settled from which its metrics count, such as `2m`. Default: two windows.
    #[serde(
        default,
        with = "span::option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Option<String>")]
    pub warm_up: Option<Duration>,
    /// The rules, each with a name of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<HealthRule>,
    /// The alerts that condemn a rollout. `None`: alerts condemn nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alerts: Option<Alerts>,
}

/// One rule of a health policy: a measured value, and its bounds. It measures an `expression` or a `counter`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct HealthRule {
    /// The name of the rule, which its findings carry.
    pub name: String,
    /// An expression in the language of the source, such as PromQL. `$window` stands for the length of the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expression: Option<String>,
    /// Counters: the number of events per second in the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counter: Option<Counter>,
    /// The counters of all events, of which `counter` counts some: the share of those is measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub among: Option<Counter>,
    /// The upper bound: larger values are unhealthy. `None`: there is no upper bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<Threshold>,
    /// The lower bound: smaller values are unhealthy. `None`: there is no lower bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<Threshold>,
    /// Units that the rollout has moved must not be worse than those that it has not moved. `None`: they are not compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worse: Option<Worse>,
    /// How the findings of the rule count. A way that this program version does not know is read as [`Count::Critical`].
    #[serde(
        default,
        deserialize_with = "count",
        skip_serializing_if = "Count::is_critical"
    )]
    pub count: Count,
}

/// A comparison (R105): an asset that a rollout has moved is worse if, window by window, its values rank too high among those of
/// assets that the rollout has not moved.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(deny_unknown_fields)]
pub struct Worse {
    /// The ratio of the means from which on a difference counts, at least 1. Default: 1.5.
    pub guard: f64,
    /// The values of which assets are worse.
    #[serde(
        deserialize_with = "direction",
        skip_serializing_if = "Direction::is_larger"
    )]
    pub is: Direction,
    /// Divides each value by the asset's own mean over the 500 windows before the 240 windows before the rollout. For assets that
    /// are not alike.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub than_past: bool,
    /// Confirms that all assets have the same traffic, so that numbers of events can be compared.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub same_traffic: bool,
}

/// The direction in which values get worse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Larger values are worse, such as errors and latency.
    #[default]
    Larger,
    /// Smaller values are worse, such as a share of hits.
    Smaller,
}

impl Direction {
    /// Whether larger values are worse.
    pub fn is_larger(&self) -> bool {
        *self == Self::Larger
    }
}

impl Default for Worse {
    fn default() -> Self {
        Self {
            guard: 1.5,
            is: Direction::Larger,
            than_past: false,
            same_traffic: false,
        }
    }
}

/// How the findings of a rule count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Count {
    /// The rule must be healthy.
    #[default]
    Critical,
    /// The rule must not be unhealthy. An asset that lacks the metric passes.
    Optional,
    /// The findings are shown, and condemn nothing.
    Muted,
}

impl Count {
    /// Whether the rule must be healthy.
    pub fn is_critical(&self) -> bool {
        *self == Self::Critical
    }
}

/// The alerts that condemn a rollout.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Alerts {
    /// The name of the source of alerts. May be left out if there is one source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The label with the failure domain that an alert is about, such as `cluster`. `None`: each alert is about all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// The name of an alert that always fires while alerting works. While it does not, health is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watchdog: Option<String>,
}

fn window() -> Duration {
    WINDOW
}

fn direction<'de, D: Deserializer<'de>>(from: D) -> Result<Direction, D::Error> {
    tolerant::known_or(from, |_| Direction::Larger)
}

fn count<'de, D: Deserializer<'de>>(from: D) -> Result<Count, D::Error> {
    tolerant::known_or(from, |_| Count::Critical)
}

impl Message for HealthPolicy {
    const TYPE: &'static str = "prodspec.v1.HealthPolicy";
}

impl HealthPolicy {
    /// A policy without rules for the assets that match `judges`.
    pub fn of(judges: Filter) -> Self {
        Self {
            judges,
            source: None,
            assets: BTreeMap::new(),
            window: WINDOW,
            warm_up: None,
            rules: Vec::new(),
            alerts: None,
        }
    }

    /// Sets a label by which series meet assets, and the field with the same text.
    #[must_use]
    pub fn meets(mut self, label: impl Into<String>, field: &str) -> Self {
        self.assets.insert(label.into(), field.into());
        self
    }

    /// Adds a rule, whose name must be new.
    #[must_use]
    pub fn rule(mut self, rule: HealthRule) -> Self {
        self.rules.push(rule);
        self
    }

    /// Sets the alerts that condemn a rollout.
    #[must_use]
    pub fn alerts(mut self, alerts: Alerts) -> Self {
        self.alerts = Some(alerts);
        self
    }

    /// The time after an asset has settled from which its metrics count.
    pub fn warms_up(&self) -> Duration {
        self.warm_up
            .unwrap_or_else(|| self.window.saturating_mul(2))
    }
}

impl HealthRule {
    /// A rule over an expression in the language of the source. It has no bound yet.
    pub fn expression(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            expression: Some(text.into()),
            ..Self::default()
        }
    }

    /// A rule over the number of events per second. It has no bound yet.
    pub fn rate(name: impl Into<String>, counter: Counter) -> Self {
        Self {
            name: name.into(),
            counter: Some(counter),
            ..Self::default()
        }
    }

    /// A rule over the share of some events among all. It has no bound yet.
    pub fn share(name: impl Into<String>, part: Counter, whole: Counter) -> Self {
        Self {
            among: Some(whole),
            ..Self::rate(name, part)
        }
    }

    /// Sets the upper bound: larger values are unhealthy.
    #[must_use]
    pub fn at_most(mut self, most: impl Into<Threshold>) -> Self {
        self.at_most = Some(most.into());
        self
    }

    /// Sets the lower bound: smaller values are unhealthy.
    #[must_use]
    pub fn at_least(mut self, least: impl Into<Threshold>) -> Self {
        self.at_least = Some(least.into());
        self
    }

    /// Compares assets that a rollout has moved with those that it has not moved.
    #[must_use]
    pub fn worse(mut self, worse: Worse) -> Self {
        self.worse = Some(worse);
        self
    }

    /// Sets how the findings of the rule count.
    #[must_use]
    pub fn count(mut self, count: Count) -> Self {
        self.count = count;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The policy of the example of the documentation, as a person writes it.
    const WRITTEN: &str = r#"{
        "judges": {"types": ["shakespeare.v1.FrontendJob"]},
        "assets": {"cluster": "addon.PhysicalCluster.cluster", "job": "id"},
        "window": "1m", "warm_up": "2m",
        "rules": [
            {"name": "errors", "counter": {"of": "http_requests_total", "with": {"code": "5.."}},
             "among": {"of": "http_requests_total"}, "at_most": "2%"},
            {"name": "queue", "expression": "http_in_flight", "at_most": 50, "count": "muted"}
        ],
        "alerts": {"source": "alertmanager", "domain": "cluster"}
    }"#;

    #[test]
    fn r21_health_policy_is_written_as_people_write_lengths_and_shares() {
        let policy: HealthPolicy = serde_json::from_str(WRITTEN).unwrap();
        assert_eq!(policy.window, WINDOW);
        assert_eq!(policy.warms_up(), Duration::from_secs(120));
        assert_eq!(policy.rules[0].count, Count::Critical);
        assert_eq!(policy.rules[1].count, Count::Muted);
        let again = serde_json::to_string(&policy).unwrap();
        assert_eq!(
            serde_json::from_str::<HealthPolicy>(&again).unwrap(),
            policy
        );
        assert!(again.contains(r#""window":"1m","warm_up":"2m""#), "{again}");
        let wrong = WRITTEN.replace("\"1m\"", "\"60\"");
        let error = serde_json::from_str::<HealthPolicy>(&wrong).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("`60` is no length of time: write it as 60s")
        );
    }

    #[test]
    fn thresholds_that_are_none_are_refused() {
        for wrong in ["", "%", "x%", "12 apples", "NaN", "inf%"] {
            let error = Threshold::from(wrong).value().unwrap_err();
            assert!(error.ends_with("write a number, 2% or 250ms"), "{error}");
        }
        assert!(Threshold::from(" 0.5 % ").value().is_ok());
    }
}
