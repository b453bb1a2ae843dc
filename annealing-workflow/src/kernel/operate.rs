//! Runs of operations.

use control_plane_store::records::By;
use plugin_sdk::{
    Now,
    operation::{Start, StartCause},
};

use super::{
    Lane,
    event::{Effects, Refused, Reply},
    start::Starting,
};
use crate::{operation::Operated, record::KeyRecord};

impl Lane {
    /// Runs an operation, or finds the execution that its key has started.
    #[expect(clippy::too_many_arguments, reason = "the parts of a command")]
    pub(super) fn operate(
        &mut self,
        now: Now,
        start: Start,
        operation: Operated,
        cause: StartCause,
        by: &By,
        known: Option<Box<KeyRecord>>,
        out: &mut Effects,
    ) -> Result<Reply, Refused> {
        start.check()?;
        if self.settings.workflows.contains_key(&start.workflow) {
            return Err(Refused::NameTaken(start.workflow));
        }
        if let Some(found) = self.found(&start, Some(operation.digest), known)? {
            return Ok(found);
        }
        let starting = Starting {
            start,
            workflow: operation.workflow,
            operation: Some(operation.digest),
            cause,
            chain: Vec::new(),
            runs: Vec::new(),
        };
        self.start_new(now, starting, by, out)
    }
}
