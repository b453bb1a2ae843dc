//! The check behind [`OverloadLayer`](super::OverloadLayer).

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use plugin_sdk::{
    BoxError, Causes, CheckInfo, CheckPlugin, CheckRequest, Delay, MetricQuery, MetricReading,
    MetricSource, Recheck, Series, Verdict, Windows,
};
use serde_json::{Value, json};

use super::Rule;
use crate::cache::{Answer, Cache};

/// Time after which a source that failed is read again.
const AGAIN: Duration = Duration::from_secs(5);
/// Maximum number of other scopes that a reason names.
const NAMED: usize = 5;

/// Delays pushes of intent while an expression is above its bound in their scope, or its value is not known.
///
/// ```
/// use annealing_checks::{Scope, overload::Overload};
/// use plugin_sdk::{MetricSource, Problem};
///
/// # fn check(prometheus: impl MetricSource) -> Result<(), Problem> {
/// // The assets of the cluster eu wait while its machines are more than 80% busy.
/// let busy = Overload::at_most(0.8, "max by (cluster) (cpu_busy_ratio)")
///     .within(Scope::per_cluster(), "cluster")
///     .reading(prometheus)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Overload {
    rule: Arc<Rule>,
    cache: Arc<Cache<dyn MetricSource, Look>>,
}

/// The answer to a query about one window.
struct Look {
    query: MetricQuery,
    reading: MetricReading,
}

impl Overload {
    /// Makes a rule named `overload`: values of the expression above `most` delay.
    pub fn at_most(most: f64, expression: &str) -> Rule {
        Rule::new(most, expression)
    }

    pub(super) fn new(rule: Rule, source: impl MetricSource) -> Self {
        Self {
            rule: Arc::new(rule),
            cache: Arc::new(Cache::new(Box::new(source))),
        }
    }

    /// The values of the newest closed window. A window is read once; a source that failed is read again after a while.
    async fn look(&self, request: &CheckRequest, window: Windows) -> Answer<Look> {
        let within =
            |answer: &Answer<Look>, time| answer.passed(request.mono).unsigned_abs() < time;
        let good = |answer: &Answer<Look>| match &answer.result {
            // A newer one is of a clock that was ahead, or of a check that looks at the same time.
            Ok(look) if look.query.windows.last > window.last => within(answer, window.length),
            Ok(look) => look.query.windows == window,
            Err(_) => within(answer, AGAIN),
        };
        let query = MetricQuery {
            expression: self.rule.expression.clone(),
            windows: window,
        };
        let call = async {
            let reading = self.cache.source.read(query.clone()).await?;
            Ok(Look { query, reading })
        };
        self.cache.answer(request, good, call).await
    }

    /// Why the assets of `scope` have to wait, with the evidence. `None`: they need not.
    fn finding(&self, look: &Look, scope: Option<&str>) -> Option<(String, Value)> {
        let label = self.rule.expression.labels.first();
        let value = |series: &Series| {
            let at = look.query.windows.last;
            let (_, value) = series.samples.iter().find(|(end, _)| *end == at)?;
            Some(*value)
        };
        let is_in = |series: &&Series| match (label.and_then(|it| series.labels.get(it)), scope) {
            (Some(its), Some(scope)) => its == scope,
            _ => true,
        };
        let all = || look.reading.series.iter().filter(|it| value(it).is_some());
        let found: Vec<f64> = all().filter(is_in).filter_map(value).collect();
        let (text, end) = (&self.rule.expression, look.query.windows.last);
        let of = scope
            .map(|scope| format!(" for {scope}"))
            .unwrap_or_default();
        let why = match found[..] {
            [value] if value.is_finite() && value <= self.rule.most => return None,
            [value] if value.is_finite() => {
                format!(
                    "`{text}` is {value}{of}, and at most {} is allowed",
                    self.rule.most
                )
            }
            [value] => format!("`{text}` is {value}{of} at {end}, which is no number"),
            [] => {
                let others = all().filter_map(|it| it.labels.get(label?));
                let others: Vec<&str> = others.take(NAMED).map(String::as_str).collect();
                let others = match others.is_empty() {
                    true => "none at all".to_owned(),
                    false => format!("only for {}", others.join(", ")),
                };
                format!("`{text}` has no value{of} at {end}, {others}: repair the monitoring")
            }
            _ => format!(
                "`{text}` has {} series{of}: aggregate it to one",
                found.len()
            ),
        };
        let evidence = json!({"query": look.query, "values": found,
            "most": self.rule.most, "infos": look.reading.infos});
        Some((why, evidence))
    }

    /// The parts of the scope in which the asset is. `None`: the one value is for all assets.
    fn scopes(&self, request: &CheckRequest) -> Result<Vec<Option<String>>, BoxError> {
        let Some(scope) = &self.rule.scope else {
            return Ok(vec![None]);
        };
        let parts = scope.values(request)?;
        Ok(parts.into_iter().map(Some).collect())
    }
}

#[async_trait]
impl CheckPlugin for Overload {
    fn info(&self) -> CheckInfo {
        CheckInfo::new(self.rule.name.clone()).only_for(Causes::INTENT)
    }

    async fn check(&self, request: CheckRequest) -> Result<Verdict, BoxError> {
        let now = request.now;
        let window = Windows::closed(self.rule.window, Windows::SETTLE, now);
        let scopes = match self.rule.types.apply(&request) {
            true => self.scopes(&request)?,
            false => Vec::new(),
        };
        if scopes.is_empty() {
            return Ok(Verdict::proceed(now));
        }
        let next = window.last.saturating_add(window.length + Windows::SETTLE);
        let next = next.unwrap_or(Timestamp::MAX);
        let answer = self.look(&request, window).await;
        let look = match &answer.result {
            Ok(look) => look,
            Err(why) => {
                let reason = format!("`{}` cannot be read: {why}", self.rule.expression);
                return Ok(Verdict::delay(
                    now,
                    Delay::new(reason, Recheck::After(AGAIN)),
                ));
            }
        };
        let age = answer.age(look.reading.as_of, request.mono);
        let seen = now.saturating_sub(age.max(SignedDuration::ZERO));
        let mut verdict = Verdict::proceed(seen.unwrap_or(Timestamp::MIN));
        let findings = match look.query.behind(look.reading.as_of, age) {
            Some(why) => vec![(why, Value::Null)],
            None => scopes
                .iter()
                .filter_map(|of| self.finding(look, of.as_deref()))
                .collect(),
        };
        for (why, evidence) in findings {
            let delay = Delay::new(why, Recheck::At(next)).because(evidence);
            verdict.delays.push(delay);
        }
        Ok(verdict)
    }
}
