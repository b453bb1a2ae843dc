//! A Prometheus server, and its alerts as its rules are evaluated.

use std::collections::BTreeMap;

use async_trait::async_trait;
use jiff::Timestamp;
use plugin_sdk::{Alert, BoxError, SignalSource, Signals};
use serde::Deserialize;

use crate::{
    Error,
    alertmanager::named,
    server::{Answer, Connection, Server},
};

/// Time that an evaluation may take beyond its interval, in seconds.
const GRACE: f64 = 15.0;

/// The alerts of a Prometheus server that fire, without the silences of an Alertmanager.
///
/// The rules are read, not only the alerts: a rule that cannot be evaluated, or is not evaluated at its interval, cannot
/// fire. Then the alerts cannot be read, and so it is if the server has no alerting rules or warns.
///
/// ```
/// use plugins_prometheus::{Prometheus, Server};
///
/// let prometheus = Prometheus::new(Server::at("http://prometheus:9090")?)?;
/// # Ok::<(), plugins_prometheus::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Prometheus(pub(crate) Connection);

impl Prometheus {
    /// Makes a source of the alerts of `server`. Nothing is asked yet.
    ///
    /// # Errors
    /// If connections with TLS cannot be prepared.
    pub fn new(server: Server) -> Result<Self, Error> {
        server.connect().map(Self)
    }

    fn read(&self, envelope: Envelope, now: Timestamp) -> Result<Vec<Alert>, Error> {
        let server = || self.0.server.to_string();
        if let Some(warning) = envelope.warnings.into_iter().next() {
            let server = server();
            return Err(Error::Warning { server, warning });
        }
        let more = envelope.data.group_next_token;
        if more.is_some_and(|token| !token.is_empty()) {
            let (server, warning) = (server(), "there are more rule groups".to_owned());
            return Err(Error::Warning { server, warning });
        }
        let groups = envelope.data.groups;
        let groups: Vec<Group> = groups
            .into_iter()
            .filter(|it| !it.rules.is_empty())
            .collect();
        if groups.is_empty() {
            return Err(Error::NoRules { server: server() });
        }
        let mut firing = Vec::new();
        for group in groups {
            if group.is_late(now) {
                return Err(Error::Late {
                    server: server(),
                    group: group.name,
                    last: group.last_evaluation,
                    every: group.interval,
                });
            }
            for rule in group.rules {
                if rule.health != "ok" {
                    let why = rule.last_error.filter(|why| !why.is_empty());
                    return Err(Error::Rule {
                        server: server(),
                        rule: rule.name,
                        why: why.unwrap_or_else(|| format!("its health is {}", rule.health)),
                    });
                }
                // Some servers leave out the alerts of a rule that has none.
                let alerts = match rule.alerts {
                    None if rule.state != "inactive" => {
                        return Err(Error::Rule {
                            server: server(),
                            rule: rule.name,
                            why: format!("it is {}, and its alerts are missing", rule.state),
                        });
                    }
                    alerts => alerts.into_iter().flatten(),
                };
                let alerts = alerts.filter(|alert| alert.state == "firing");
                firing.extend(alerts.map(|alert| named(alert.labels).since(alert.active_at)));
            }
        }
        Ok(firing)
    }
}

#[async_trait]
impl SignalSource for Prometheus {
    async fn firing(&self) -> Result<Signals, BoxError> {
        let Answer { body, date } = self.0.get("/api/v1/rules?type=alert").await?;
        Ok(Signals {
            firing: self.read(body, date)?,
            as_of: date,
        })
    }
}

/// The answer of Prometheus, if it succeeds. Other answers have another status.
#[derive(Debug, Deserialize)]
struct Envelope {
    data: Groups,
    #[serde(default)]
    warnings: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Groups {
    groups: Vec<Group>,
    /// Set if the server answers in pages and this is not the last one.
    group_next_token: Option<String>,
}

/// A group of rules, which are evaluated together.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Group {
    name: String,
    /// In seconds.
    interval: f64,
    last_evaluation: Timestamp,
    rules: Vec<Rule>,
}

/// An alerting rule, with its alerts.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rule {
    name: String,
    state: String,
    health: String,
    last_error: Option<String>,
    alerts: Option<Vec<Active>>,
}

/// An alert that is pending or fires.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Active {
    labels: BTreeMap<String, String>,
    state: String,
    active_at: Timestamp,
}

impl Group {
    /// Whether one evaluation is missing.
    fn is_late(&self, now: Timestamp) -> bool {
        let age = now.duration_since(self.last_evaluation).as_secs_f64();
        age > 2.0 * self.interval + GRACE
    }
}
