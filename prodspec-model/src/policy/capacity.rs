//! Capacity as intent: no push takes the serving capacity of a scope below its peak usage.

use std::time::Duration;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AssetField, Exception, span};
use crate::{filter::Filter, message::Message};

/// Default time back to which the peak is looked for.
const WINDOW: Duration = Duration::from_secs(7 * 24 * 3600);

/// Pushes that take serving capacity away wait while too little would be left (R109), whatever their cause is, except in an
/// emergency.
///
/// ```
/// use prodspec_model::policy::CapacityPolicy;
///
/// let written = r#"{"of": {"types": ["shakespeare.v1.FrontendJob"]}, "unit": "qps", "per": "addon.PhysicalCluster.cluster",
///     "usage": {"expression": "sum by (cluster) (rate(http_requests_total[5m]))", "label": "cluster"}, "headroom": 1.2}"#;
/// let frontends: CapacityPolicy = serde_json::from_str(written)?;
/// assert_eq!(frontends.peak.window.as_secs(), 7 * 24 * 3600);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename = "prodspec.v1.CapacityPolicy")]
#[schemars(deny_unknown_fields)]
pub struct CapacityPolicy {
    /// The assets whose capacity is counted.
    pub of: Filter,
    /// The unit of the capacity that plugins observe, such as `qps`.
    pub unit: String,
    /// Assets with the same text in this field are counted together, apart from others. `None`: all together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per: Option<AssetField>,
    /// The usage whose peak must be served.
    pub usage: Usage,
    /// The number by which the peak is multiplied, such as 1.2.
    #[serde(default = "one")]
    pub headroom: f64,
    /// The time in which the peak is looked for.
    #[serde(default, skip_serializing_if = "is_default")]
    pub peak: Peak,
    /// Named exceptions, each with an end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub except: Vec<Exception>,
}

/// The usage of capacity: an expression that a source of metrics evaluates, or a number in the assets themselves.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Usage {
    /// An expression in the language of the source, such as PromQL. It is evaluated each 5 min, in the unit of the capacity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expression: Option<String>,
    /// The name of the source of metrics. May be left out if there is one source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The label of the series that has the same text as the field `per` of the assets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Instead of an expression: a field of the assets with a number, which is added up, such as `addon.Peak.qps`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<AssetField>,
}

/// The time in which the largest usage is looked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Peak {
    /// How far it goes back: `1d` to `30d`.
    #[serde(default = "window", with = "span")]
    #[schemars(with = "String")]
    pub window: Duration,
    /// Times whose usage does not count.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub except: Vec<Without>,
}

/// A time whose usage does not count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Without {
    /// Start of the time that does not count.
    #[schemars(with = "String")]
    pub from: Timestamp,
    /// End of the time that does not count.
    #[schemars(with = "String")]
    pub until: Timestamp,
    /// The reason, such as a storm of retries.
    pub why: String,
}

impl Default for Peak {
    fn default() -> Self {
        Self {
            window: WINDOW,
            except: Vec::new(),
        }
    }
}

fn is_default(peak: &Peak) -> bool {
    *peak == Peak::default()
}

fn window() -> Duration {
    WINDOW
}

fn one() -> f64 {
    1.0
}

impl Message for CapacityPolicy {
    const TYPE: &'static str = "prodspec.v1.CapacityPolicy";
}
