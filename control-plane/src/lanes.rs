//! The engine of workflows as a part of a control plane: what the builder collects for it, and what the other parts share
//! of it. Without the feature `workflows`, `without_workflows` stands in for this module.

use std::sync::Arc;

use annealing_workflow::{BuildError, Executions, Handle as Lane, Workflows, WorkflowsBuilder};
use control_plane_runtime::Runtime;
use control_plane_store::{Store, incarnations::Incarnations};
use prodspec_model::PartitionId;

type Step<R> = Box<dyn FnOnce(WorkflowsBuilder<R>) -> WorkflowsBuilder<R> + Send>;

/// The parts of the engine that the builder of a control plane has so far.
pub(crate) struct LanesBuilder<R> {
    steps: Vec<Step<R>>,
    pub(crate) executions: Executions<R>,
}

impl<R> Default for LanesBuilder<R> {
    fn default() -> Self {
        Self {
            steps: Vec::new(),
            executions: Executions::default(),
        }
    }
}

impl<R: Runtime> LanesBuilder<R> {
    pub(crate) fn push(
        &mut self,
        step: impl FnOnce(WorkflowsBuilder<R>) -> WorkflowsBuilder<R> + Send + 'static,
    ) {
        self.steps.push(Box::new(step));
    }

    pub(crate) fn build(
        self,
        runtime: &R,
        partition: &PartitionId,
        store: &Arc<dyn Store>,
        incarnations: &Arc<Incarnations<dyn Store>>,
    ) -> Result<Lanes<R>, BuildError> {
        let builder = Workflows::builder(runtime.clone(), partition.clone(), store.clone())
            .incarnations(incarnations.clone());
        let steps = self.steps.into_iter();
        Ok(Lanes {
            workflows: steps.fold(builder, |builder, step| step(builder)).build()?,
            executions: self.executions,
        })
    }
}

/// The engine of workflows of one control plane.
pub(crate) struct Lanes<R> {
    pub(crate) workflows: Arc<Workflows<R>>,
    /// Executions, while this process owns the partition.
    pub(crate) executions: Executions<R>,
}

impl<R: Runtime> Lanes<R> {
    /// The lane, if it is running in this process.
    pub(crate) fn running(&self) -> Option<Lane<R>> {
        self.executions.running()
    }

    /// Waits until no lane is running in this process.
    pub(crate) async fn stopped(&self) {
        self.executions.stopped().await;
    }
}
