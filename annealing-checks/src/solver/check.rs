//! The solver: it collects the questions of all rules, observes all neighbours concurrently, and names the assets that
//! the push waits for.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use futures::future::{join, join_all};
use plugin_sdk::{
    BoxError, Causes, CheckInfo, CheckName, CheckPlugin, CheckRequest, Delay, Diff, Observation,
    PartitionView, Recheck, Shared, Usage, Verdict,
};
use prodspec_model::AssetId;
use serde_json::{Value, json};

use super::{Capacity, OrderRule, Push, Question, Seen, StaticOrder, VersionOrder, Wait};

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
        Delay {
            check: self.name.clone(),
            reason: format!("waits for `{}`: {}", wait.on, wait.reason),
            evidence: wait.evidence,
            recheck: Recheck::WhenSettled(wait.on),
        }
    }

    fn without_view(&self) -> Delay {
        Delay {
            check: self.name.clone(),
            reason: "the check has no view of the partition, so it cannot know the dependencies; \
                     run it in an enforcer, or set the request's view"
                .into(),
            evidence: Value::Null,
            recheck: Recheck::After(WITHOUT_VIEW),
        }
    }

    /// Observes all assets of `about` concurrently.
    async fn look(
        about: Vec<AssetId>,
        view: &dyn PartitionView,
    ) -> Vec<(AssetId, Result<Observation, BoxError>)> {
        let looks = about.iter().map(|asset| view.observe(asset));
        let observations = join_all(looks).await;
        about.into_iter().zip(observations).collect()
    }

    /// The use of `shared` by other consumers, or waits for the consumers whose use is unknown.
    async fn usage(
        request: &CheckRequest,
        view: &dyn PartitionView,
        shared: Shared,
    ) -> (Shared, Result<Usage, Vec<Wait>>) {
        let ask = || view.usage(&shared, request.incarnation.no, &request.asset, request.now);
        let mut usage = ask().await;
        let mut untold = Vec::new();
        if let Ok(first) = &usage
            && !first.unknown.is_empty()
        {
            for (asset, seen) in Self::look(first.unknown.clone(), view).await {
                let told = seen.as_ref().is_ok_and(|seen| comparable(&seen.diff));
                untold.extend((!told).then(|| cannot_tell(asset, seen)));
            }
            usage = ask().await;
        }
        let found = match usage {
            Ok(usage) if usage.unknown.is_empty() => Ok(usage),
            Ok(_) if !untold.is_empty() => Err(untold),
            Ok(usage) => {
                let moves = |asset| Wait::on(asset, "its use of the capacity is changing");
                Err(usage.unknown.into_iter().map(moves).collect())
            }
            Err(error) => Err(vec![cannot_tell(shared.provider.clone(), Err(error))]),
        };
        (shared, found)
    }

    /// Observes the assets and usages. Adds to `verdict` the evidence, and a delay for each asset that cannot be
    /// observed.
    async fn see(
        &self,
        request: &CheckRequest,
        view: &dyn PartitionView,
        (about, shared): (BTreeSet<AssetId>, BTreeSet<Shared>),
        verdict: &mut Verdict,
    ) -> Seen {
        let usages = shared
            .into_iter()
            .map(|shared| Self::usage(request, view, shared));
        let looks = Self::look(about.into_iter().collect(), view);
        let (looks, asked) = join(looks, join_all(usages)).await;
        let (mut seen, mut unseen) = (Vec::with_capacity(looks.len()), BTreeMap::new());
        for (asset, observation) in looks {
            if let Ok(observation) = &observation {
                verdict.relies_on.push(observation.stamp);
                verdict.as_of = verdict.as_of.min(observation.as_of);
            }
            match observation {
                Ok(observation) if comparable(&observation.diff) => seen.push((asset, observation)),
                other => {
                    unseen.insert(asset.clone(), cannot_tell(asset, other));
                }
            }
        }
        let mut usages = BTreeMap::new();
        for (shared, usage) in asked {
            match usage {
                Ok(usage) => {
                    verdict.relies_on.extend(&usage.stamps);
                    verdict.as_of = verdict.as_of.min(usage.as_of);
                    usages.insert(shared, usage);
                }
                Err(waits) => unseen.extend(waits.into_iter().map(|wait| (wait.on.clone(), wait))),
            }
        }
        let unseen = unseen.into_values().map(|wait| self.delay(wait));
        verdict.delays.extend(unseen);
        Seen::new(seen, usages)
    }
}

#[async_trait]
impl CheckPlugin for DependencySolver {
    fn info(&self) -> CheckInfo {
        CheckInfo {
            name: self.name.clone(),
            causes: Causes::ALL,
        }
    }

    async fn check(&self, request: CheckRequest) -> Result<Verdict, BoxError> {
        let mut verdict = request.proceed();
        let Some(view) = &request.view else {
            verdict.delays.push(self.without_view());
            return Ok(verdict);
        };
        let questions = self.questions(&request, view.as_ref());
        let about = questions.iter().flat_map(|it| it.about.clone());
        let shared = questions.iter().filter_map(|it| it.shared.clone());
        let all = (about.collect(), shared.collect());
        let seen = self.see(&request, view.as_ref(), all, &mut verdict).await;
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

fn comparable(diff: &Diff) -> bool {
    matches!(diff, Diff::InSync { .. } | Diff::Differs { .. })
}

/// A wait for a neighbour whose state in production cannot be determined.
fn cannot_tell(asset: AssetId, looked: Result<Observation, BoxError>) -> Wait {
    match looked.map(|observation| observation.diff) {
        Ok(Diff::InProgress { .. }) => Wait::on(asset, "work on it is under way"),
        Ok(Diff::Foreign { owner }) => {
            let reason = format!("it belongs to `{owner}`, which may change it at any time");
            Wait::on(asset, reason).because(json!({"owner": owner}))
        }
        Ok(_) => Wait::on(
            asset,
            "its diff has a result that this version does not know",
        ),
        Err(error) => Wait::on(
            asset,
            format!("it cannot be compared with production: {error}"),
        ),
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
