//! [`Canary`] as a layer.

use std::time::Duration;

use super::Canary;
use crate::policy::PolicyLayer;

/// Before anything else, the first few, until they have settled, baked, and been found healthy.
///
/// They are chosen from what the selection beneath offers: put it above domains and windows.
///
/// ```
/// use annealing_strategist::policy::CanaryLayer;
/// use plugin_sdk::service::AllTargets;
/// use std::time::Duration;
///
/// let policy = tower::ServiceBuilder::new()
///     .layer(CanaryLayer::one().bake(Duration::from_secs(1800)))
///     .service(AllTargets);
/// ```
pub type CanaryLayer = PolicyLayer<Canary>;

impl CanaryLayer {
    /// One target before the others.
    pub fn one() -> Self {
        Self::first(1)
    }

    /// The first `count`.
    pub fn first(count: u32) -> Self {
        let bake = Duration::ZERO;
        Self::fixed(Canary { count, bake })
    }

    /// How long they have to stay settled and healthy.
    #[must_use]
    pub fn bake(self, bake: Duration) -> Self {
        self.with(|canary| canary.bake = bake)
    }
}
