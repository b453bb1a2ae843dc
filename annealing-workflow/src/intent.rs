//! The port to intent: edits of sources, and the wait until production has them. `control-plane` implements it.

use std::collections::BTreeSet;

use async_trait::async_trait;
use control_plane_store::records::Holder;
use plugin_sdk::{BoxError, plugin};

pub use crate::kernel::{Made, PreparedEdit, Settlement};

/// What executions need of generation and of the sources around them, for one ownership.
#[async_trait]
pub trait Intent: Send + Sync + 'static {
    /// Makes the changes of a step: all of them or none, and once under their id. Fields that another program holds are
    /// refused, and held by this one from then on.
    ///
    /// # Errors
    /// A permanent error if the changes are refused, a transient one if they can be tried again, an unknown one if they may
    /// have been made.
    async fn edit(&self, edit: &PreparedEdit) -> Result<Made, plugin::Error>;

    /// Waits until each asset that the changes are about was found in sync, at an incarnation that was sealed, or found
    /// unchanged, by a run of generation that started after this call.
    ///
    /// # Errors
    /// If that cannot be found out now. It is asked again.
    async fn settled(&self, edit: &PreparedEdit) -> Result<Settlement, plugin::Error>;

    /// Gives up all fields of a holder.
    ///
    /// # Errors
    /// If the store fails. The fields are held until the next owner gives them up.
    async fn release(&self, holder: &Holder) -> Result<(), BoxError>;

    /// Gives up the fields of executions that are not among `live`.
    ///
    /// # Errors
    /// If the store fails.
    async fn release_others(&self, live: &BTreeSet<Holder>) -> Result<(), BoxError>;
}
