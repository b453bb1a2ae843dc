//! [`OneDomainAtATime`] as a layer.

use std::time::Duration;

use super::OneDomainAtATime;
use crate::policy::PolicyLayer;

/// One failure domain after the other, each until it has settled, baked, and been found healthy.
///
/// Domains that are not listed follow by name; targets of none, or of all, come last. A target belongs to the first of
/// its domains.
///
/// ```
/// use annealing_strategist::policy::OneDomainAtATimeLayer;
/// use plugin_sdk::service::AllTargets;
/// use std::time::Duration;
///
/// let policy = tower::ServiceBuilder::new()
///     .layer(OneDomainAtATimeLayer::ordered(["test", "eu", "us"]).bake(Duration::from_secs(600)))
///     .service(AllTargets);
/// ```
pub type OneDomainAtATimeLayer = PolicyLayer<OneDomainAtATime>;

impl OneDomainAtATimeLayer {
    /// In this order.
    pub fn ordered<D: Into<String>>(domains: impl IntoIterator<Item = D>) -> Self {
        Self::fixed(OneDomainAtATime {
            order: domains.into_iter().map(Into::into).collect(),
            bake: Duration::ZERO,
        })
    }

    /// How long each domain has to stay settled and healthy before the next one.
    #[must_use]
    pub fn bake(self, bake: Duration) -> Self {
        self.with(|domains| domains.bake = bake)
    }
}
