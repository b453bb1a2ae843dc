//! [`Hold`] as a layer.

use super::Hold;
use crate::policy::PolicyLayer;

/// Nothing more is selected, in an emergency neither; only the way back is open.
///
/// ```
/// use annealing_strategist::policy::HoldLayer;
/// use plugin_sdk::service::AllTargets;
///
/// let policy = tower::ServiceBuilder::new()
///     .layer(HoldLayer::because("the data centre moves"))
///     .service(AllTargets);
/// ```
pub type HoldLayer = PolicyLayer<Hold>;

impl HoldLayer {
    /// Holds for a reason that people are shown.
    pub fn because(why: impl Into<String>) -> Self {
        Self::fixed(Hold(why.into()))
    }
}
