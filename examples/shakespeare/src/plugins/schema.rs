//! The plugin for the database schema. The database itself refuses calls of an old owner.

use std::path::{Path, PathBuf};

use control_plane::prelude::{
    Asset, AssetPlugin, Diff, DiffRequest, Effects, Observed, PushRequest, Pushed, async_trait,
    plugin,
};
use control_plane::sdk::FencingToken;
use serde_json::json;
use testbed::{
    cells::caller,
    production::database::{Error, look, migrate},
};

use super::{differs, fields, in_sync, misread};
use crate::model::DatabaseSchema;

/// Asset plugin for the schema of one database.
#[derive(Debug, Clone)]
pub struct Schemas {
    path: PathBuf,
}

impl Schemas {
    /// Creates the plugin for the database file at `path`, which need not exist yet.
    pub fn new(path: PathBuf) -> Self {
        Self { path }
    }

    async fn call<T: Send + 'static>(
        &self,
        call: impl FnOnce(&Path) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, plugin::Error> {
        let path = self.path.clone();
        let called = tokio::task::spawn_blocking(move || call(&path)).await;
        match called {
            Ok(answer) => answer.map_err(refused),
            Err(error) => Err(plugin::Error::unknown(error.to_string())),
        }
    }
}

fn refused(error: Error) -> plugin::Error {
    match &error {
        Error::Fenced(seen) => plugin::Error::fenced_by(error.to_string(), FencingToken(*seen)),
        Error::Unknown(_) => plugin::Error::permanent(error.to_string()),
        _ => plugin::Error::transient(error.to_string()),
    }
}

#[async_trait]
impl AssetPlugin for Schemas {
    async fn diff(&self, request: DiffRequest) -> Result<Diff, plugin::Error> {
        let asset = request.asset()?;
        let wanted: DatabaseSchema = asset.payload().map_err(misread)?;
        let caller = caller(request.token, request.run, request.incarnation());
        let there = self.call(move |path| look(path, &caller)).await?;
        Ok(compare(&asset, wanted.version, there))
    }

    async fn push(&self, request: PushRequest) -> Result<Pushed, plugin::Error> {
        let asset = request.asset()?;
        let wanted: DatabaseSchema = asset.payload().map_err(misread)?;
        let caller = caller(request.token, request.run, request.incarnation());
        self.call(move |path| migrate(path, wanted.version, &caller))
            .await?;
        Ok(Pushed::Done)
    }
}

/// Compares the schema with production. Version 0 means that there is no schema yet.
pub(super) fn compare(asset: &Asset, wanted: u32, there: u32) -> Diff {
    let version = |version: u32| (version > 0).then_some(u64::from(version));
    let observed = Observed::default().version(version(there));
    if there == wanted {
        return in_sync(observed);
    }
    let effects = Effects::default()
        .version(version(there), version(wanted))
        .destructive(wanted < there);
    let (from, to) = (json!({"version": there}), json!({"version": wanted}));
    let summary = format!("migrate from version {there} to {wanted}");
    let fields = fields(Some(&from), Some(&to));
    differs(asset, summary, fields, effects, observed)
}
