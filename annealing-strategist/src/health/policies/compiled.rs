//! A policy, ready to judge: its rules as validators over their sources.

use std::sync::Arc;

use futures::future::join_all;
use jiff::SignedDuration;
use plugin_sdk::{
    BoxError, Expression, Finding, Health, HealthRequest, HealthValidator, Judgement, Watched,
    with_causes,
};
use prodspec_model::{
    Asset, AssetId, Digest,
    policy::{AssetField, HealthPolicy, HealthRule},
};

#[cfg(feature = "statistics")]
pub(super) use crate::health::compared::Memory;
#[cfg(feature = "statistics")]
use crate::health::{
    compared::{self, Compared},
    expression::Readings,
};
#[cfg(feature = "statistics")]
use prodspec_model::policy::Worse;

use super::sources::{Firing, Readers};
use crate::health::{
    Bound,
    alerts::Alerts,
    expression::{ByExpression, Measured, Rule, counted},
};

/// The rate of false alarms of the critical comparisons of a policy together, over a whole rollout.
#[cfg(feature = "statistics")]
const ALPHA: f64 = 0.05;

/// A policy with its sources.
pub(super) struct Compiled {
    id: AssetId,
    policy: HealthPolicy,
    rules: Vec<ByExpression>,
    #[cfg(feature = "statistics")]
    compared: Vec<Compared>,
    alerts: Option<(Alerts, Arc<Firing>)>,
}

impl Compiled {
    /// # Errors
    /// The reason why the policy cannot judge.
    pub(super) fn new(
        id: &AssetId,
        (policy, digest): (HealthPolicy, Digest),
        sources: &Readers,
    ) -> Result<Self, String> {
        let mut rules = Vec::new();
        #[cfg(feature = "statistics")]
        let mut compared = Vec::new();
        for rule in &policy.rules {
            let readings = sources.metrics(policy.source.as_deref())?;
            #[cfg(feature = "statistics")]
            if let Some(worse) = rule.worse {
                let at = (id, digest);
                compared.push(comparison(rule, worse, &policy, at, readings.clone())?);
            }
            for bound in bounds(rule)? {
                let name = format!("{id}/{}", rule.name);
                let measured = meets(measured(rule)?, &policy);
                let rule = Rule::new(measured, &name, bound)
                    .over(policy.window)
                    .count(rule.count)
                    .of_policy(id.clone(), digest);
                rules.push(ByExpression::new(rule, readings.clone()));
            }
        }
        let alerts = policy.alerts.as_ref().map(|alerts| {
            let firing = sources.signals(alerts.source.as_deref())?;
            let mut judge = Alerts::new(firing.source.clone()).named(&format!("{id}/alerts"));
            if let Some(label) = &alerts.domain {
                judge = judge.per_domain(label);
            }
            if let Some(watchdog) = &alerts.watchdog {
                judge = judge.watchdog(watchdog);
            }
            Ok::<_, String>((judge, firing.clone()))
        });
        Ok(Self {
            id: id.clone(),
            alerts: alerts.transpose()?,
            policy,
            rules,
            #[cfg(feature = "statistics")]
            compared,
        })
    }

    /// The verdict of the policy. `None`: it judges none of the assets.
    pub(super) async fn verdict(&self, request: &HealthRequest, memory: &Memory) -> Option<Health> {
        let request = self.part(request)?;
        let rules = self.rules.iter().map(|rule| self.by_rule(rule, &request));
        let mut health = request.healthy();
        for verdict in join_all(rules).await {
            health = health.join(verdict);
        }
        for finding in self.comparisons(&request, memory).await {
            health = health.join(Health::found(request.now, finding));
        }
        if let Some((alerts, firing)) = &self.alerts {
            let verdict = match firing.at(request.now).await {
                Ok(signals) => {
                    let mut verdict = alerts.verdict(&request, &signals);
                    for finding in &mut verdict.findings {
                        finding.validator = alerts.name();
                    }
                    verdict
                }
                Err(error) => failed(&request, Judgement::Unknown, alerts.name(), &error),
            };
            health = health.join(verdict);
        }
        Some(health)
    }

    #[cfg(feature = "statistics")]
    async fn comparisons(&self, request: &HealthRequest, memory: &Memory) -> Vec<Finding> {
        let all = self.compared.iter();
        let all = join_all(all.map(|it| it.finding(request, memory))).await;
        all.into_iter().flatten().collect()
    }

    #[cfg(not(feature = "statistics"))]
    async fn comparisons(&self, _: &HealthRequest, _: &Memory) -> Vec<Finding> {
        Vec::new()
    }

    async fn by_rule(&self, rule: &ByExpression, request: &HealthRequest) -> Health {
        let verdict = rule.validate(request.clone()).await;
        verdict.unwrap_or_else(|error| {
            let judgement = counted(rule.count(), Judgement::Unknown).0;
            failed(request, judgement, rule.name(), &error)
        })
    }

    /// The request about the assets that the policy judges. `None`: it judges none.
    fn part(&self, request: &HealthRequest) -> Option<HealthRequest> {
        let judges = &self.policy.judges;
        let is_ours = |watched: &&Watched| match request.reader.get(&watched.asset) {
            Some(asset) => judges.matches(&asset),
            None => judges.may_be(&watched.asset),
        };
        let ours =
            |all: &[Watched]| -> Vec<Watched> { all.iter().filter(is_ours).cloned().collect() };
        let warms_up = SignedDuration::try_from(self.policy.warms_up());
        let warms_up = warms_up.unwrap_or(SignedDuration::MAX);
        let mut updated = ours(&request.updated);
        for watched in &mut updated {
            let warm = watched.since.saturating_add(warms_up);
            watched.since = warm.unwrap_or(watched.since);
        }
        let under_way = ours(&request.under_way);
        let neighbours = ours(&request.neighbours);
        let mut control = ours(&request.control);
        for watched in &mut control {
            let warm = watched.since.saturating_add(warms_up);
            watched.since = warm.unwrap_or(watched.since);
        }
        let is_empty = updated.is_empty() && under_way.is_empty() && neighbours.is_empty();
        (!is_empty).then(|| {
            request
                .clone()
                .updated(updated)
                .under_way(under_way)
                .neighbours(neighbours)
                .control(control)
        })
    }
}

/// The memory of comparisons, of which there are none without the feature.
#[cfg(not(feature = "statistics"))]
#[derive(Default)]
pub(super) struct Memory;

/// A comparison of a rule.
///
/// # Errors
/// The reason why the rule measures nothing.
#[cfg(feature = "statistics")]
fn comparison(
    rule: &HealthRule,
    worse: Worse,
    policy: &HealthPolicy,
    (id, digest): (&AssetId, Digest),
    readings: Arc<Readings>,
) -> Result<Compared, String> {
    let critical = policy.rules.iter();
    let critical = critical.filter(|it| it.worse.is_some() && it.count.is_critical());
    let measured = meets(measured(rule)?, policy);
    Ok(Compared {
        rule: compared::Rule {
            name: format!("{id}/{}/worse", rule.name).into(),
            guard: worse.guard,
            smaller: !worse.is.is_larger(),
            than_past: worse.than_past,
            threshold: critical.count().max(1) as f64 / ALPHA,
        },
        count: rule.count,
        policy: (id.clone(), digest),
        expressions: measured.expressions().cloned().collect(),
        of: measured.of(),
        over: policy.window,
        readings,
    })
}

/// The verdict of a rule whose source failed.
fn failed(
    request: &HealthRequest,
    judgement: Judgement,
    name: Arc<str>,
    error: &BoxError,
) -> Health {
    let finding = Finding::new(judgement, with_causes(&**error));
    Health::found(request.now, finding.validator(name))
}

/// The quantity that a rule measures.
///
/// # Errors
/// The reason why there is none.
pub(super) fn measured(rule: &HealthRule) -> Result<Measured, String> {
    let counter = rule.counter.clone();
    match (&rule.expression, counter, rule.among.clone()) {
        (Some(text), None, None) => Ok(Measured::by(text)),
        (None, Some(part), Some(whole)) => Ok(Measured::share(part, whole)),
        (None, Some(counter), None) => Ok(Measured::rate(counter)),
        _ => {
            Err("needs either an expression or a counter, and `among` only beside a counter".into())
        }
    }
}

/// The bounds of a rule.
///
/// # Errors
/// The reason why one is none.
fn bounds(rule: &HealthRule) -> Result<Vec<Bound>, String> {
    let mut bounds = Vec::new();
    if let Some(most) = &rule.at_most {
        bounds.push(Bound::AtMost(most.value()?.0));
    }
    if let Some(least) = &rule.at_least {
        bounds.push(Bound::AtLeast(least.value()?.0));
    }
    Ok(bounds)
}

/// The quantity, with the labels by which its series meet assets.
fn meets(measured: Measured, policy: &HealthPolicy) -> Measured {
    let labels = policy.assets.iter();
    labels.fold(measured, |measured, (label, field)| {
        let field: AssetField = field.clone();
        measured.meets(label, move |asset: &Asset| field.of(asset))
    })
}

/// The expressions that a rule of a policy evaluates.
///
/// # Errors
/// The reason why there are none.
pub(super) fn expressions(
    rule: &HealthRule,
    policy: &HealthPolicy,
) -> Result<Vec<Expression>, String> {
    let measured = meets(measured(rule)?, policy);
    Ok(measured.expressions().cloned().collect())
}

impl std::fmt::Debug for Compiled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Compiled").field(&self.id).finish()
    }
}
