//! Commands of operators to a rollout, and the answer to commands that do not fit.

use serde::{Deserialize, Serialize};

/// A command of an operator to the live rollout of a policy group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Command {
    /// Select no more targets, also on the way back. Pushes under way continue, and on the way forward health is still
    /// checked.
    Pause,
    /// Continue a rollout that was paused, in its direction.
    Resume,
    /// Let the targets that have settled so far pass their gates, baked or not, even if health is unknown.
    Promote,
    /// Stop the rollout and leave all targets where they are.
    Abort,
    /// Retry a rollout that has stopped, is rolling back, or was rolled back: its content is released from
    /// quarantine. If no content of the newest incarnation failed in the last rollout, the content of all earlier
    /// ones is released instead.
    Retry,
    /// Roll back all targets that have moved.
    RollBack,
    /// Hand a rollout over to the newest incarnation, without waiting for its end. All targets take their turns anew, those
    /// that have moved included; a rollback leads to where they were before the first move. Not for a change by edit.
    HandOver,
}

/// Why a command has no effect: a sentence for the operator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refused(pub String);
