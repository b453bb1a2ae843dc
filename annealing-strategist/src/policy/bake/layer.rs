//! [`Bake`] as a layer.

use std::time::Duration;

use super::Bake;
use crate::policy::PolicyLayer;

/// A rollout is over when all of it has stayed settled for a while and been found healthy since.
///
/// ```
/// use annealing_strategist::policy::BakeLayer;
/// use plugin_sdk::service::AllTargets;
/// use std::time::Duration;
///
/// let policy = tower::ServiceBuilder::new()
///     .layer(BakeLayer::lasting(Duration::from_secs(3600)))
///     .service(AllTargets);
/// ```
pub type BakeLayer = PolicyLayer<Bake>;

impl BakeLayer {
    /// How long the whole has to stay settled and healthy. Zero: it has to be found healthy once.
    pub fn lasting(bake: Duration) -> Self {
        Self::fixed(Bake(bake))
    }
}
