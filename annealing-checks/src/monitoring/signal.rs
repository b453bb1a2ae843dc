//! The interface to alerting systems.

use std::{collections::BTreeMap, fmt, sync::Arc};

use async_trait::async_trait;
use jiff::Timestamp;
use plugin_sdk::BoxError;
use serde_json::{Value, json};

/// An alert that fires now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alert {
    /// Name of the alert in the alerting system.
    pub name: String,
    /// Labels of the alert, such as `cluster` = `eu`. They decide its scope.
    pub labels: BTreeMap<String, String>,
    /// Time since which the alert fires. `None`: unknown.
    pub since: Option<Timestamp>,
}

impl Alert {
    /// Makes an alert without labels and without a start time.
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            labels: BTreeMap::new(),
            since: None,
        }
    }

    /// Adds a label to the alert.
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

/// All alerts that fire at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signals {
    /// The alerts that fire, without pending and silenced ones.
    pub firing: Vec<Alert>,
    /// Time at which the alerts were evaluated, not the time of the request.
    pub as_of: Timestamp,
}

/// A source of alerts: Alertmanager, Prometheus, a pager, a test.
///
/// ```
/// use annealing_checks::monitoring::{Alert, SignalSource, Signals};
/// use jiff::Timestamp;
/// use plugin_sdk::BoxError;
///
/// /// A file with one alert per line. It is rewritten when an alert changes, and at least once a minute.
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
    /// Reads the alerts that fire now.
    ///
    /// # Errors
    /// If the alerts cannot be read. Pushes wait then.
    async fn firing(&self) -> Result<Signals, BoxError>;
}

#[async_trait]
impl<S: SignalSource + ?Sized> SignalSource for Arc<S> {
    async fn firing(&self) -> Result<Signals, BoxError> {
        (**self).firing().await
    }
}
