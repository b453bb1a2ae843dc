//! The control plane of one partition: an enforcer, and generation and rollouts while the partition is owned.

use std::{future::Future, pin::pin, sync::Arc};

use annealing_enforcer::Enforcer;
use control_plane_runtime::{Runtime, TokioRuntime};
use futures::future::{Either, join, select};

use crate::{arrivals, follow, handle::Handle, shared::Shared};

/// A control plane of one partition: it generates, enforces and rolls out.
///
/// Several processes may run the same control plane on one shared store. One of them owns the partition and works; the
/// others wait, and one of them takes over when the owner ends. See the [crate's example](crate).
pub struct ControlPlane<R = TokioRuntime> {
    pub(crate) enforcer: Enforcer<R>,
    pub(crate) shared: Arc<Shared<R>>,
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
        let arrivals = arrivals::include(self.handle());
        let beside = pin!(join(arrivals, follow::run(self.handle())));
        let run = pin!(self.enforcer.run(shutdown));
        let ended = match select(run, beside).await {
            Either::Left((ended, _)) => ended,
            Either::Right(((never, _), _)) => match never {},
        };
        // Generation and rollouts end with the ownership. Wait for their end, so that they do not outlive this call.
        // The senders are in `self.shared`, so waiting cannot fail.
        let _ = owned.wait_for(Option::is_none).await;
        let _ = rolls.wait_for(Option::is_none).await;
        self.shared.lanes.stopped().await;
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
