//! The [`Waves`] rule as a layer.

use std::time::Duration;

use prodspec_model::rollout::Amount;

use super::Waves;
use crate::policy::PolicyLayer;

/// Lets one wave through after the other. The next one starts when the present one has settled, baked, and been found
/// healthy. After the last wave, all other targets follow.
///
/// ```
/// use annealing_strategist::policy::WavesLayer;
/// use plugin_sdk::service::AllTargets;
/// use prodspec_model::rollout::Amount::{Count, Percent};
/// use std::time::Duration;
///
/// let policy = tower::ServiceBuilder::new()
///     .layer(WavesLayer::new([Count(2), Percent(10), Percent(50)]).bake(Duration::from_secs(600)))
///     .service(AllTargets);
/// ```
pub type WavesLayer = PolicyLayer<Waves>;

impl WavesLayer {
    /// Creates a layer with these waves and no bake. Each amount is the total number of targets updated when its wave
    /// is over, including the waves before it.
    pub fn new(waves: impl IntoIterator<Item = Amount>) -> Self {
        let waves = waves.into_iter().map(|upto| (upto, Duration::ZERO));
        Self::fixed(Waves(waves.collect()))
    }

    /// Sets the time for which each wave has to stay settled and healthy.
    #[must_use]
    pub fn bake(mut self, bake: Duration) -> Self {
        for (_, each) in &mut self.0.0 {
            *each = bake;
        }
        self
    }
}
