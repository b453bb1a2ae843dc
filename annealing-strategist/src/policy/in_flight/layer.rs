//! [`MaxInFlight`] as a layer.

use super::MaxInFlight;
use crate::policy::PolicyLayer;

/// At most so many targets are on their way at once.
///
/// Put it above what chooses stages: a limit takes from the front of what is offered.
///
/// ```
/// use annealing_strategist::policy::MaxInFlightLayer;
/// use plugin_sdk::service::AllTargets;
///
/// let policy = tower::ServiceBuilder::new()
///     .layer(MaxInFlightLayer::of(10))
///     .service(AllTargets);
/// ```
pub type MaxInFlightLayer = PolicyLayer<MaxInFlight>;

impl MaxInFlightLayer {
    /// At most `max`.
    pub fn of(max: u32) -> Self {
        Self::fixed(MaxInFlight(max))
    }
}
