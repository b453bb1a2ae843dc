//! What retention asks of the enforcer: which incarnations are in use, and which may be removed.

use std::collections::BTreeSet;

use control_plane_runtime::Runtime;
use prodspec_model::IncarnationNo;

use super::Handle;
use crate::shell::{
    error::AskError,
    input::{Input, Retiring},
};

impl<R: Runtime> Handle<R> {
    /// The incarnations that retention must spare: those at which assets are enforced, and those that records refer to.
    ///
    /// # Errors
    /// When the enforcer is not running.
    pub async fn referenced(&self) -> Result<Vec<IncarnationNo>, AskError> {
        self.ask(Input::Referenced).await
    }

    /// Returns those of the `old` incarnations that may be removed: no asset is enforced at them and no record refers
    /// to them, and that is durable. Pins to the returned incarnations are refused from now on.
    ///
    /// # Errors
    /// When the enforcer is not running.
    pub async fn retire(
        &self,
        old: BTreeSet<IncarnationNo>,
    ) -> Result<BTreeSet<IncarnationNo>, AskError> {
        self.ask(|reply| Input::Retire(Retiring { old, reply }))
            .await
    }
}
