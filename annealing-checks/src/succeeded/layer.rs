//! The layer that adds a [`Succeeded`] check to a check stack.

use plugin_sdk::service::{Check, CheckLayer};
use tower_layer::Layer;

use super::Succeeded;

/// A layer that runs a workflow for each turndown and each destructive change, and delays the change until it has
/// succeeded: a removal waits for the backup of this very change. A success counts for one hour from the end of its run,
/// unless [`within`](Succeeded::within) says otherwise.
///
/// The input of the workflow is an object with the id of the `asset`, the digest of the `change` and its `summary`. Its
/// executions have the labels of the check ([`label`](Succeeded::label)), so that limits by label count them. Of one
/// asset, one run is live at a time. A run that failed delays the change until a person restarts it, or until it does not
/// count any more.
///
/// ```
/// use std::time::Duration;
///
/// use annealing_checks::{Succeeded, SucceededLayer, Types};
/// use plugin_sdk::{operation::AssetRuns, service::Proceed};
///
/// // `executions` is `builder.executions()` of a control plane.
/// fn checks(executions: impl AssetRuns) {
///     let backup = Succeeded::new("backup", "backup-database", executions)
///         .only(Types::only(["db.v1.Database"]))
///         .label("tier", "databases")
///         .within(Duration::from_secs(3600));
///     let checks = tower::ServiceBuilder::new().layer(SucceededLayer::new(backup)).service(Proceed);
///     drop(checks);
/// }
/// ```
#[derive(Debug, Clone)]
pub struct SucceededLayer(CheckLayer<Succeeded>);

impl SucceededLayer {
    /// Makes a layer with this check.
    pub fn new(check: Succeeded) -> Self {
        Self(CheckLayer::new(check))
    }
}

impl<S> Layer<S> for SucceededLayer {
    type Service = Check<S, Succeeded>;

    fn layer(&self, inner: S) -> Self::Service {
        self.0.layer(inner)
    }
}
