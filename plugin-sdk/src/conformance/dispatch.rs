//! Laws of dispatch: layers only raise the class and add, and answers form a join-semilattice.

use std::{
    future::{Ready, ready},
    task::{Context, Poll},
    time::Duration,
};

use tower_layer::Layer;
use tower_service::Service;

use super::Violation;
use crate::{
    Claim, Class, Delay, Dispatch, DispatchPlugin, DispatchRequest, Recheck,
    error::BoxError,
    service::{DispatchLayer, StackService, stack},
};

/// The service that the tests put beneath a layer. It always returns the same answer, or an error.
#[derive(Debug, Clone)]
pub struct DispatchBeneath(Option<Dispatch>);

impl Service<DispatchRequest> for DispatchBeneath {
    type Response = Dispatch;
    type Error = BoxError;
    type Future = Ready<Result<Dispatch, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: DispatchRequest) -> Self::Future {
        let answer = self.0.clone();
        ready(answer.ok_or_else(|| "the service beneath failed".into()))
    }
}

/// Tests the laws of dispatch layers for `layer`, with each of `requests`. The layer must answer equal requests equally:
/// use fakes in a layer that calls external systems.
///
/// ```
/// use plugin_sdk::{conformance, service::{ByCause, DispatchLayer}, testing};
///
/// # futures::executor::block_on(async {
/// let layer = DispatchLayer::new(ByCause); // yours instead
/// conformance::dispatch_layer(layer, [testing::dispatch_request()]).await
/// # }).unwrap();
/// ```
///
/// # Errors
/// The first law that does not hold.
pub async fn dispatch_layer<L>(
    layer: L,
    requests: impl IntoIterator<Item = DispatchRequest>,
) -> Result<(), Violation>
where
    L: Layer<DispatchBeneath, Service: StackService<DispatchRequest, Dispatch>>,
{
    for request in requests {
        for beneath in samples(&request) {
            let found = over(&layer, Some(beneath.clone()), &request).await?;
            if !holds(&found, &beneath) {
                let law = "a layer only raises the class, adds delays and adds claims";
                return Err(broken(&request, law, (found, beneath)));
            }
            if over(&layer, Some(beneath), &request).await? != found {
                let law = "equal requests get equal answers";
                return Err(broken(&request, law, found));
            }
        }
        let own = over(&layer, Some(request.go()), &request).await?;
        let found = over(&layer, None, &request).await?;
        if found.delays.len() <= own.delays.len() || !holds(&found, &own) {
            let law = "an error beneath is a delay and keeps every finding of the layer";
            return Err(broken(&request, law, (found, own)));
        }
    }
    Ok(())
}

/// As [`dispatch_layer`], for a rule in a [`DispatchLayer`].
///
/// # Errors
/// The first law that does not hold.
pub async fn dispatch_plugin(
    plugin: impl DispatchPlugin,
    requests: impl IntoIterator<Item = DispatchRequest>,
) -> Result<(), Violation> {
    dispatch_layer(DispatchLayer::new(plugin), requests).await
}

/// Tests that joining three answers is associative, commutative and idempotent, and loses nothing.
///
/// # Errors
/// The first law that does not hold.
pub fn dispatch_join(a: &Dispatch, b: &Dispatch, c: &Dispatch) -> Result<(), Violation> {
    let of = |x: &Dispatch, y: &Dispatch| x.clone().join(y.clone());
    let fail = |law| Err(Violation::new("join", law, (a, b, c)));
    if of(&of(a, b), c) != of(a, &of(b, c)) {
        return fail("join is associative");
    }
    if of(a, b) != of(b, a) {
        return fail("join is commutative");
    }
    if of(&of(a, b), b) != of(a, b) || !holds(a, &of(a, a)) {
        return fail("join is idempotent");
    }
    if !holds(&of(a, b), a) || !holds(&of(a, b), b) {
        return fail("join keeps everything");
    }
    Ok(())
}

async fn over<L>(
    layer: &L,
    beneath: Option<Dispatch>,
    request: &DispatchRequest,
) -> Result<Dispatch, Violation>
where
    L: Layer<DispatchBeneath, Service: StackService<DispatchRequest, Dispatch>>,
{
    let stack = stack(layer.layer(DispatchBeneath(beneath)));
    let found = stack.call(request.clone()).await;
    let law = "an error is a delay, not an error of the stack";
    found.map_err(|error| broken(request, law, error))
}

/// Whether `all` contains all parts of `part`, is not of a lower class, and is not younger.
fn holds(all: &Dispatch, part: &Dispatch) -> bool {
    all.class >= part.class
        && part.delays.iter().all(|delay| all.delays.contains(delay))
        && part.claims.iter().all(|claim| all.claims.contains(claim))
        && all.as_of <= part.as_of
}

/// Answers of the service beneath: the lowest one, and one with every kind of part.
fn samples(request: &DispatchRequest) -> [Dispatch; 2] {
    let delay = |reason: &str| {
        let again = Recheck::After(Duration::from_secs(1));
        let delay = Delay::new(reason, again).check("beneath");
        delay.because(reason.len())
    };
    let mut full = request
        .go()
        .at_least(Class::Urgent)
        .delayed(delay("one reason"))
        .delayed(delay("and another"))
        .claim(Claim::Exclusive("z".into()))
        .claim(Claim::AtMost("beneath".into(), 2));
    full.as_of = request.now - Duration::from_secs(30);
    [request.go(), full]
}

fn broken(request: &DispatchRequest, law: &'static str, found: impl std::fmt::Debug) -> Violation {
    Violation::new(&request.execution, law, found)
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use futures::executor::block_on;
    use jiff::Timestamp;
    use proptest::prelude::*;
    use tower_layer::layer_fn;

    use super::*;
    use crate::{CheckName, Quota, service::ByCause, testing};

    prop_compose! {
        fn answer()(
            class in prop::sample::select(vec![Class::Background, Class::New, Class::UnderWay, Class::Urgent]),
            delays in prop::collection::vec(("[ab]", "[xy]", 0..3u8), 0..4),
            claims in prop::collection::vec((0..3u8, "[ab]"), 0..4),
            age in 0..90i64,
        ) -> Dispatch {
            let claim = |(kind, key): &(u8, String)| match kind {
                0 => Claim::Exclusive(key.as_str().into()),
                1 => Claim::AtMost(key.as_str().into(), 3),
                _ => Claim::Rate(key.as_str().into(), Quota::new(1, Duration::from_secs(1))),
            };
            let delay = |(check, reason, evidence): &(String, String, u8)| {
                let delay = Delay::new(reason, Recheck::After(Duration::from_secs(1)));
                delay.check(check.as_str()).because(*evidence)
            };
            let mut answer = testing::dispatch_request().go();
            answer.class = class;
            answer.delays = delays.iter().map(delay).collect();
            answer.claims = claims.iter().map(claim).collect();
            answer.as_of = Timestamp::from_second(age).unwrap();
            answer
        }
    }

    /// A rule that gives a certain answer, or fails.
    struct Answers(Option<Dispatch>);

    #[async_trait]
    impl DispatchPlugin for Answers {
        fn name(&self) -> CheckName {
            "answers".into()
        }
        async fn dispatch(&self, _: DispatchRequest) -> Result<Dispatch, BoxError> {
            self.0.clone().ok_or_else(|| "the rule failed".into())
        }
    }

    proptest! {
        #[test]
        fn r32_dispatch_join_is_a_semilattice(a in answer(), b in answer(), c in answer()) {
            dispatch_join(&a, &b, &c)?;
        }

        #[test]
        fn r32_dispatch_layer_only_adds_whatever_its_rule_answers(found in prop::option::of(answer())) {
            block_on(dispatch_plugin(Answers(found), [testing::dispatch_request()]))?;
        }
    }

    #[test]
    fn r32_each_broken_law_of_a_dispatch_layer_is_reported() {
        let law = |broken: Result<(), Violation>| broken.unwrap_err().law();
        let request = || [testing::dispatch_request()];
        let drops = layer_fn(|_: DispatchBeneath| ByCause);
        assert_eq!(
            law(block_on(dispatch_layer(drops, request()))),
            "a layer only raises the class, adds delays and adds claims"
        );
        let lowers = layer_fn(|beneath: DispatchBeneath| {
            tower::ServiceBuilder::new()
                .map_response(|mut found: Dispatch| {
                    found.class = Class::Background;
                    found
                })
                .service(beneath)
        });
        assert_eq!(
            law(block_on(dispatch_layer(lowers, request()))),
            "a layer only raises the class, adds delays and adds claims"
        );
        let passes = layer_fn(|beneath: DispatchBeneath| beneath);
        assert_eq!(
            law(block_on(dispatch_layer(passes, request()))),
            "an error is a delay, not an error of the stack"
        );
        let hides = layer_fn(|beneath: DispatchBeneath| {
            tower::service_fn(move |request: DispatchRequest| {
                let mut beneath = beneath.clone();
                async move {
                    let go = request.go();
                    let found = beneath.call(request).await;
                    Ok::<_, BoxError>(found.unwrap_or(go))
                }
            })
        });
        assert_eq!(
            law(block_on(dispatch_layer(hides, request()))),
            "an error beneath is a delay and keeps every finding of the layer"
        );
        let count = std::sync::atomic::AtomicU32::new(0);
        let count = std::sync::Arc::new(count);
        let changes = layer_fn(|beneath: DispatchBeneath| {
            let count = count.clone();
            tower::ServiceBuilder::new()
                .map_response(move |found: Dispatch| {
                    let n = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    found.claim(Claim::Exclusive(n.to_string().as_str().into()))
                })
                .service(beneath)
        });
        assert_eq!(
            law(block_on(dispatch_layer(changes, request()))),
            "equal requests get equal answers"
        );
    }
}
