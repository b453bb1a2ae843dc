//! Push: make production equal to one asset's intent.

use std::time::Duration;

use async_trait::async_trait;
use prodspec_model::{AssetId, Digest, IncarnationId};
use serde::{Deserialize, Serialize};

use crate::{
    diff::{Diff, DiffRequest},
    error::PluginError,
    reader::IncarnationReader,
    run::{Cause, FencingToken, Run},
};

/// Push one asset.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PushRequest {
    /// Which asset.
    pub asset: AssetId,
    /// At which incarnation.
    pub incarnation: IncarnationId,
    /// Who pushes.
    pub token: FencingToken,
    /// Which call this is.
    pub run: Run,
    /// Why.
    pub cause: Cause,
    /// The digest of the change that was checked.
    pub change: Digest,
    /// A follow-up of a push that answered [`Pushed::InProgress`], with the same request.
    pub continuation: bool,
    /// Reads `incarnation`; travels beside the data.
    #[serde(skip)]
    pub reader: IncarnationReader,
}

/// A push that did not fail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "pushed", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Pushed {
    /// The provider has taken it; the next diff says whether production is there.
    Done,
    /// The provider works on it: call push again.
    InProgress {
        /// When to call again.
        check_again_in: Duration,
    },
}

/// How well a provider keeps old calls out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Guard {
    /// It cannot check tokens: after a lost push, the enforcer waits for the push deadline before it trusts a diff. A call
    /// must not take effect later than half of that deadline after it began, even when it was dropped.
    #[default]
    Advisory,
    /// It refuses a call whose `(token, run.n)` is below the greatest it has seen for the asset, diffs included.
    Guarded,
}

/// Knows how to compare and how to change one type of asset.
///
/// Push is idempotent: production itself is the state, no state file, and resource names derive from asset ids. A
/// plugin does nothing unless called.
///
/// ```
/// use async_trait::async_trait;
/// use plugin_sdk::{AssetPlugin, Change, Diff, DiffRequest, Effects, PushRequest, Pushed, plugin};
/// use std::{collections::BTreeMap, sync::Mutex};
///
/// /// Production is a map from asset id to content.
/// #[derive(Default)]
/// struct InMemory(Mutex<BTreeMap<String, String>>);
///
/// #[async_trait]
/// impl AssetPlugin for InMemory {
///     async fn diff(&self, request: DiffRequest) -> Result<Diff, plugin::Error> {
///         let asset = request.reader.asset(&request.asset)?;
///         let there = self.0.lock().unwrap().get(asset.id_str()).cloned();
///         Ok(match there {
///             Some(content) if content == asset.payload_json() => Diff::in_sync(),
///             _ => Diff::Differs {
///                 change: Box::new(Change::new(&asset, "write it", vec![], Effects::default())),
///                 observed: Default::default(),
///             },
///         })
///     }
///     async fn push(&self, request: PushRequest) -> Result<Pushed, plugin::Error> {
///         let asset = request.reader.asset(&request.asset)?;
///         self.0.lock().unwrap().insert(asset.id_str().into(), asset.payload_json().into());
///         Ok(Pushed::Done)
///     }
/// }
/// ```
#[async_trait]
pub trait AssetPlugin: Send + Sync + 'static {
    /// Compares intent and production. Never changes production.
    async fn diff(&self, request: DiffRequest) -> Result<Diff, PluginError>;

    /// Makes production equal to intent.
    async fn push(&self, request: PushRequest) -> Result<Pushed, PluginError>;
}
