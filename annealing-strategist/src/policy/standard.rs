//! The stack of all policy layers: start reading here.

use futures::future::BoxFuture;
use plugin_sdk::{BoxError, SelectRequest, Selection, service::AllTargets};
use tower::ServiceBuilder;
use tower_service::Service;

use super::{
    BakeLayer, CanaryLayer, HoldLayer, MaxInFlightLayer, MaxUnavailableLayer,
    OneDomainAtATimeLayer, WavesLayer,
};

/// Every layer, by policy. Read it from below: each layer chooses from what those beneath it offer.
///
/// ```
/// use annealing_strategist::policy;
/// use plugin_sdk::{TargetSelection, testing::{select_request, target}};
/// use prodspec_model::rollout::RolloutPolicy;
/// use std::sync::Arc;
///
/// # futures::executor::block_on(async {
/// let mut request = select_request([target("job/eu", &["eu"]), target("job/us", &["us"])]);
/// request.policy = Arc::new(RolloutPolicy { domains: vec!["us".into()], ..RolloutPolicy::default() });
/// let selection = policy::standard().select(request).await?;
/// assert_eq!((selection.now, selection.stage.as_deref()), (vec![1], Some("us")));
/// # Ok::<(), plugin_sdk::BoxError>(())
/// # }).unwrap();
/// ```
pub fn standard() -> impl Service<
    SelectRequest,
    Response = Selection,
    Error = BoxError,
    Future = BoxFuture<'static, Result<Selection, BoxError>>,
> + Clone
+ Send
+ Sync
+ 'static {
    standard_over(AllTargets)
}

/// The same over `stages` of your own: canary, waves, domains and limits choose from what those offer. Limits of your own
/// go around [`standard`] instead.
pub fn standard_over<S>(
    stages: S,
) -> impl Service<
    SelectRequest,
    Response = Selection,
    Error = BoxError,
    Future = BoxFuture<'static, Result<Selection, BoxError>>,
> + Clone
+ Send
+ Sync
+ 'static
where
    S: Service<SelectRequest, Response = Selection, Error: Into<BoxError>, Future: Send + 'static>
        + Clone
        + Send
        + Sync
        + 'static,
{
    ServiceBuilder::new()
        // A person's word is above all others'.
        .layer(HoldLayer::by_policy())
        // Limits take from the front of what the stages offer. Beneath a stage they could spend all their room on
        // targets that the stage does not let through. The limit that knows domains comes first: what it holds back
        // in one domain leaves room for another's.
        .layer(MaxInFlightLayer::by_policy())
        .layer(MaxUnavailableLayer::by_policy())
        // The canary is chosen from what the waves and domains offer, so it is always in the first domain.
        .layer(CanaryLayer::by_policy())
        // Waves count over all domains; which domain a wave's targets are in, the domains decide.
        .layer(WavesLayer::by_policy())
        .layer(OneDomainAtATimeLayer::by_policy())
        // Not before all is selected has the end of the rollout anything to wait for.
        .layer(BakeLayer::by_policy())
        .service(stages)
}
