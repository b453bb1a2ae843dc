//! Alerts of production, for checks and for health: [`SignalSource`] reads them from an alerting system.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use crate::error::BoxError;

/// An alert that fires now.
///
/// An alert that is inhibited, because a worse one fires, fires too. A silenced one does not: a person has taken
/// responsibility for it. It is listed, so that it can be shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Alert {
    /// Name of the alert in the alerting system.
    pub name: String,
    /// Labels of the alert, such as `cluster` = `eu`. They decide its scope.
    pub labels: BTreeMap<String, String>,
    /// Time since which the alert fires. `None`: unknown.
    pub since: Option<Timestamp>,
    /// The silence that a person has set for the alert. `None`: it is not silenced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub silenced: Option<Silence>,
    /// Whether the alerting system holds the alert back because of another one that fires.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub inhibited: bool,
}

/// A silence: until its end, an alert counts for nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Silence {
    /// The person or program that has set the silence.
    pub by: String,
    /// Time at which the silence ends. `None`: unknown.
    pub until: Option<Timestamp>,
}

impl Alert {
    /// Makes an alert without labels and without a start time.
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            labels: BTreeMap::new(),
            since: None,
            silenced: None,
            inhibited: false,
        }
    }

    /// Adds a label to the alert.
    #[must_use]
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(name.into(), value.into());
        self
    }

    /// Sets the time since which the alert fires.
    #[must_use]
    pub fn since(mut self, since: impl Into<Option<Timestamp>>) -> Self {
        self.since = since.into();
        self
    }

    /// Marks the alert as silenced.
    #[must_use]
    pub fn silenced(mut self, silence: impl Into<Option<Silence>>) -> Self {
        self.silenced = silence.into();
        self
    }

    /// Marks the alert as inhibited.
    #[must_use]
    pub fn inhibited(mut self, inhibited: bool) -> Self {
        self.inhibited = inhibited;
        self
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
        if let Some(since) = self.since {
            write!(f, " since {since}")?;
        }
        match &self.silenced {
            Some(silence) => write!(f, ", {silence}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Silence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "silenced by {}", self.by)?;
        match self.until {
            Some(until) => write!(f, " until {until}"),
            None => Ok(()),
        }
    }
}

/// All alerts that fire at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signals {
    /// The alerts that fire, inhibited and silenced ones included, pending ones not.
    pub firing: Vec<Alert>,
    /// Time at which the alerts were evaluated, not the time of the request.
    pub as_of: Timestamp,
}

impl Signals {
    /// Returns why these signals cannot be trusted: they are older than `max_age`, or as much ahead of the clock, or
    /// `watchdog`, an alert that always fires while alerting works, does not fire. `None`: they can be trusted.
    ///
    /// `age` is the time since [`as_of`](Self::as_of) by the caller's clock, negative if that is in the future.
    pub fn blind(
        &self,
        age: SignedDuration,
        max_age: Duration,
        watchdog: Option<&str>,
    ) -> Option<String> {
        let as_of = self.as_of;
        if age.unsigned_abs() > max_age {
            return Some(match age.is_negative() {
                false => format!(
                    "the newest alerts, from {as_of}, are {age:#} old: repair the monitoring"
                ),
                true => format!(
                    "the newest alerts, from {as_of}, are {:#} ahead of this process's clock: correct the clock that is \
                     wrong",
                    age.abs()
                ),
            });
        }
        let watchdog = watchdog?;
        let fires = self.firing.iter().any(|alert| alert.name == watchdog);
        (!fires).then(|| {
            format!("the alert `{watchdog}` should always fire and does not: repair the monitoring")
        })
    }
}

/// A source of alerts: Alertmanager, Prometheus, a pager, a test.
///
/// ```
/// use jiff::Timestamp;
/// use plugin_sdk::{Alert, BoxError, SignalSource, Signals};
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
