//! The control plane of one partition: an enforcer, and generation and rollouts beside it while the partition is owned.

use std::{future::Future, sync::Arc};

use annealing_enforcer::Enforcer;
use annealing_strategist::{Handle as Rollouts, Strategist};
use plane_runtime::{Runtime, TokioRuntime};
use plane_store::{Store, incarnations::Incarnations};
use prodspec_gen::Pipeline;
use prodspec_model::PartitionId;
use tokio::sync::watch;

use crate::handle::Handle;

/// Generates and enforces one partition.
///
/// Several processes may be built alike on one shared store: one of them owns the partition and works, the others wait
/// and take over. See the [crate's example](crate).
pub struct ControlPlane<R = TokioRuntime> {
    pub(crate) enforcer: Enforcer<R>,
    pub(crate) shared: Arc<Shared<R>>,
}

/// What the parts of one control plane have in common.
pub(crate) struct Shared<R> {
    pub(crate) runtime: R,
    pub(crate) partition: PartitionId,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) incarnations: Arc<Incarnations<dyn Store>>,
    pub(crate) pipeline: Pipeline,
    pub(crate) strategist: Arc<Strategist<R>>,
    /// How many of the newest incarnations are kept.
    pub(crate) keep: usize,
    /// Generation, while this process owns the partition.
    pub(crate) owned: watch::Sender<Option<prodspec_gen::Handle>>,
    /// Rollouts, while this process owns the partition.
    pub(crate) rollouts: watch::Sender<Option<Rollouts<R>>>,
}

impl<R: Runtime> ControlPlane<R> {
    /// What others may ask of it, before and while it runs.
    pub fn handle(&self) -> Handle<R> {
        Handle {
            shared: self.shared.clone(),
            enforcer: self.enforcer.handle(),
            planner: self.enforcer.planner(),
        }
    }

    /// Generates and enforces until `shutdown` completes. Waits while another process owns the partition, and again
    /// when one has taken it over. Production is left as it is. The store closes when the last handle is gone too.
    ///
    /// # Errors
    /// When the store is broken.
    pub async fn run(
        self,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), annealing_enforcer::Error> {
        let mut owned = self.shared.owned.subscribe();
        let mut rolls = self.shared.rollouts.subscribe();
        let ended = self.enforcer.run(shutdown).await;
        // Generation and rollouts end with the ownership; wait until they have, so that nothing of them outlives this
        // call. The senders are in `self.shared`, so there is no error.
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
