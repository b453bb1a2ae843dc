//! Where alerts come from: a seam of its own, so that any alerting system fits.

use std::{collections::BTreeMap, fmt, sync::Arc};

use async_trait::async_trait;
use jiff::Timestamp;
use plugin_sdk::BoxError;
use serde_json::{Value, json};

/// An alert that fires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alert {
    /// Its name.
    pub name: String,
    /// What it is about, `cluster` = `eu` say.
    pub labels: BTreeMap<String, String>,
    /// Since when, if known.
    pub since: Option<Timestamp>,
}

impl Alert {
    /// An alert without labels, since nobody knows when.
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            labels: BTreeMap::new(),
            since: None,
        }
    }

    /// Adds a label.
    #[must_use]
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(name.into(), value.into());
        self
    }

    pub(super) fn evidence(&self) -> Value {
        json!({"name": self.name, "labels": self.labels, "since": self.since})
    }
}

impl fmt::Display for Alert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        let labels: Vec<String> = self
            .labels
            .iter()
            .map(|(k, v)| format!("{k} {v}"))
            .collect();
        if !labels.is_empty() {
            write!(f, " ({})", labels.join(", "))?;
        }
        match self.since {
            Some(since) => write!(f, " since {since}"),
            None => Ok(()),
        }
    }
}

/// Everything that fires, as of one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signals {
    /// The alerts that fire. Pending and silenced ones do not.
    pub firing: Vec<Alert>,
    /// When production was looked at: the time of the evaluation, not of the question.
    pub as_of: Timestamp,
}

/// Where alerts come from: Alertmanager, Prometheus, a pager, a test.
///
/// ```
/// use annealing_checks::monitoring::{Alert, SignalSource, Signals};
/// use jiff::Timestamp;
/// use plugin_sdk::BoxError;
///
/// /// A file with one alert per line, written whenever something changes or a minute has passed.
/// struct AlertFile(std::path::PathBuf);
///
/// #[async_trait::async_trait]
/// impl SignalSource for AlertFile {
///     async fn firing(&self) -> Result<Signals, BoxError> {
///         let as_of = Timestamp::try_from(self.0.metadata()?.modified()?)?;
///         let firing = std::fs::read_to_string(&self.0)?.lines().map(Alert::named).collect();
///         Ok(Signals { firing, as_of })
///     }
/// }
/// ```
#[async_trait]
pub trait SignalSource: Send + Sync + 'static {
    /// Everything that fires now. An error is taken for missing data.
    async fn firing(&self) -> Result<Signals, BoxError>;
}

#[async_trait]
impl<S: SignalSource + ?Sized> SignalSource for Arc<S> {
    async fn firing(&self) -> Result<Signals, BoxError> {
        (**self).firing().await
    }
}
