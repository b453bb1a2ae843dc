//! [`Absolute`], the validator: queries the source for every asset and judges the answers.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use futures::{StreamExt, future, stream};
use jiff::Timestamp;
use plugin_sdk::{
    BoxError, Finding, Health, HealthRequest, HealthValidator, Judgement, SampleSource, Series,
    with_causes,
};
use prodspec_model::AssetId;

use super::{
    birth::{Births, LOOK_BACK, Start, matters},
    evidence::{Counted, Evidence, Kind},
    query::Of,
    rule::{Measure, Rule},
};
use crate::health::scope::Role;

/// Maximum number of concurrent queries.
const AT_ONCE: usize = 16;

/// A validator that compares a query with a bound. Its rules are listed in the [module](super).
#[derive(Clone)]
pub struct Absolute {
    rule: Rule,
    source: Arc<dyn SampleSource>,
}

impl Absolute {
    /// Measures which share of the events counted by `whole` is counted by `part`: errors among requests, for
    /// example. Both are counters; the rises of all their series in the window are added up. If both are of the same
    /// metric, a part without series is zero.
    pub fn ratio(name: &str, part: Of, whole: Of) -> Measure {
        Measure::new(name, Kind::Ratio { part, whole })
    }

    /// Measures how fast counters rise, per second, summed over all series.
    pub fn rate(name: &str, of: Of) -> Measure {
        Measure::new(name, Kind::Rate { of })
    }

    /// Measures the mean of gauges over the window. Of several series, the worst one counts.
    pub fn value(name: &str, of: Of) -> Measure {
        Measure::new(name, Kind::Value { of })
    }

    pub(super) fn new(rule: Rule, source: Arc<dyn SampleSource>) -> Self {
        Self { rule, source }
    }

    /// R21: a neighbour that is not healthy is compared with its state before the rollout began.
    async fn look_twice(&self, evidence: Evidence, began: Option<Timestamp>) -> Evidence {
        let mut evidence = self.look(evidence).await;
        let Some(began) = began.filter(|_| evidence.role == Role::Neighbour) else {
            return evidence;
        };
        if evidence.judge() != Judgement::Healthy {
            let before = Evidence {
                from: window_start(began, evidence.question.over),
                to: began,
                read: vec![],
                part: vec![],
                error: None,
                ..evidence.clone()
            };
            evidence.before = Some(Box::new(self.look(before).await));
        }
        evidence
    }

    async fn look(&self, mut evidence: Evidence) -> Evidence {
        let read = match evidence.question.kind.clone() {
            Kind::Ratio { part, whole } if part.metric() == whole.metric() => {
                let all = self.count(&whole, &evidence).await;
                all.map(|all| (chosen(&whole, all.clone()), chosen(&part, all)))
            }
            Kind::Ratio { part, whole } => {
                let (whole_read, part_read) =
                    future::join(self.count(&whole, &evidence), self.count(&part, &evidence)).await;
                whole_read.and_then(|all| Ok((chosen(&whole, all), chosen(&part, part_read?))))
            }
            Kind::Rate { of } => {
                let all = self.count(&of, &evidence).await;
                all.map(|all| (chosen(&of, all), vec![]))
            }
            Kind::Value { of } => {
                let all = self
                    .read(&of, evidence.from, evidence.to, &evidence.asset)
                    .await;
                let all = all.map(|all| all.into_iter().map(|series| (series, Start::Sample)));
                all.map(|all| (chosen(&of, all.collect()), vec![]))
            }
        };
        match read {
            Ok((whole, part)) => evidence.fill(whole, part),
            Err(error) => evidence.error = Some(with_causes(&*error)),
        }
        evidence
    }

    /// Reads all series of a counter, and finds out how each begins in the window. A second query reads what was before
    /// the window, because a series without samples in one query means that its process does not answer.
    async fn count(&self, of: &Of, evidence: &Evidence) -> Result<Vec<Counted>, BoxError> {
        let Evidence {
            asset, from, to, ..
        } = evidence;
        let all = self.read(of, *from, *to, asset).await?;
        let older = match matters(&all) {
            true => {
                self.read(of, window_start(*from, LOOK_BACK), *from, asset)
                    .await?
            }
            false => Vec::new(),
        };
        let births = Births::of(&all, &older, (*from, *to));
        let starts: Vec<Start> = all.iter().map(|series| births.start(series)).collect();
        Ok(all.into_iter().zip(starts).collect())
    }

    async fn read(
        &self,
        of: &Of,
        from: Timestamp,
        to: Timestamp,
        asset: &AssetId,
    ) -> Result<Vec<Series>, BoxError> {
        self.source.read(of.ask(asset, from, to)).await
    }

    fn finding(&self, evidence: &Evidence) -> Result<Finding, BoxError> {
        let judged = evidence.judged();
        let (asset, bound) = (&evidence.asset, evidence.question.bound);
        let summary = match (judged.measured, judged.lacks) {
            _ if evidence.was_ill() => {
                format!("{asset}: unhealthy since before the rollout began")
            }
            (_, Some(lacks)) => format!("{asset}: {lacks}"),
            (measured, None) => {
                let measured = measured.unwrap_or(f64::NAN);
                let instead = match judged.judgement {
                    Judgement::Unhealthy => " instead of",
                    _ => ",",
                };
                format!("{asset}: {measured:.4}{instead} {bound}")
            }
        };
        Ok(Finding::new(judged.judgement, summary)
            .validator(self.rule.name.clone())
            .because(serde_json::to_value(evidence)?))
    }
}

#[async_trait]
impl HealthValidator for Absolute {
    fn name(&self) -> Arc<str> {
        self.rule.name.clone()
    }

    async fn validate(&self, request: HealthRequest) -> Result<Health, BoxError> {
        let now = request.now;
        let start = window_start(now, self.rule.question.over);
        let looks = self
            .rule
            .scope
            .of(&request)
            .into_iter()
            .map(|(watched, role)| {
                let evidence = Evidence {
                    asset: watched.asset,
                    role,
                    incarnation: request.to.clone(),
                    policy: request.policy,
                    question: self.rule.question.clone(),
                    from: start.max(watched.since),
                    to: now,
                    read: vec![],
                    part: vec![],
                    error: None,
                    before: None,
                };
                self.look_twice(evidence, request.began)
            });
        let seen: Vec<Evidence> = stream::iter(looks).buffered(AT_ONCE).collect().await;
        let mut health = Health::healthy(now);
        for evidence in &seen {
            let finding = self.finding(evidence)?;
            if evidence.role == Role::UnderWay && finding.judgement != Judgement::Unhealthy {
                continue;
            }
            health.judgement = health.judgement.max(finding.judgement);
            health.as_of = health.as_of.min(evidence.as_of());
            health.findings.push(finding);
        }
        Ok(health)
    }
}

impl fmt::Debug for Absolute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Absolute")
            .field("rule", &self.rule)
            .finish_non_exhaustive()
    }
}

fn window_start(now: Timestamp, over: std::time::Duration) -> Timestamp {
    let over = jiff::SignedDuration::try_from(over).ok();
    over.and_then(|over| now.checked_sub(over).ok())
        .unwrap_or(Timestamp::MIN)
}

fn chosen(of: &Of, mut all: Vec<Counted>) -> Vec<Counted> {
    all.retain(|(series, _)| of.takes(series));
    all
}
