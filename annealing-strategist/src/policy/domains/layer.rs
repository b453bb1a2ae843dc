//! The [`OneDomainAtATime`] rule as a layer.

use std::time::Duration;

use super::OneDomainAtATime;
use crate::policy::PolicyLayer;

/// Lets one failure domain through after the other. The next one starts when the present one has settled, baked, and
/// been found healthy.
///
/// Domains that are not listed follow in the order of their names. Targets without a domain, which may affect all
/// domains, come last. A target belongs to the first of its domains.
///
/// ```
/// use annealing_strategist::policy::OneDomainAtATimeLayer;
/// use plugin_sdk::service::AllTargets;
/// use std::time::Duration;
///
/// let policy = tower::ServiceBuilder::new()
///     .layer(OneDomainAtATimeLayer::new(["test", "eu", "us"]).bake(Duration::from_secs(600)))
///     .service(AllTargets);
/// ```
pub type OneDomainAtATimeLayer = PolicyLayer<OneDomainAtATime>;

impl OneDomainAtATimeLayer {
    /// Creates a layer with this order of domains and no bake.
    pub fn new<D: Into<String>>(domains: impl IntoIterator<Item = D>) -> Self {
        Self::fixed(OneDomainAtATime {
            order: domains.into_iter().map(Into::into).collect(),
            bake: Duration::ZERO,
        })
    }

    /// Sets the time for which each domain has to stay settled and healthy before the next one starts.
    #[must_use]
    pub fn bake(mut self, bake: Duration) -> Self {
        self.0.bake = bake;
        self
    }
}
