//! Which series of a metric are meant: its name, and what their labels must be.

use std::collections::BTreeMap;

use jiff::Timestamp;
use plugin_sdk::{MetricQuery, Series};
use prodspec_model::AssetId;
use serde::{Deserialize, Serialize};

/// Series of one metric, of whichever asset is asked about. Made by [`of`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Of {
    metric: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    beginnings: BTreeMap<String, String>,
}

/// All series of the metric named so.
pub fn of(metric: impl Into<String>) -> Of {
    Of {
        metric: metric.into(),
        labels: BTreeMap::new(),
        beginnings: BTreeMap::new(),
    }
}

impl Of {
    /// Only series whose label `name` is `value`.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(name.into(), value.into());
        self
    }

    /// Only series whose label `name` begins with `value`: `beginning("code", "5")` is every server error.
    #[must_use]
    pub fn beginning(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.beginnings.insert(name.into(), value.into());
        self
    }

    /// The metric's name.
    pub fn metric(&self) -> &str {
        &self.metric
    }

    /// Everything of the metric that the asset has in the window; [`Of::takes`] chooses from it.
    pub(super) fn ask(&self, asset: &AssetId, from: Timestamp, to: Timestamp) -> MetricQuery {
        MetricQuery {
            metric: self.metric.clone(),
            labels: BTreeMap::new(),
            asset: asset.clone(),
            from,
            to,
        }
    }

    /// Whether a series is meant. Of one without samples, labels that it does not have are not held against it: nobody
    /// knows what it would have been.
    pub(super) fn takes(&self, series: &Series) -> bool {
        let fits = |name: &String, fits: &dyn Fn(&str) -> bool| match series.labels.get(name) {
            Some(value) => fits(value),
            None => series.samples.is_empty(),
        };
        let is = |(name, wanted): (&String, &String)| fits(name, &|value| value == wanted);
        let begins = |(name, wanted): (&String, &String)| {
            fits(name, &|value| value.starts_with(wanted.as_str()))
        };
        self.labels.iter().all(is) && self.beginnings.iter().all(begins)
    }
}
