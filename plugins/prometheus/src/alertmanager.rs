//! Alerts from Alertmanager, with its silences.

use std::collections::BTreeMap;

use async_trait::async_trait;
use jiff::Timestamp;
use plugin_sdk::{Alert, BoxError, SignalSource, Signals, Silence};
use serde::Deserialize;

use crate::{
    Error,
    server::{Answer, Connection, Server},
};

/// The path of all alerts that fire, whether held back or not.
const ALERTS: &str = "/api/v2/alerts?active=true&silenced=true&inhibited=true&unprocessed=true";

/// The alerts of an Alertmanager, with the silences that people have set there.
///
/// An Alertmanager that no Prometheus reaches has no alerts. Give the check a
/// [watchdog](https://docs.rs/annealing-checks), an alert that always fires, to tell silence from broken alerting.
///
/// ```
/// use plugins_prometheus::{Alertmanager, Server};
///
/// # fn read(ca: &str) -> Result<(), plugins_prometheus::Error> {
/// let alertmanager = Alertmanager::new(Server::at("https://alertmanager:9093")?.ca(ca)?)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Alertmanager(Connection);

impl Alertmanager {
    /// Makes a source of the alerts of `server`. Nothing is asked yet.
    ///
    /// # Errors
    /// If connections with TLS cannot be prepared.
    pub fn new(server: Server) -> Result<Self, Error> {
        server.connect().map(Self)
    }

    /// The silences that are in force, by id.
    async fn silences(&self, now: Timestamp) -> Result<BTreeMap<String, SilenceEntry>, Error> {
        let all: Answer<Vec<SilenceEntry>> = self.0.get("/api/v2/silences").await?;
        let all = all.body.into_iter().filter(|silence| silence.ends_at > now);
        Ok(all.map(|silence| (silence.id.clone(), silence)).collect())
    }
}

#[async_trait]
impl SignalSource for Alertmanager {
    async fn firing(&self) -> Result<Signals, BoxError> {
        let Answer { body, date } = self.0.get::<Vec<AlertEntry>>(ALERTS).await?;
        let is_silenced = |alert: &AlertEntry| !alert.status.silenced_by.is_empty();
        let silences = match body.iter().any(is_silenced) {
            true => self.silences(date).await?,
            false => BTreeMap::new(),
        };
        let firing = body.into_iter().map(|alert| alert.read(&silences));
        Ok(Signals {
            firing: firing.collect(),
            as_of: date,
        })
    }
}

/// An alert as Alertmanager shows it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AlertEntry {
    labels: BTreeMap<String, String>,
    starts_at: Timestamp,
    status: Status,
}

/// Whether Alertmanager holds an alert back.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    silenced_by: Vec<String>,
    inhibited_by: Vec<String>,
}

/// A silence as Alertmanager shows it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SilenceEntry {
    id: String,
    created_by: String,
    ends_at: Timestamp,
}

impl AlertEntry {
    /// An alert counts as silenced only if its silence is found: the longest counts.
    fn read(self, silences: &BTreeMap<String, SilenceEntry>) -> Alert {
        let by = self.status.silenced_by.iter();
        let by = by.filter_map(|id| silences.get(id));
        let longest = by.max_by_key(|silence| silence.ends_at);
        let silence = longest.map(|silence| Silence {
            by: silence.created_by.clone(),
            until: Some(silence.ends_at),
        });
        named(self.labels)
            .since(self.starts_at)
            .silenced(silence)
            .inhibited(!self.status.inhibited_by.is_empty())
    }
}

/// Makes an alert of the labels of one. The label `alertname` becomes its name.
pub(crate) fn named(mut labels: BTreeMap<String, String>) -> Alert {
    let name = labels.remove("alertname").unwrap_or_default();
    let mut alert = Alert::named(name);
    alert.labels = labels;
    alert
}
