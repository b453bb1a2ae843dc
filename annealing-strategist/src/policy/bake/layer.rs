//! The [`Bake`] rule as a layer.

use std::time::Duration;

use super::Bake;
use crate::policy::PolicyLayer;

/// Ends a rollout only when all its targets have stayed settled for a time and been found healthy since.
///
/// ```
/// use annealing_strategist::policy::BakeLayer;
/// use plugin_sdk::service::AllTargets;
/// use std::time::Duration;
///
/// let policy = tower::ServiceBuilder::new()
///     .layer(BakeLayer::new(Duration::from_secs(3600)))
///     .service(AllTargets);
/// ```
pub type BakeLayer = PolicyLayer<Bake>;

impl BakeLayer {
    /// Creates the layer. All targets together have to stay settled for `bake` and then be found healthy. With zero
    /// they have to be found healthy once.
    pub fn new(bake: Duration) -> Self {
        Self::fixed(Bake(bake))
    }
}
