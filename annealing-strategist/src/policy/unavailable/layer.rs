//! [`MaxUnavailable`] as a layer.

use super::MaxUnavailable;
use crate::policy::PolicyLayer;

/// At most so many targets of one failure domain are on their way, or have drifted, at once.
///
/// A target counts in each domain that it can hurt; one that names none counts in all, and waits until all have room.
///
/// ```
/// use annealing_strategist::policy::MaxUnavailableLayer;
/// use plugin_sdk::service::AllTargets;
///
/// let policy = tower::ServiceBuilder::new()
///     .layer(MaxUnavailableLayer::per_domain(1))
///     .service(AllTargets);
/// ```
pub type MaxUnavailableLayer = PolicyLayer<MaxUnavailable>;

impl MaxUnavailableLayer {
    /// At most `max` in each domain.
    pub fn per_domain(max: u32) -> Self {
        Self::fixed(MaxUnavailable(max))
    }
}
