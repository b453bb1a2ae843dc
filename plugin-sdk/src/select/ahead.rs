//! Asks the checks about targets of a rollout before they are selected.

use std::{fmt, sync::Arc};

use futures::future::BoxFuture;
use prodspec_model::AssetId;

use crate::check::Delay;

type Ask = dyn Fn(Vec<AssetId>) -> BoxFuture<'static, Vec<(AssetId, Vec<Delay>)>> + Send + Sync;

/// Asks the checks of enforcement whether they would delay pushes of targets. Cheap to clone. The default knows no checks.
#[derive(Clone, Default)]
pub struct ChecksAhead(Option<Arc<Ask>>);

impl ChecksAhead {
    /// Makes one that asks with `ask`: see [`Enforcement::would_wait`](crate::Enforcement::would_wait).
    pub fn new(
        ask: impl Fn(Vec<AssetId>) -> BoxFuture<'static, Vec<(AssetId, Vec<Delay>)>>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        Self(Some(Arc::new(ask)))
    }

    /// Whether there are no checks to ask: previews, and tests of policies.
    pub fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// Asks about `assets`. Returns the delays of those that would wait, and of others that were found to wait earlier.
    pub async fn would_wait(&self, assets: Vec<AssetId>) -> Vec<(AssetId, Vec<Delay>)> {
        match &self.0 {
            Some(ask) => ask(assets).await,
            None => Vec::new(),
        }
    }
}

impl fmt::Debug for ChecksAhead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChecksAhead").finish_non_exhaustive()
    }
}
