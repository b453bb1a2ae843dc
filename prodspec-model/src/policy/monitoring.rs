//! Monitoring as intent: metrics and alerts that hold pushes back.

use std::{collections::BTreeMap, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AssetField, Exception, Threshold, span};
use crate::{filter::Filter, message::Message};

/// Default length of a window.
const WINDOW: Duration = Duration::from_secs(30);

/// Pushes of intent to some assets wait while a metric is above a bound, or is not known.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename = "prodspec.v1.OverloadPolicy")]
#[schemars(deny_unknown_fields)]
pub struct OverloadPolicy {
    /// The assets that the policy holds back.
    pub of: Filter,
    /// The name of the source of metrics. May be left out if there is one source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// An expression in the language of the source, such as PromQL.
    pub expression: String,
    /// The label by which series meet assets, with the field of an asset that has the same text: at most one. Empty: the one series
    /// is about all assets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub assets: BTreeMap<String, AssetField>,
    /// The bound: a number, `80%` or `250ms`. Larger values hold pushes back.
    pub at_most: Threshold,
    /// How often the expression is evaluated, in whole seconds, at most `30s`.
    #[serde(default = "window", with = "span")]
    #[schemars(with = "String")]
    pub window: Duration,
    /// Named exceptions, each with an end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub except: Vec<Exception>,
}

fn window() -> Duration {
    WINDOW
}

impl Message for OverloadPolicy {
    const TYPE: &'static str = "prodspec.v1.OverloadPolicy";
}

/// Pushes of intent to some assets wait while an alert of their scope fires, or alerts cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename = "prodspec.v1.AlertPolicy")]
#[schemars(deny_unknown_fields)]
pub struct AlertPolicy {
    /// The assets that the policy holds back.
    pub of: Filter,
    /// The name of the source of alerts. May be left out if there is one source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The labels of alerts, each with the field of an asset that has the same text. An alert with other text there is about other
    /// assets; one without the label is about all.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub scope: BTreeMap<String, AssetField>,
    /// The name of an alert that always fires while alerting works. While it does not, pushes wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watchdog: Option<String>,
    /// Named exceptions, each with an end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub except: Vec<Exception>,
}

impl Message for AlertPolicy {
    const TYPE: &'static str = "prodspec.v1.AlertPolicy";
}
