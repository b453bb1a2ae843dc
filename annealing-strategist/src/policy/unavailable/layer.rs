//! The [`MaxUnavailable`] rule as a layer.

use super::MaxUnavailable;
use crate::policy::PolicyLayer;

/// Limits the number of targets per failure domain that are in flight or have drifted.
///
/// A target counts in each of its domains. A target without domains counts in all of them, and waits until all have
/// room.
///
/// ```
/// use annealing_strategist::policy::MaxUnavailableLayer;
/// use plugin_sdk::service::AllTargets;
///
/// let policy = tower::ServiceBuilder::new()
///     .layer(MaxUnavailableLayer::new(1))
///     .service(AllTargets);
/// ```
pub type MaxUnavailableLayer = PolicyLayer<MaxUnavailable>;

impl MaxUnavailableLayer {
    /// Creates a layer that allows at most `max` unavailable targets in each domain.
    pub fn new(max: u32) -> Self {
        Self::fixed(MaxUnavailable(max))
    }
}
