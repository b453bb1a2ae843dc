//! [`ByExpression`], the validator: reads the expression once per window, and judges the assets by their series.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use jiff::Timestamp;
use plugin_sdk::{
    BoxError, Expression, Finding, Health, HealthRequest, HealthValidator, Judgement, MetricQuery,
    Watched, Windows,
};
use prodspec_model::{AssetId, policy::Count};

use super::{
    Rule,
    readings::{Readings, Table},
    seen::{Seen, Values, counted},
};
use crate::health::scope::Role;

/// A validator that compares a measured quantity with a bound. Its rules are listed in the [module](super).
#[derive(Clone)]
pub struct ByExpression {
    rule: Rule,
    readings: Arc<Readings>,
}

/// The answers about one window: about the quantity, and about all events, if it is a share of them.
struct Answers {
    window: Windows,
    all: Vec<Arc<Table>>,
}

impl ByExpression {
    pub(in crate::health) fn new(rule: Rule, readings: Arc<Readings>) -> Self {
        Self { rule, readings }
    }

    /// How the findings count.
    pub(in crate::health) fn count(&self) -> Count {
        self.rule.question.count
    }

    async fn answers(&self, window: Windows) -> Result<Answers, BoxError> {
        let mut all = Vec::new();
        for expression in self.rule.question.expressions() {
            let query = query(expression, window);
            all.push(self.readings.read(query).await?);
        }
        Ok(Answers { window, all })
    }

    /// The values of an asset's series in a window.
    fn values(&self, request: &HealthRequest, asset: &AssetId, answers: &Answers) -> Values {
        let key = match self.rule.of.is_empty() {
            true => Some(Vec::new()),
            false => request.reader.get(asset).and_then(|asset| {
                let texts = self.rule.of.iter().map(|of| of(&asset));
                texts.collect()
            }),
        };
        let of = |table: &Arc<Table>| {
            let key: Option<&Vec<String>> = key.as_ref();
            key.map(|key| table.values(key, answers.window.last))
                .unwrap_or_default()
        };
        let mut all = answers.all.iter().map(of);
        Values {
            values: all.next().unwrap_or_default(),
            among: all.next(),
        }
    }

    fn seen(
        &self,
        request: &HealthRequest,
        (watched, role): (Watched, Role),
        answers: &Answers,
    ) -> Seen {
        Seen {
            rule: self.rule.name.clone(),
            question: self.rule.question.clone(),
            values: self.values(request, &watched.asset, answers),
            asset: watched.asset,
            role,
            incarnation: request.to.clone(),
            policy: request.policy,
            since: watched.since,
            window: answers.window,
            before: None,
        }
    }

    /// R21: a neighbour that is not healthy is compared with its state before the rollout began.
    async fn look_back(&self, request: &HealthRequest, seen: &mut Seen) -> Result<(), BoxError> {
        let is_ill = seen.role == Role::Neighbour && seen.judged().0 != Judgement::Healthy;
        let Some(began) = request.began.filter(|_| is_ill) else {
            return Ok(());
        };
        let before = Windows::closed(self.rule.over, Duration::ZERO, began);
        let answers = self.answers(before).await?;
        let values = self.values(request, &seen.asset, &answers);
        seen.before = Some((before, values));
        Ok(())
    }

    /// Why the answers do not count: the source is behind.
    fn behind(&self, answers: &Answers, now: Timestamp) -> impl Iterator<Item = Finding> {
        let expressions = self.rule.question.expressions();
        let behind = expressions.zip(&answers.all).filter_map(move |(of, it)| {
            let age = now.duration_since(it.as_of());
            query(of, answers.window).behind(it.as_of(), age)
        });
        let (judgement, note) = counted(self.count(), Judgement::Unknown);
        behind.map(move |why| {
            let finding = Finding::new(judgement, format!("{why}{note}"));
            finding.validator(self.rule.name.clone())
        })
    }
}

fn query(expression: &Expression, windows: Windows) -> MetricQuery {
    MetricQuery {
        expression: expression.clone(),
        windows,
    }
}

#[async_trait]
impl HealthValidator for ByExpression {
    fn name(&self) -> Arc<str> {
        self.rule.name.clone()
    }

    async fn validate(&self, request: HealthRequest) -> Result<Health, BoxError> {
        let asked = self.rule.scope.of(&request);
        if asked.is_empty() {
            return Ok(request.healthy());
        }
        let window = Windows::closed(self.rule.over, Windows::SETTLE, request.now);
        let answers = self.answers(window).await?;
        let as_of = answers.all.iter().map(|it| it.as_of()).min();
        let mut health = Health::healthy(as_of.unwrap_or(request.now).min(request.now));
        health.findings.extend(self.behind(&answers, request.now));
        for one in asked {
            let role = one.1;
            let mut seen = self.seen(&request, one, &answers);
            self.look_back(&request, &mut seen).await?;
            let finding = seen.finding()?;
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
            .field("rule", &self.rule)
            .finish_non_exhaustive()
    }
}
