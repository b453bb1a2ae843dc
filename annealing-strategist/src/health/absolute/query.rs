//! Selects series of a metric by its name and by labels.

use std::collections::BTreeMap;

use jiff::Timestamp;
use plugin_sdk::{SampleQuery, Series};
use prodspec_model::AssetId;
use serde::{Deserialize, Serialize};

/// Selects series of one metric, for any asset. Made by [`of`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Of {
    metric: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    beginnings: BTreeMap<String, String>,
}

/// Selects all series of the metric with this name.
pub fn of(metric: impl Into<String>) -> Of {
    Of {
        metric: metric.into(),
        labels: BTreeMap::new(),
        beginnings: BTreeMap::new(),
    }
}

impl Of {
    /// Keeps only series whose label `name` is `value`.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(name.into(), value.into());
        self
    }

    /// Keeps only series whose label `name` begins with `value`: `beginning("code", "5")` selects server errors.
    #[must_use]
    pub fn beginning(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.beginnings.insert(name.into(), value.into());
        self
    }

    /// Returns the name of the metric.
    pub fn metric(&self) -> &str {
        &self.metric
    }

    /// Returns the query for all series of the metric that the asset has in the window; [`Of::takes`] then chooses.
    pub(super) fn ask(&self, asset: &AssetId, from: Timestamp, to: Timestamp) -> SampleQuery {
        SampleQuery {
            metric: self.metric.clone(),
            labels: BTreeMap::new(),
            asset: asset.clone(),
            from,
            to,
        }
    }

    /// Whether a series is selected. A series without samples may lack the labels: it could be one that is selected.
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
