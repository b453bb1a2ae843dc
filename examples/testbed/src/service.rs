//! What the commands need to know of a service. Everything else about it is the business of its own crate.

use std::path::PathBuf;

use control_plane::prelude::{ControlPlane, Store};

use crate::{place::Place, program::Failure};

/// A service with a control plane, which the commands of the testbed run and inspect.
pub trait Service: 'static {
    /// The manifest that a new state directory gets. The command `down` removes it if it was not edited.
    const MANIFEST: &'static str;
    /// Id of the policy asset whose rollout the command `rollout` shows and steers.
    const POLICY: &'static str;

    /// Edits of the manifest whose effect one sees, as lines for the terminal.
    const TRY: &'static [&'static str];

    /// Assembles the control plane for the state directory `place`. Missing cells are started as processes of
    /// `program`.
    ///
    /// # Errors
    /// When the builder refuses the configuration or a workflow. That would be a defect of the service.
    fn plane(place: &Place, program: PathBuf, store: impl Store) -> Result<ControlPlane, Failure>;
}
