//! The phase of an enforcer, for callers whose question it cannot answer now.

use std::sync::{Arc, Mutex, PoisonError};

use control_plane_store::records::Stopped;
use prodspec_model::PartitionId;

use super::error::AskError;

/// The phase that an enforcer is in.
#[derive(Debug, Clone, Default)]
pub(crate) enum Phase {
    /// The enforcer does not own its partition, or does not run.
    #[default]
    Elsewhere,
    /// The enforcer owns its partition, and waits for the first incarnation or reads the partition's records.
    Starting,
    /// The enforcer enforces its partition.
    Enforcing,
    /// Enforcement stopped itself because an invariant did not hold.
    Stopped(Stopped),
}

/// The phase of one enforcer. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct SharedPhase(Arc<Mutex<Phase>>);

impl SharedPhase {
    pub(super) fn set(&self, phase: Phase) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = phase;
    }

    /// The error for a question that has no answer in this phase.
    pub(super) fn unanswered(&self, partition: &PartitionId) -> AskError {
        let partition = partition.clone();
        match &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Phase::Elsewhere | Phase::Enforcing => AskError::NotRunning(partition),
            Phase::Starting => AskError::Starting(partition),
            Phase::Stopped(stopped) => AskError::Stopped {
                partition,
                stopped: Box::new(stopped.clone()),
            },
        }
    }
}
