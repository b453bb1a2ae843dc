//! The [`Hold`] rule as a layer.

use super::Hold;
use crate::policy::PolicyLayer;

/// Selects no more targets, not even in an emergency. Only a rollback may go on.
///
/// ```
/// use annealing_strategist::policy::HoldLayer;
/// use plugin_sdk::service::AllTargets;
///
/// let policy = tower::ServiceBuilder::new()
///     .layer(HoldLayer::new("the data centre moves"))
///     .service(AllTargets);
/// ```
pub type HoldLayer = PolicyLayer<Hold>;

impl HoldLayer {
    /// Creates a layer that holds for this reason, which operators are shown.
    pub fn new(why: impl Into<String>) -> Self {
        Self::fixed(Hold(why.into()))
    }
}
