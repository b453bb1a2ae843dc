//! Samples of one asset's metrics, as a program reads them from the processes themselves.

use std::{collections::BTreeMap, time::Duration};

use async_trait::async_trait;
use jiff::Timestamp;
use prodspec_model::AssetId;
use serde::{Deserialize, Serialize};

use crate::error::BoxError;

/// A query for one metric of one asset over a window of time, for a [`SampleSource`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SampleQuery {
    /// Name of the metric to read.
    pub metric: String,
    /// Labels that a series must have to match.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// The asset whose metric is read.
    pub asset: AssetId,
    /// Start of the window, wall-clock time.
    pub from: Timestamp,
    /// End of the window, wall-clock time, included.
    pub to: Timestamp,
}

impl SampleQuery {
    /// A query for `metric` of `asset` between two wall-clock times, both included.
    pub fn new(metric: impl Into<String>, asset: AssetId, from: Timestamp, to: Timestamp) -> Self {
        Self {
            metric: metric.into(),
            labels: BTreeMap::new(),
            asset,
            from,
            to,
        }
    }

    /// Adds a label that a series must have.
    #[must_use]
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(name.into(), value.into());
        self
    }
}

/// One series of a metric: its labels, and its samples in the order of their times.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Labels that identify the series.
    pub labels: BTreeMap<String, String>,
    /// Samples, each a wall-clock time and a value.
    pub samples: Vec<(Timestamp, f64)>,
}

impl Series {
    /// A series without labels. The samples are in the order of their times.
    pub fn new(samples: impl IntoIterator<Item = (Timestamp, f64)>) -> Self {
        Self {
            labels: BTreeMap::new(),
            samples: samples.into_iter().collect(),
        }
    }

    /// Adds a label that identifies the series.
    #[must_use]
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(name.into(), value.into());
        self
    }

    /// The increase of a counter over the samples. A reset counter starts from zero again. `None`: fewer than two
    /// samples, or a sample is not finite.
    pub fn increase(&self) -> Option<f64> {
        let rise = |pair: &[(Timestamp, f64)]| match (pair[0].1, pair[1].1) {
            (before, after) if !(before.is_finite() && after.is_finite()) => None,
            (before, after) if after >= before => Some(after - before),
            (_, after) => Some(after),
        };
        match self.samples.len() {
            0 | 1 => None,
            _ => self.samples.windows(2).map(rise).sum(),
        }
    }

    /// Time between the first and the last sample. Zero with fewer than two samples.
    pub fn span(&self) -> Duration {
        match (self.samples.first(), self.samples.last()) {
            (Some((first, _)), Some((last, _))) => last
                .duration_since(*first)
                .try_into()
                .unwrap_or(Duration::ZERO),
            _ => Duration::ZERO,
        }
    }
}

/// A source of samples, such as a scraper or a test.
///
/// ```
/// use std::collections::BTreeMap;
/// use plugin_sdk::{BoxError, SampleQuery, SampleSource, Series};
/// use prodspec_model::AssetId;
///
/// /// Samples by asset and metric, as a scraper keeps them.
/// struct Scraped(BTreeMap<(AssetId, String), Vec<(jiff::Timestamp, f64)>>);
///
/// #[async_trait::async_trait]
/// impl SampleSource for Scraped {
///     async fn read(&self, query: SampleQuery) -> Result<Vec<Series>, BoxError> {
///         let samples = self.0.get(&(query.asset, query.metric)).into_iter().flatten();
///         let within = |(at, _): &&(jiff::Timestamp, f64)| (query.from..=query.to).contains(at);
///         // A scraper with labels returns one series for each set of them that matches `query.labels`.
///         Ok(vec![Series::new(samples.filter(within).copied())])
///     }
/// }
/// ```
#[async_trait]
pub trait SampleSource: Send + Sync + 'static {
    /// Reads every series that matches, with its samples in the window. No series, or only series without samples,
    /// means that there is no data. Windows of the past are read, too: the hour before a window tells whether a counter
    /// appeared in it (R106).
    ///
    /// # Errors
    /// If the metrics cannot be read.
    async fn read(&self, query: SampleQuery) -> Result<Vec<Series>, BoxError>;
}
