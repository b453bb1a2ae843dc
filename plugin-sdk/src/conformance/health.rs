//! Laws of health validation: validators never improve a judgement, and a failure counts as unknown.

use std::{
    future::{Ready, ready},
    task::{Context, Poll},
    time::Duration,
};

use tower_layer::Layer;
use tower_service::Service;

use super::Violation;
use crate::{Finding, Health, HealthRequest, HealthValidator, Judgement, error::BoxError};

/// The service that the tests put beneath a layer. It always returns the same health, or an error.
#[derive(Debug, Clone)]
pub struct Found(Option<Health>);

impl Service<HealthRequest> for Found {
    type Response = Health;
    type Error = BoxError;
    type Future = Ready<Result<Health, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: HealthRequest) -> Self::Future {
        let found = self.0.clone();
        ready(found.ok_or_else(|| "the service beneath failed".into()))
    }
}

/// Tests the laws of health layers for `layer`, with each of `requests`: the layer never improves the judgement, and an
/// error beneath is unknown and keeps all findings of the layer.
///
/// The layer must answer equal requests equally: use fakes in a layer that calls external systems.
///
/// ```
/// use plugin_sdk::{conformance, service::{HealthLayer, Healthy}, testing};
///
/// # futures::executor::block_on(async {
/// let layer = HealthLayer::new(Healthy); // yours instead
/// conformance::health_layer(layer, [testing::health_request(["job/eu"])]).await
/// # }).unwrap();
/// ```
///
/// # Errors
/// The first law that does not hold.
pub async fn health_layer<L>(
    layer: L,
    requests: impl IntoIterator<Item = HealthRequest>,
) -> Result<(), Violation>
where
    L: Layer<Found>,
    L::Service: HealthValidator,
{
    for request in requests {
        let mut own = Vec::new();
        for beneath in samples(&request) {
            let found = over(&layer, Some(beneath.clone()), &request).await?;
            if !holds(&found, &beneath) {
                let law = "a layer never improves the judgement";
                return Err(broken(law, (found, beneath)));
            }
            if beneath.findings.is_empty() {
                own.clone_from(&found.findings);
            }
        }
        let found = over(&layer, None, &request).await?;
        if found.judgement < Judgement::Unknown {
            return Err(broken("an error beneath is unknown", found));
        }
        if !own.iter().all(|finding| found.findings.contains(finding)) {
            let law = "an error beneath keeps every finding of the layer";
            return Err(broken(law, found));
        }
    }
    Ok(())
}

/// Tests that joining three verdicts is associative, commutative and idempotent, and takes the worst judgement.
///
/// # Errors
/// The first law that does not hold.
pub fn health_join(a: &Health, b: &Health, c: &Health) -> Result<(), Violation> {
    let of = |x: &Health, y: &Health| x.clone().join(y.clone());
    if of(&of(a, b), c) != of(a, &of(b, c)) {
        return Err(broken("join is associative", (a, b, c)));
    }
    if of(a, b) != of(b, a) {
        return Err(broken("join is commutative", (a, b)));
    }
    if of(&of(a, b), b) != of(a, b) {
        return Err(broken("join is idempotent", (a, b)));
    }
    if !holds(&of(a, b), a) || !holds(&of(a, b), b) {
        return Err(broken("join never improves the judgement", (a, b)));
    }
    Ok(())
}

async fn over<L>(
    layer: &L,
    beneath: Option<Health>,
    request: &HealthRequest,
) -> Result<Health, Violation>
where
    L: Layer<Found>,
    L::Service: HealthValidator,
{
    let found = layer.layer(Found(beneath)).validate(request.clone()).await;
    found.map_err(|error| broken("an error is unknown, not an error of the stack", error))
}

/// Whether `all` is not better than `part`, contains its findings, and is not younger.
fn holds(all: &Health, part: &Health) -> bool {
    let kept = |finding: &Finding| all.findings.contains(finding);
    all.judgement >= part.judgement && part.findings.iter().all(kept) && all.as_of <= part.as_of
}

/// Verdicts of the service beneath: one without findings, and one for each judgement.
fn samples(request: &HealthRequest) -> Vec<Health> {
    let finding = |judgement| {
        Finding::new(judgement, format!("{judgement:?}"))
            .validator("beneath")
            .because(1)
    };
    let earlier = request.now - Duration::from_secs(30);
    let found = |judgement| Health::found(earlier, finding(judgement));
    let judgements = [Judgement::Healthy, Judgement::Unknown, Judgement::Unhealthy];
    let found = judgements.map(found);
    [vec![Health::healthy(request.now)], found.into()].concat()
}

fn broken(law: &'static str, found: impl std::fmt::Debug) -> Violation {
    Violation::new("the health layer", law, found)
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;
    use jiff::Timestamp;
    use proptest::prelude::*;
    use tower_layer::layer_fn;

    use super::*;
    use crate::{
        service::{HealthLayer, HealthService, Healthy},
        testing::{FakeHealth, MockHealthValidator, health_request},
    };

    prop_compose! {
        fn health()(found in prop::collection::vec(("[ab]", 0..3u8, 0..2u8, 0..9i64), 1..4)) -> Health {
            let one = |(validator, judgement, evidence, at): (String, u8, u8, i64)| {
                let judgement = [Judgement::Healthy, Judgement::Unknown, Judgement::Unhealthy][judgement as usize];
                let finding = Finding::new(judgement, "found").validator(validator).because(evidence);
                Health::found(Timestamp::from_second(at).unwrap(), finding)
            };
            found.into_iter().map(one).reduce(Health::join).unwrap()
        }
    }

    proptest! {
        #[test]
        fn health_join_is_a_semilattice(a in health(), b in health(), c in health()) {
            health_join(&a, &b, &c)?;
        }
    }

    #[test]
    fn health_layer_keeps_the_laws_with_every_judgement() {
        let fake = FakeHealth::new("fake");
        for judgement in [Judgement::Healthy, Judgement::Unknown, Judgement::Unhealthy] {
            fake.says(judgement);
            let layer = HealthLayer::new(fake.clone());
            block_on(health_layer(layer, [health_request(["job/eu"])])).unwrap();
        }
    }

    #[test]
    fn r21_failed_validator_is_unknown_and_keeps_other_findings() {
        let fails = FakeHealth::new("fails");
        fails.fails();
        let unwell = FakeHealth::new("unwell");
        unwell.says(Judgement::Unhealthy);
        let stack = tower::ServiceBuilder::new()
            .layer(HealthLayer::new(fails.clone()))
            .layer(HealthLayer::new(unwell))
            .service(Healthy);
        let health = block_on(stack.validate(health_request(["job/eu"]))).unwrap();
        assert_eq!(health.judgement, Judgement::Unhealthy);
        let names: Vec<&str> = health.findings.iter().map(|f| &*f.validator).collect();
        assert_eq!(names, ["fails", "unwell"]);
        let alone = HealthLayer::new(fails).layer(Healthy);
        let health = block_on(alone.validate(health_request(["job/eu"]))).unwrap();
        assert_eq!(health.judgement, Judgement::Unknown);
        assert!(health.findings[0].summary.contains("told to fail"));
    }

    #[test]
    fn health_layer_that_breaks_a_law_is_reported() {
        let request = || [health_request(["job/eu"])];
        let better = layer_fn(|_| Healthy);
        let broken = block_on(health_layer(better, request())).unwrap_err();
        assert_eq!(broken.law(), "a layer never improves the judgement");
        let passes_errors = layer_fn(|inner: Found| inner);
        let broken = block_on(health_layer(passes_errors, request())).unwrap_err();
        assert_eq!(
            broken.law(),
            "an error is unknown, not an error of the stack"
        );
    }

    #[test]
    fn mock_validator_works_as_a_service() {
        let mut mock = MockHealthValidator::new();
        mock.expect_validate()
            .returning(|request| Ok(Health::healthy(request.now)));
        let service = HealthService::new(mock);
        let health = block_on(service.validate(health_request(["job/eu"]))).unwrap();
        assert_eq!(health.judgement, Judgement::Healthy);
    }
}
