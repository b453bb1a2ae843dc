//! The registered plugins by type of asset: the base service of the diff and push stacks.

use std::{
    sync::Arc,
    task::{Context, Poll},
};

use futures::future::BoxFuture;
use plugin_sdk::{
    AssetIntent, AssetPlugin, Diff, DiffRequest, PushRequest, Pushed, Turndown, plugin,
};
use prodspec_model::Message as _;
use tower::Service;

use crate::{config::TypeConfig, kernel::TypeNo};

/// One registered type with its plugin.
#[derive(Clone)]
pub(crate) struct Registered {
    pub(crate) config: TypeConfig,
    pub(crate) plugin: Arc<dyn AssetPlugin>,
    pub(crate) turndown: Option<Arc<dyn Turndown>>,
}

/// All registered plugins as one service for diffs and pushes. It calls the plugin registered for the asset's type.
#[derive(Clone, Default)]
pub struct Registry(Arc<Vec<Registered>>);

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list()
            .entries(self.0.iter().map(|entry| &entry.config.name))
            .finish()
    }
}

impl Registry {
    pub(crate) fn new(all: Vec<Registered>) -> Self {
        Self(Arc::new(all))
    }

    pub(crate) fn configs(&self) -> Vec<TypeConfig> {
        self.0.iter().map(|entry| entry.config.clone()).collect()
    }

    /// The type with this number, in the order of registration.
    pub(crate) fn at(&self, kind: TypeNo) -> Option<&Registered> {
        self.0.get(kind.index())
    }

    pub(crate) fn of(&self, type_name: &str) -> Option<&Registered> {
        self.0
            .iter()
            .find(|entry| entry.config.name.as_str() == type_name)
    }

    /// The entry for the type that an asset has in an incarnation.
    fn entry(&self, intent: &AssetIntent) -> Result<&Registered, plugin::Error> {
        let asset = intent.asset()?;
        self.of(asset.type_str()).ok_or_else(|| {
            plugin::Error::permanent(format!(
                "no plugin is registered for {}; register one or declare it modelled-only",
                asset.type_str()
            ))
        })
    }
}

impl Registered {
    /// Pushes the asset, or turns it down if it has the turndown addon. `push` is never called for an asset with that
    /// addon.
    pub(crate) async fn change(&self, request: PushRequest) -> Result<Pushed, plugin::Error> {
        let asset = request.asset()?;
        if !asset.has_addon(prodspec_model::addons::Turndown::TYPE) {
            return self.plugin.push(request).await;
        }
        match &self.turndown {
            Some(turndown) => turndown.turndown(request).await,
            None => Err(plugin::Error::permanent(format!(
                "no plugin turns {} down; register one with Turndown",
                asset.type_str()
            ))),
        }
    }
}

impl Service<DiffRequest> for Registry {
    type Response = Diff;
    type Error = plugin::Error;
    type Future = BoxFuture<'static, Result<Diff, plugin::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), plugin::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: DiffRequest) -> Self::Future {
        let all = self.clone();
        Box::pin(async move {
            let entry = all.entry(&request.intent)?;
            entry.plugin.diff(request).await
        })
    }
}

impl Service<PushRequest> for Registry {
    type Response = Pushed;
    type Error = plugin::Error;
    type Future = BoxFuture<'static, Result<Pushed, plugin::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), plugin::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: PushRequest) -> Self::Future {
        let all = self.clone();
        Box::pin(async move {
            let entry = all.entry(&request.intent)?;
            entry.change(request).await
        })
    }
}
