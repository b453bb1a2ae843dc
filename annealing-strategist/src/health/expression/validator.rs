//! [`ByExpression`], the validator: reads the expression once per window, and judges the assets by their series.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use futures::lock::Mutex;
use jiff::Timestamp;
use plugin_sdk::{
    BoxError, Finding, Health, HealthRequest, HealthValidator, Judgement, MetricQuery,
    MetricReading, MetricSource, Watched, Windows,
};

use super::{Rule, seen::Seen};
use crate::health::scope::Role;

/// Number of readings that are kept: of the newest windows, and of those before live rollouts began.
const KEPT: usize = 16;

/// A validator that compares the values of an expression with a bound. Its rules are listed in the [module](super).
#[derive(Clone)]
pub struct ByExpression(Arc<Inner>);

struct Inner {
    rule: Rule,
    source: Box<dyn MetricSource>,
    /// The last readings. Locked while the source is read, so that others wait for its answer.
    readings: Mutex<VecDeque<(Windows, Arc<Table>)>>,
}

/// The values of one window, by the labels of their series.
struct Table {
    values: BTreeMap<Vec<String>, Vec<f64>>,
    as_of: Timestamp,
}

impl Table {
    fn of(reading: MetricReading, labels: &[String], window: Windows) -> Self {
        let mut values: BTreeMap<_, Vec<f64>> = BTreeMap::new();
        for series in reading.series {
            let key = labels.iter().map(|label| series.labels.get(label).cloned());
            let key: Option<Vec<String>> = key.collect();
            let at_end = series.samples.iter().find(|(end, _)| *end == window.last);
            if let (Some(key), Some((_, value))) = (key, at_end) {
                values.entry(key).or_default().push(*value);
            }
        }
        let as_of = reading.as_of;
        Self { values, as_of }
    }
}

impl ByExpression {
    pub(super) fn new(rule: Rule, source: impl MetricSource) -> Self {
        Self(Arc::new(Inner {
            rule,
            source: Box::new(source),
            readings: Mutex::default(),
        }))
    }

    /// The values of a window. It is read once; a source that fails is read again at the next look.
    async fn table(&self, window: Windows) -> Result<Arc<Table>, BoxError> {
        let mut readings = self.0.readings.lock().await;
        if let Some((_, known)) = readings.iter().find(|(of, _)| *of == window) {
            return Ok(known.clone());
        }
        let reading = self.0.source.read(self.query(window)).await?;
        let labels = &self.0.rule.measured.expression.labels;
        let table = Arc::new(Table::of(reading, labels, window));
        readings.truncate(KEPT - 1);
        readings.push_front((window, table.clone()));
        Ok(table)
    }

    /// The values of an asset's series in a window.
    fn values(&self, request: &HealthRequest, asset: &Watched, table: &Table) -> Vec<f64> {
        let measured = &self.0.rule.measured;
        let key = match measured.of.is_empty() {
            true => Some(Vec::new()),
            false => {
                let asset = request.reader.get(&asset.asset);
                asset.and_then(|asset| measured.key(&asset))
            }
        };
        let found = key.and_then(|key| table.values.get(&key));
        found.cloned().unwrap_or_default()
    }

    fn seen(
        &self,
        request: &HealthRequest,
        (watched, role): (Watched, Role),
        (window, table): (Windows, &Table),
    ) -> Seen {
        let rule = &self.0.rule;
        Seen {
            values: self.values(request, &watched, table),
            asset: watched.asset,
            role,
            incarnation: request.to.clone(),
            policy: request.policy,
            expression: rule.measured.expression.clone(),
            bound: rule.bound,
            since: watched.since,
            window,
            before: None,
        }
    }

    /// R21: a neighbour that is not healthy is compared with its state before the rollout began.
    async fn look_back(&self, request: &HealthRequest, seen: &mut Seen) -> Result<(), BoxError> {
        let is_ill = seen.role == Role::Neighbour && seen.judged().0 != Judgement::Healthy;
        let Some(began) = request.began.filter(|_| is_ill) else {
            return Ok(());
        };
        let before = Windows::closed(self.0.rule.over, Duration::ZERO, began);
        let table = self.table(before).await?;
        let asset = Watched::new(seen.asset.clone(), seen.since);
        seen.before = Some((before, self.values(request, &asset, &table)));
        Ok(())
    }

    fn finding(&self, seen: &Seen) -> Result<Finding, BoxError> {
        let (judgement, why) = seen.judged();
        let finding = Finding::new(judgement, format!("{}: {why}", seen.asset));
        let finding = finding.validator(self.0.rule.name.clone());
        Ok(finding.because(serde_json::to_value(seen)?))
    }

    fn query(&self, window: Windows) -> MetricQuery {
        MetricQuery {
            expression: self.0.rule.measured.expression.clone(),
            windows: window,
        }
    }
}

#[async_trait]
impl HealthValidator for ByExpression {
    fn name(&self) -> Arc<str> {
        self.0.rule.name.clone()
    }

    async fn validate(&self, request: HealthRequest) -> Result<Health, BoxError> {
        let asked = self.0.rule.scope.of(&request);
        if asked.is_empty() {
            return Ok(request.healthy());
        }
        let window = Windows::closed(self.0.rule.over, Windows::SETTLE, request.now);
        let table = self.table(window).await?;
        let mut health = Health::healthy(table.as_of.min(request.now));
        let age = request.now.duration_since(table.as_of);
        let behind = self.query(window).behind(table.as_of, age);
        let behind = behind.map(|why| Finding::new(Judgement::Unknown, why));
        let behind = behind.map(|it| it.validator(self.0.rule.name.clone()));
        health.findings.extend(behind);
        for one in asked {
            let role = one.1;
            let mut seen = self.seen(&request, one, (window, &table));
            self.look_back(&request, &mut seen).await?;
            let finding = self.finding(&seen)?;
            let is_bad = finding.judgement == Judgement::Unhealthy;
            // Healthy neighbours may be many, and show nothing.
            let is_shown = match role {
                Role::Updated => true,
                Role::UnderWay => is_bad,
                Role::Neighbour => finding.judgement != Judgement::Healthy || seen.before.is_some(),
            };
            health.findings.extend(Some(finding).filter(|_| is_shown));
        }
        let worst = health.findings.iter().map(|it| it.judgement).max();
        health.judgement = worst.unwrap_or(Judgement::Healthy);
        Ok(health)
    }
}

impl fmt::Debug for ByExpression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ByExpression")
            .field("rule", &self.0.rule)
            .finish_non_exhaustive()
    }
}
