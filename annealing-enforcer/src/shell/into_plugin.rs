//! The forms in which an asset plugin can be handed over: by value, or shared.

use std::sync::Arc;

use plugin_sdk::AssetPlugin;

/// An asset plugin, or an `Arc` of one, for [`Plugin::new`](super::Plugin::new). `Form` tells the implementations apart, and
/// is inferred.
///
/// ```
/// use std::sync::Arc;
/// use annealing_enforcer::Plugin;
/// use plugin_sdk::{AssetPlugin, testing::InMemoryProduction};
///
/// let own = Plugin::new(InMemoryProduction::new());
/// let production = Arc::new(InMemoryProduction::new()); // the caller keeps a clone
/// let shared = Plugin::new(production.clone()).turndown(production.clone());
/// let any = Plugin::new(production as Arc<dyn AssetPlugin>);
/// # let _ = (own, shared, any);
/// ```
pub trait IntoPlugin<Form> {
    /// Returns the plugin as a shared one.
    fn into_plugin(self) -> Arc<dyn AssetPlugin>;
}

/// [`IntoPlugin`] of a plugin itself.
#[derive(Debug)]
pub enum Own {}

/// [`IntoPlugin`] of a shared plugin.
#[derive(Debug)]
pub enum Shared {}

/// [`IntoPlugin`] of a shared plugin whose type is not known.
#[derive(Debug)]
pub enum Any {}

impl<P: AssetPlugin> IntoPlugin<Own> for P {
    fn into_plugin(self) -> Arc<dyn AssetPlugin> {
        Arc::new(self)
    }
}

impl<P: AssetPlugin> IntoPlugin<Shared> for Arc<P> {
    fn into_plugin(self) -> Arc<dyn AssetPlugin> {
        self
    }
}

impl IntoPlugin<Any> for Arc<dyn AssetPlugin> {
    fn into_plugin(self) -> Arc<dyn AssetPlugin> {
        self
    }
}
