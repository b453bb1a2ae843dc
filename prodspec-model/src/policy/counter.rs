//! Counters: the numbers of events that a program has counted.

use std::{collections::BTreeMap, fmt};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Counters of one metric.
///
/// ```
/// use prodspec_model::policy::Counter;
///
/// let errors = Counter::of("http_requests_total").with("code", "5..");
/// assert_eq!(errors.to_string(), r#"http_requests_total{code=~"5.."}"#);
/// ```
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[schemars(deny_unknown_fields)]
pub struct Counter {
    /// Name of the metric, such as `http_requests_total`.
    pub of: String,
    /// Regular expressions that the labels of its series must match as a whole, such as `code` and `5..`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub with: BTreeMap<String, String>,
}

impl Counter {
    /// All counters of the metric with this name.
    pub fn of(metric: impl Into<String>) -> Self {
        let (of, with) = (metric.into(), BTreeMap::new());
        Self { of, with }
    }

    /// Keeps only counters whose label matches a regular expression as a whole.
    #[must_use]
    pub fn with(mut self, label: impl Into<String>, matches: impl Into<String>) -> Self {
        self.with.insert(label.into(), matches.into());
        self
    }
}

impl fmt::Display for Counter {
    /// Writes the counters as PromQL does.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.of)?;
        let with = self.with.iter();
        let with: Vec<String> = with.map(|(label, it)| format!("{label}=~{it:?}")).collect();
        match with.is_empty() {
            true => Ok(()),
            false => write!(f, "{{{}}}", with.join(",")),
        }
    }
}
