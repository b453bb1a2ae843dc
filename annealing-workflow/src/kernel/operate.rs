//! Runs of operations.

use plugin_sdk::{
    By, Now,
    operation::{Start, StartCause},
};
use prodspec_model::operation::History;

use super::{
    Lane,
    event::{Effects, Reply},
    refused::Refused,
    start::Starting,
};
use crate::{
    operation::Operated,
    record::{Changed, KeyRecord},
};

/// An operation to run.
pub(super) struct Operating {
    /// The name of the operation, as the workflow, and the key.
    pub(super) start: Start,
    pub(super) operation: Operated,
    pub(super) cause: StartCause,
    /// The executions and watches that led to it, the nearest last.
    pub(super) chain: Vec<String>,
    /// The assets that it is about, for a run of a watch.
    pub(super) changed: Option<Changed>,
    /// How many runs of its schedule or watch are kept.
    pub(super) history: Option<History>,
}

impl Lane {
    /// Runs an operation, or finds the execution that its key has started.
    pub(super) fn operate(
        &mut self,
        now: Now,
        operating: Operating,
        by: &By,
        known: Option<Box<KeyRecord>>,
        out: &mut Effects,
    ) -> Result<Reply, Refused> {
        let Operating {
            start,
            operation,
            cause,
            chain,
            changed,
            history,
        } = operating;
        let start = operation.labelled(start);
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
            chain,
            changed,
            history,
            runs: Vec::new(),
        };
        self.start_new(now, starting, by, out)
    }
}
