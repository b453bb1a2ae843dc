//! The [`Canary`] rule as a layer.

use std::time::Duration;

use super::Canary;
use crate::policy::PolicyLayer;

/// Lets the first few targets through, and the others once those have settled, baked, and been found healthy.
///
/// The first targets are chosen from the inner selection: put this layer above domains and windows.
///
/// ```
/// use annealing_strategist::policy::CanaryLayer;
/// use plugin_sdk::service::AllTargets;
/// use std::time::Duration;
///
/// let policy = tower::ServiceBuilder::new()
///     .layer(CanaryLayer::new(1).bake(Duration::from_secs(1800)))
///     .service(AllTargets);
/// ```
pub type CanaryLayer = PolicyLayer<Canary>;

impl CanaryLayer {
    /// Creates a layer with a canary of `count` targets and no bake.
    pub fn new(count: u32) -> Self {
        let bake = Duration::ZERO;
        Self::fixed(Canary { count, bake })
    }

    /// Sets the time for which the canary has to stay settled and healthy.
    #[must_use]
    pub fn bake(mut self, bake: Duration) -> Self {
        self.0.bake = bake;
        self
    }
}
