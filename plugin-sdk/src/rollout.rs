//! The identity of a rollout, which requests for selection and requests for health both name.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Number of a rollout within its policy group. Later rollouts have greater numbers.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct RolloutId(pub u64);

impl fmt::Display for RolloutId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rollout {}", self.0)
    }
}
