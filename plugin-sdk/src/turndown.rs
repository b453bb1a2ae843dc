//! Turndown: taking a resource out of production, apart from push so that no push can ever remove.

use async_trait::async_trait;

use crate::{
    error::PluginError,
    push::{PushRequest, Pushed},
};

/// Removes one type of asset from production. Optional: without it, assets of the type are never removed.
///
/// Called only for an asset whose pinned incarnation carries the `Turndown` addon, with an approval bound to the
/// change. The plugin's diff says `InSync` once the resource is gone.
#[async_trait]
pub trait Turndown: Send + Sync + 'static {
    /// Removes the resource. Idempotent.
    async fn turndown(&self, request: PushRequest) -> Result<Pushed, PluginError>;
}
