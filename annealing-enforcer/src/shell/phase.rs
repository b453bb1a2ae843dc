//! What an enforcer is about, for those whose question it cannot answer now.

use std::sync::{Arc, Mutex, PoisonError};

use plane_store::records::Stopped;
use prodspec_model::PartitionId;

use super::AskError;

/// What an enforcer is about.
#[derive(Debug, Clone, Default)]
pub(crate) enum Phase {
    /// It does not own its partition, or does not run.
    #[default]
    Elsewhere,
    /// It owns its partition and waits for the first incarnation, or reads what is remembered.
    Starting,
    /// It enforces.
    Enforcing,
    /// It stopped itself.
    Stopped(Stopped),
}

/// The phase of one enforcer. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct SharedPhase(Arc<Mutex<Phase>>);

impl SharedPhase {
    pub(super) fn set(&self, phase: Phase) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = phase;
    }

    /// Why a question has no answer now.
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
