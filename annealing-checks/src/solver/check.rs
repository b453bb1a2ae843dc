//! The solver: it collects the questions of all rules, has all neighbours observed, and names the assets that the push
//! waits for.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use plugin_sdk::{
    BoxError, CheckInfo, CheckName, CheckPlugin, CheckRequest, Delay, PartitionView, Recheck,
    Verdict,
};

use super::{
    Capacity, OrderRule, Push, Question, StaticOrder, VersionOrder, Wait,
    look::{Neighbours, look},
};

/// Time until a push without a view of its partition is checked again.
const WITHOUT_VIEW: Duration = Duration::from_secs(60);

/// Delays a push until the assets that it depends on, and the assets that depend on it, allow it. Applies to every
/// cause.
///
/// The edges come from [`PartitionView`], the effects from the push's own diff. The verdict relies on every finding
/// about a neighbour: the enforcer admits the push only if none of these neighbours has been pushed since.
#[derive(Clone)]
pub struct DependencySolver {
    name: CheckName,
    rules: Vec<Arc<dyn OrderRule>>,
}

impl DependencySolver {
    /// Makes a solver for capacity edges only.
    pub fn capacity() -> Self {
        Self {
            name: "dependency-solver".into(),
            rules: vec![Arc::new(Capacity)],
        }
    }

    /// Makes a solver for every kind of edge: capacity, version order, static order.
    pub fn standard() -> Self {
        Self::capacity().with(VersionOrder).with(StaticOrder)
    }

    /// Adds a rule to the solver.
    #[must_use]
    pub fn with(mut self, rule: impl OrderRule) -> Self {
        self.rules.push(Arc::new(rule));
        self
    }

    fn questions(&self, request: &CheckRequest, view: &dyn PartitionView) -> Vec<Question> {
        let push = Push::new(request, view);
        let questions = self.rules.iter().flat_map(|rule| rule.questions(&push));
        questions.collect()
    }

    fn delay(&self, wait: Wait) -> Delay {
        Delay::new(
            format!("waits for `{}`: {}", wait.on, wait.reason),
            Recheck::WhenSettled(wait.on),
        )
        .check(self.name.clone())
        .because(wait.evidence)
    }

    fn without_view(&self) -> Delay {
        Delay::new(
            "the check has no view of the partition, so it cannot know the dependencies; \
             run it in an enforcer, or set the request's view",
            Recheck::After(WITHOUT_VIEW),
        )
        .check(self.name.clone())
    }
}

#[async_trait]
impl CheckPlugin for DependencySolver {
    fn info(&self) -> CheckInfo {
        CheckInfo::new(self.name.clone())
    }

    async fn check(&self, request: CheckRequest) -> Result<Verdict, BoxError> {
        let mut verdict = request.proceed();
        let Some(view) = &request.view else {
            verdict.delays.push(self.without_view());
            return Ok(verdict);
        };
        let questions = self.questions(&request, view.as_ref());
        let neighbours = Neighbours::of(&questions);
        let (seen, waits) = look(&request, view.as_ref(), neighbours, &mut verdict).await;
        let waits = waits.into_iter().map(|wait| self.delay(wait));
        verdict.delays.extend(waits);
        for question in questions {
            if question.is_answerable(&seen) {
                let answered = (question.answer)(&seen);
                let waits = answered.waits.into_iter().map(|wait| self.delay(wait));
                verdict.delays.extend(waits);
                verdict.claims.extend(answered.claims);
            }
        }
        Ok(verdict)
    }
}

impl fmt::Debug for DependencySolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DependencySolver")
            .field("name", &self.name)
            .field("rules", &self.rules.len())
            .finish()
    }
}
