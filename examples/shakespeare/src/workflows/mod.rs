//! Workflows and operations of the service: work whose effects happen once. The manifest says what production shall be;
//! posters are printed.
//!
//! - [`season`]: texts are checked while posters are printed, a person decides, and what was printed is destroyed if the
//!   season does not open. Start reading there.
//! - [`resize`]: functions of an operation that edits the manifest. [`index`]: an index that is never too old.
//! - [`printer`]: the press, as functions use it.

mod index;
mod printer;
mod resize;
mod season;

pub(crate) use printer::Printer;

use control_plane::{ControlPlaneBuilder, workflow::Error};

/// Registers the functions and the workflows.
///
/// # Errors
/// When a workflow is refused. That would be a defect of this module.
pub(crate) fn add(
    builder: ControlPlaneBuilder,
    press: &Printer,
) -> Result<ControlPlaneBuilder, Error> {
    let builder = printer::add(builder, press);
    let builder = season::add(builder)?;
    index::add(resize::add(builder))
}
