//! The [`MaxInFlight`] rule as a layer.

use super::MaxInFlight;
use crate::policy::PolicyLayer;

/// Limits the number of targets that are in flight at once.
///
/// Put this layer above the layers that choose stages: it takes targets from the front of the inner selection.
///
/// ```
/// use annealing_strategist::policy::MaxInFlightLayer;
/// use plugin_sdk::service::AllTargets;
///
/// let policy = tower::ServiceBuilder::new()
///     .layer(MaxInFlightLayer::new(10))
///     .service(AllTargets);
/// ```
pub type MaxInFlightLayer = PolicyLayer<MaxInFlight>;

impl MaxInFlightLayer {
    /// Creates a layer that allows at most `max` targets in flight.
    pub fn new(max: u32) -> Self {
        Self::fixed(MaxInFlight(max))
    }
}
