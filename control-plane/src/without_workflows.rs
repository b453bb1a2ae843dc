//! Stands in for the modules `lanes` and `workflow` without the feature `workflows`: what the other modules call, with no
//! engine behind it.

use std::{convert::Infallible, marker::PhantomData, sync::Arc};

use annealing_enforcer::EnforcerBuilder;
use control_plane_store::{Store, incarnations::Incarnations};
use prodspec_gen::pipeline;
use prodspec_model::{IncarnationNo, PartitionId};

use crate::{BuildError, ControlPlaneBuilder};

/// No parts of an engine.
pub(crate) struct LanesBuilder<R>(PhantomData<fn() -> R>);

impl<R> Default for LanesBuilder<R> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<R> LanesBuilder<R> {
    pub(crate) fn build(
        self,
        _: &R,
        _: &PartitionId,
        _: &Arc<dyn Store>,
        _: &Arc<Incarnations<dyn Store>>,
    ) -> Result<Lanes<R>, BuildError> {
        Ok(Lanes(self.0))
    }
}

/// No engine.
pub(crate) struct Lanes<R>(PhantomData<fn() -> R>);

impl<R> Lanes<R> {
    pub(crate) fn running(&self) -> Option<NoExecutions> {
        Some(NoExecutions)
    }

    pub(crate) async fn stopped(&self) {}
}

/// A lane in which no execution is live.
pub(crate) struct NoExecutions;

impl NoExecutions {
    pub(crate) async fn referenced(&self) -> Result<Vec<IncarnationNo>, Infallible> {
        Ok(Vec::new())
    }
}

pub(crate) fn declare<R>(pipeline: pipeline::Builder, _: &Lanes<R>) -> pipeline::Builder {
    pipeline
}

pub(crate) fn with_operations<R>(builder: ControlPlaneBuilder<R>) -> ControlPlaneBuilder<R> {
    builder
}

pub(crate) fn beside<R, S>(enforcer: EnforcerBuilder<R>, _: S) -> EnforcerBuilder<R> {
    enforcer
}
