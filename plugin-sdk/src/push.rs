//! Pushes: calls that make production equal to one asset's intent.

use std::time::Duration;

use async_trait::async_trait;
use prodspec_model::Digest;
use serde::{Deserialize, Serialize};

use crate::{
    diff::{Diff, DiffRequest},
    error::PluginError,
    intent::{AssetIntent, about_one_asset},
    run::{Cause, FencingToken, Run},
};

/// Asks a plugin to push one asset.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PushRequest {
    /// The asset to push, and the incarnation whose content is pushed.
    #[serde(flatten)]
    pub intent: AssetIntent,
    /// Fencing token of the owner that pushes.
    pub token: FencingToken,
    /// Identifies this call. Providers use its number to refuse late calls.
    pub run: Run,
    /// The reason for the push.
    pub cause: Cause,
    /// Digest of the change that the checks allowed.
    pub change: Digest,
    /// Whether this call continues a push that answered [`Pushed::InProgress`]. The rest of the request is the same
    /// then.
    pub continuation: bool,
}

impl PushRequest {
    /// Makes a request as the enforcer does; tests of plugins use it too. The cause is [`Cause::Intent`], and the call does
    /// not continue another one.
    pub fn new(intent: AssetIntent, token: FencingToken, run: Run, change: Digest) -> Self {
        Self {
            intent,
            token,
            run,
            cause: Cause::Intent,
            change,
            continuation: false,
        }
    }

    crate::setters! {
        /// Sets the reason for the push.
        cause: Cause,
        /// Sets whether this call continues a push that answered [`Pushed::InProgress`].
        continuation: bool,
    }

    about_one_asset!();
}

/// The result of a push that did not fail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "pushed", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Pushed {
    /// The provider accepted the change. The next diff tells whether production matches intent.
    Done,
    /// The provider is still working. The enforcer calls push again, as a continuation.
    InProgress {
        /// Time until the next call.
        check_again_in: Duration,
    },
}

impl Pushed {
    /// The provider is still working; the enforcer calls push again after `check_again_in`.
    pub fn in_progress(check_again_in: Duration) -> Self {
        Self::InProgress { check_again_in }
    }
}

/// Whether a provider refuses calls of old owners.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Guard {
    /// The provider cannot check tokens. After a push whose outcome is unknown, the enforcer waits for the push
    /// deadline before it trusts a diff. A call must take effect within half of that deadline after it began, or not at
    /// all, even if the enforcer dropped its future.
    #[default]
    Advisory,
    /// The provider refuses a call whose `(token, run.n)` is below the greatest that it has seen for the asset, in
    /// pushes and diffs. An equal one is no refusal: diffs of one owner that overlap carry the same number. A refusal is
    /// a [`PluginError::Fenced`], never a permanent error, after which the asset would not be tried again soon.
    Guarded,
}

/// Compares and changes the assets of one type in production.
///
/// Pushes are idempotent. Production itself is the state: keep no state file, and derive resource names from asset ids.
/// A plugin acts only when it is called.
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
///         let asset = request.asset()?;
///         let there = self.0.lock().unwrap().get(asset.id_str()).cloned();
///         Ok(match there {
///             Some(content) if content == asset.payload_json() => Diff::in_sync(),
///             _ => Diff::differs(Change::new(&asset, "write it", vec![], Effects::default())),
///         })
///     }
///     async fn push(&self, request: PushRequest) -> Result<Pushed, plugin::Error> {
///         let asset = request.asset()?;
///         self.0.lock().unwrap().insert(asset.id_str().into(), asset.payload_json().into());
///         Ok(Pushed::Done)
///     }
/// }
/// ```
#[async_trait]
pub trait AssetPlugin: Send + Sync + 'static {
    /// Compares intent with production. Must not change production.
    ///
    /// # Errors
    /// If the comparison fails. The class of the error decides when the enforcer tries again.
    async fn diff(&self, request: DiffRequest) -> Result<Diff, PluginError>;

    /// Makes production equal to the intent of one asset.
    ///
    /// # Errors
    /// If the push fails. The class of the error decides when the enforcer tries again. Return [`PluginError::Unknown`]
    /// if the push may have taken effect.
    async fn push(&self, request: PushRequest) -> Result<Pushed, PluginError>;
}
