//! Metrics of production. [`MetricSource`] evaluates expressions over closed windows, one request for all assets in a scope;
//! [`SampleSource`] reads the samples of one asset.

mod sample;
mod window;

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
pub use prodspec_model::policy::Counter;
use serde::{Deserialize, Serialize};

pub use sample::{SampleQuery, SampleSource, Series};
pub use window::Windows;

use crate::{error::BoxError, problem::Problem};

/// The quantity that is measured, and the labels by which its series differ.
///
/// ```
/// use plugin_sdk::{Counter, Expression};
///
/// // In the language of the source. `$window` stands for the length of the window.
/// let latency = Expression::new("histogram_quantile(0.95, sum by (job, le) (rate(latency_bucket[$window])))").by("job");
/// // The number of failed requests in the window.
/// let errors = Expression::counter(Counter::of("http_requests_total").with("code", "5..")).by("job");
/// # assert_eq!(errors.to_string(), r#"http_requests_total{code=~"5.."}"#);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Expression {
    /// The quantity whose values are compared.
    pub of: Quantity,
    /// The labels that every series of its result must have, such as `cluster`.
    pub labels: Vec<String>,
}

/// A quantity that a [`MetricSource`] measures.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// A text in the language of the source, such as PromQL. It may contain `$window`.
    Text(String),
    /// The number of events that counters have counted in the window, added up for each set of labels.
    ///
    /// R106: a counter that appears in the window counts from zero if its metric has older samples with the same labels. If it
    /// has none, there is no value, because its first sample can hold events of any time. A counter that does not exist has
    /// counted nothing, if its metric has samples with the same labels in the window.
    Counter(Counter),
}

impl Expression {
    /// Makes an expression from a text in the language of its source. Its result may have any labels.
    pub fn new(text: impl Into<String>) -> Self {
        let (of, labels) = (Quantity::Text(text.into()), Vec::new());
        Self { of, labels }
    }

    /// Makes an expression of the number of events in the window.
    pub fn counter(counter: Counter) -> Self {
        let (of, labels) = (Quantity::Counter(counter), Vec::new());
        Self { of, labels }
    }

    /// Adds a label that every series of the result must have.
    #[must_use]
    pub fn by(mut self, label: impl Into<String>) -> Self {
        self.labels.push(label.into());
        self
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.of {
            Quantity::Text(text) => f.write_str(text),
            Quantity::Counter(counter) => counter.fmt(f),
        }
    }
}

/// A question to a [`MetricSource`]: an expression over windows of time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MetricQuery {
    /// The expression that is evaluated in each window.
    pub expression: Expression,
    /// The windows, which are closed.
    pub windows: Windows,
}

impl MetricQuery {
    /// Returns why an answer does not count that knows production up to `as_of`: that is too old for the newest window, or of
    /// another clock. `None`: it counts.
    ///
    /// `age` is the time since `as_of` by the caller's clock, negative if that is in the future.
    pub fn behind(&self, as_of: Timestamp, age: SignedDuration) -> Option<String> {
        let most = self.windows.length.saturating_add(Windows::SETTLE * 2);
        (age.unsigned_abs() > most).then(|| {
            format!(
                "the newest values of `{}` are from {as_of}: repair the monitoring, or correct the clock that is wrong",
                self.expression,
            )
        })
    }
}

/// The answer of a [`MetricSource`]: for each series at most one value per window.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MetricReading {
    /// The series, with different labels. The time of each value is the end of its window.
    pub series: Vec<Series>,
    /// Time up to which the source knows production: the end of the last window, or earlier if the source is behind.
    pub as_of: Timestamp,
    /// Remarks of the source that do not put the values in doubt, to be shown.
    pub infos: Vec<String>,
}

/// A source of metrics that evaluates expressions: Prometheus, servers that speak its language, a program's own.
///
/// Requests follow expressions and windows, never assets: a caller reads once for all assets.
///
/// ```
/// use plugin_sdk::{BoxError, Expression, MetricQuery, MetricReading, MetricSource, Problem, Series};
///
/// /// The share of memory that each cluster uses, from a file that a program rewrites.
/// struct Memory(std::path::PathBuf);
///
/// #[async_trait::async_trait]
/// impl MetricSource for Memory {
///     fn accepts(&self, expression: &Expression) -> Result<(), Problem> {
///         match expression.to_string().as_str() {
///             "memory" => Ok(()),
///             other => Err(Problem::new(format!("there is no metric `{other}`: write `memory`"))),
///         }
///     }
///
///     async fn read(&self, query: MetricQuery) -> Result<MetricReading, BoxError> {
///         let as_of = jiff::Timestamp::try_from(self.0.metadata()?.modified()?)?;
///         let at = query.windows.last;
///         // One line for each cluster: its name and a number.
///         let series = std::fs::read_to_string(&self.0)?.lines().map(|line| {
///             let (cluster, share) = line.split_once(' ').ok_or("a line without a share")?;
///             Ok(Series::new([(at, share.parse()?)]).label("cluster", cluster))
///         }).collect::<Result<_, BoxError>>()?;
///         Ok(MetricReading { series, as_of: as_of.min(at), infos: Vec::new() })
///     }
/// }
/// ```
#[async_trait]
pub trait MetricSource: Send + Sync + 'static {
    /// Checks an expression without asking any server: its syntax, and that its series keep the labels it names.
    ///
    /// # Errors
    /// The problem of the expression, and how to write it instead.
    fn accepts(&self, expression: &Expression) -> Result<(), Problem>;

    /// Evaluates an expression in closed windows. A window without a value is absent from its series.
    ///
    /// # Errors
    /// If the values cannot be read, or the source warns that they are not complete.
    async fn read(&self, query: MetricQuery) -> Result<MetricReading, BoxError>;
}

#[async_trait]
impl<S: MetricSource + ?Sized> MetricSource for Arc<S> {
    fn accepts(&self, expression: &Expression) -> Result<(), Problem> {
        (**self).accepts(expression)
    }

    async fn read(&self, query: MetricQuery) -> Result<MetricReading, BoxError> {
        (**self).read(query).await
    }
}
