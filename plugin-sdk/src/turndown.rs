//! Turndown: the removal of a resource from production. It is separate from push, so that no push can remove a
//! resource.

use std::sync::Arc;

use async_trait::async_trait;

use crate::{
    error::PluginError,
    push::{PushRequest, Pushed},
};

/// Removes the assets of one type from production. Optional: without it, assets of the type are never removed.
///
/// Called only for an asset whose pinned incarnation carries the `Turndown` addon, and with an approval that is bound
/// to the change. The plugin's diff returns `InSync` once the resource is gone.
#[async_trait]
pub trait Turndown: Send + Sync + 'static {
    /// Removes the resource of one asset from production. Must be idempotent.
    ///
    /// # Errors
    /// If the removal fails, with the same classes as a push.
    async fn turndown(&self, request: PushRequest) -> Result<Pushed, PluginError>;
}

/// A turndown that is shared.
#[async_trait]
impl<T: Turndown + ?Sized> Turndown for Arc<T> {
    async fn turndown(&self, request: PushRequest) -> Result<Pushed, PluginError> {
        (**self).turndown(request).await
    }
}
