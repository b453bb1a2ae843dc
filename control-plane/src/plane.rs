//! The control plane of one partition: an enforcer, and generation and rollouts while the partition is owned.

use std::{future::Future, sync::Arc};

use annealing_enforcer::Enforcer;
use annealing_strategist::{Handle as Rollouts, Strategist};
use control_plane_runtime::{Runtime, TokioRuntime};
use control_plane_store::{Store, incarnations::Incarnations};
use prodspec_gen::Pipeline;
use prodspec_model::PartitionId;
use tokio::sync::watch;

use crate::handle::Handle;

/// A control plane of one partition: it generates, enforces and rolls out.
///
/// Several processes may run the same control plane on one shared store. One of them owns the partition and works; the
/// others wait, and one of them takes over when the owner ends. See the [crate's example](crate).
pub struct ControlPlane<R = TokioRuntime> {
    pub(crate) enforcer: Enforcer<R>,
    pub(crate) shared: Arc<Shared<R>>,
}

/// Data that the parts of one control plane share.
pub(crate) struct Shared<R> {
    pub(crate) runtime: R,
    pub(crate) partition: PartitionId,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) incarnations: Arc<Incarnations<dyn Store>>,
    pub(crate) pipeline: Pipeline,
    pub(crate) strategist: Arc<Strategist<R>>,
    /// Number of newest incarnations that are kept.
    pub(crate) keep: usize,
    /// Handle to generation; `None` while this process does not own the partition.
    pub(crate) owned: watch::Sender<Option<prodspec_gen::Handle>>,
    /// Handle to rollouts; `None` while this process does not own the partition.
    pub(crate) rollouts: watch::Sender<Option<Rollouts<R>>>,
}

impl<R: Runtime> ControlPlane<R> {
    /// Returns a handle for questions and commands. It works before and while the control plane runs.
    pub fn handle(&self) -> Handle<R> {
        Handle {
            shared: self.shared.clone(),
            enforcer: self.enforcer.handle(),
            planner: self.enforcer.planner(),
        }
    }

    /// Generates, enforces and rolls out until `shutdown` completes. Waits while another process owns the partition,
    /// and again after another process has taken it over. Production is left as it is at the end. The store closes when
    /// the last handle is dropped too.
    ///
    /// # Errors
    /// If the store is poisoned or otherwise fails permanently.
    pub async fn run(
        self,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), annealing_enforcer::Error> {
        let mut owned = self.shared.owned.subscribe();
        let mut rolls = self.shared.rollouts.subscribe();
        let ended = self.enforcer.run(shutdown).await;
        // Generation and rollouts end with the ownership. Wait for their end, so that they do not outlive this call.
        // The senders are in `self.shared`, so waiting cannot fail.
        let _ = owned.wait_for(Option::is_none).await;
        let _ = rolls.wait_for(Option::is_none).await;
        ended
    }
}

impl<R> std::fmt::Debug for ControlPlane<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ControlPlane")
            .field("partition", &self.shared.partition)
            .field("pipeline", &self.shared.pipeline)
            .finish_non_exhaustive()
    }
}
