//! The stack of all policy layers. Start reading here.

use plugin_sdk::{
    SelectRequest, Selection,
    service::{AllTargets, StackService},
};
use tower::ServiceBuilder;

use super::{
    AskChecks, BakeLayer, CanaryLayer, HoldLayer, MaxInFlightLayer, MaxUnavailableLayer,
    OneDomainAtATimeLayer, WavesLayer,
};

/// Returns the stack of all layers, each configured by policy. Read the source bottom-up: each layer chooses from the
/// selection of the layers beneath it.
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
pub fn standard() -> impl StackService<SelectRequest, Selection> {
    standard_over(AllTargets)
}

/// Returns the same stack over `stages` of your own: canary, waves, domains and limits choose from what your stages
/// offer. Put limits of your own around [`standard`] instead.
pub fn standard_over(
    stages: impl StackService<SelectRequest, Selection>,
) -> impl StackService<SelectRequest, Selection> {
    ServiceBuilder::new()
        // The checks judge only those targets that would be selected.
        .layer(AskChecks)
        // A hold is an operator's command and overrides all other layers.
        .layer(HoldLayer::by_policy())
        // Limits take from the front of the selection that the stages offer. Beneath a stage they could spend all
        // their room on targets that the stage does not let through. The per-domain limit is applied first: targets
        // that it holds back in one domain leave room for targets of other domains.
        .layer(MaxInFlightLayer::by_policy())
        .layer(MaxUnavailableLayer::by_policy())
        // The canary is chosen from the targets that waves and domains offer, so it is always in the first domain.
        .layer(CanaryLayer::by_policy())
        // Waves count over all domains; the domain layer decides from which domain the targets of a wave come.
        .layer(WavesLayer::by_policy())
        .layer(OneDomainAtATimeLayer::by_policy())
        // The last bake starts only when all targets are selected.
        .layer(BakeLayer::by_policy())
        .service(stages)
}
