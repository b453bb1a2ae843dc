//! The layer that adds claims to a dispatch stack. It only declares them; the kernel of workflows counts.

use async_trait::async_trait;
use plugin_sdk::{
    BoxError, CheckName, Claim, Dispatch, DispatchPlugin, DispatchRequest, Key, Quota,
    service::{DispatchLayer, Dispatched},
};
use tower_layer::Layer;

use super::Work;

/// A layer that gives steps or executions a claim: a step, or an execution, starts only when its claims are free.
///
/// ```
/// use annealing_checks::dispatch::{ClaimLayer, Work};
/// use plugin_sdk::{Quota, service::ByCause};
/// use std::time::Duration;
///
/// let dispatch = tower::ServiceBuilder::new()
///     // The press prints one job at a time.
///     .layer(ClaimLayer::exclusive("press", Work::of_function("print-posters")))
///     // No app has more than ten executions at once.
///     .layer(ClaimLayer::at_most("fair", Work::per_label("app").starts(), 10))
///     // Two mails at once, then one per minute.
///     .layer(ClaimLayer::rate(
///         "mails",
///         Work::of_function("send-mail"),
///         Quota::new(2, Duration::from_secs(60)),
///     ))
///     .service(ByCause);
/// ```
#[derive(Debug, Clone)]
pub struct ClaimLayer(DispatchLayer<Claims>);

/// The rule of [`ClaimLayer`]: which work takes which claim.
#[derive(Debug, Clone)]
pub struct Claims {
    name: CheckName,
    work: Work,
    kind: Kind,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Exclusive,
    AtMost(u32),
    Rate(Quota),
}

impl ClaimLayer {
    /// Makes a rule named `name` that allows one step, or one execution, at a time within each part of `work`.
    pub fn exclusive(name: &str, work: Work) -> Self {
        Self::of(name, work, Kind::Exclusive)
    }

    /// Makes a rule named `name` that allows `max` steps, or executions, at once within each part of `work`.
    pub fn at_most(name: &str, work: Work, max: u32) -> Self {
        Self::of(name, work, Kind::AtMost(max))
    }

    /// Makes a rule named `name` that limits the attempts, or the starts, of each part of `work` to `quota`.
    pub fn rate(name: &str, work: Work, quota: Quota) -> Self {
        Self::of(name, work, Kind::Rate(quota))
    }

    fn of(name: &str, work: Work, kind: Kind) -> Self {
        let name = name.into();
        Self(DispatchLayer::new(Claims { name, work, kind }))
    }
}

impl Kind {
    fn claim(self, key: Key) -> Claim {
        match self {
            Self::Exclusive => Claim::Exclusive(key),
            Self::AtMost(max) => Claim::AtMost(key, max),
            Self::Rate(quota) => Claim::Rate(key, quota),
        }
    }
}

#[async_trait]
impl DispatchPlugin for Claims {
    fn name(&self) -> CheckName {
        self.name.clone()
    }

    async fn dispatch(&self, request: DispatchRequest) -> Result<Dispatch, BoxError> {
        let claim = self.work.key(&self.name, &request);
        let claim = claim.map(|key| self.kind.claim(key));
        Ok(claim.into_iter().fold(request.go(), Dispatch::claim))
    }
}

impl<S> Layer<S> for ClaimLayer {
    type Service = Dispatched<S, Claims>;

    fn layer(&self, inner: S) -> Self::Service {
        self.0.layer(inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::executor::block_on;
    use plugin_sdk::{
        conformance,
        service::{ByCause, stack},
        testing::dispatch_request,
    };

    use super::*;

    const ONE_A_MINUTE: Quota = Quota::new(1, Duration::from_secs(60));

    fn start() -> DispatchRequest {
        dispatch_request().labels(std::sync::Arc::new(
            [("app".to_owned(), "shop".to_owned())].into(),
        ))
    }

    fn step() -> DispatchRequest {
        start().step("print".into(), Some("print-posters".into()), false)
    }

    fn claims(layer: ClaimLayer, request: DispatchRequest) -> Vec<Claim> {
        let stack = stack(layer.layer(ByCause));
        let found = block_on(stack.call(request)).unwrap();
        assert!(found.is_go(), "{found:?}");
        found.claims
    }

    #[test]
    fn r32_work_decides_which_steps_and_executions_count_together() {
        let keys = |work: Work, request: DispatchRequest| {
            claims(ClaimLayer::exclusive("one", work), request)
                .iter()
                .map(|claim| claim.key().0.to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(keys(Work::all(), step()), ["one/all"]);
        assert_eq!(keys(Work::per_workflow(), step()), ["one/season"]);
        assert_eq!(keys(Work::per_label("app"), step()), ["one/shop"]);
        assert_eq!(keys(Work::per_label("team"), step()), [""; 0]);
        let press = || Work::of_function("print-posters");
        assert_eq!(keys(press(), step()), ["one/print-posters"]);
        assert_eq!(keys(press().starts(), step()), [""; 0]);
        assert_eq!(keys(Work::of_function("bind"), step()), [""; 0]);
        assert_eq!(keys(Work::all(), start()), [""; 0]);
        assert_eq!(keys(Work::all().starts(), start()), ["one/all"]);
    }

    #[test]
    fn r32_claims_are_declared_and_not_counted_by_the_layer() {
        for _ in 0..3 {
            let rate = ClaimLayer::rate("slow", Work::all(), ONE_A_MINUTE);
            let expected = Claim::Rate("slow/all".into(), ONE_A_MINUTE);
            assert_eq!(claims(rate, step()), [expected]);
            let fair = ClaimLayer::at_most("fair", Work::per_label("app").starts(), 10);
            let expected = Claim::AtMost("fair/shop".into(), 10);
            assert_eq!(claims(fair, start()), [expected]);
        }
    }

    #[test]
    fn r32_claim_layers_keep_the_laws_of_dispatch() {
        for work in [Work::all(), Work::per_workflow().starts()] {
            for layer in [
                ClaimLayer::exclusive("one", work.clone()),
                ClaimLayer::at_most("few", work.clone(), 2),
                ClaimLayer::rate("slow", work.clone(), ONE_A_MINUTE),
            ] {
                let requests = [start(), step()];
                block_on(conformance::dispatch_layer(layer, requests)).unwrap();
            }
        }
    }
}
