//! How far a policy group is: written by rollouts, read by enforcement.

use prodspec_model::IncarnationNo;
use serde::{Deserialize, Serialize};

use crate::record::Record;

/// The head of a policy group: the incarnation whose rollout it completed last. It is the default pin of the group's
/// assets. Recorded under the id of the policy asset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupHead {
    /// Number of the incarnation that was completed.
    pub incarnation: IncarnationNo,
}

impl Record for GroupHead {
    const KIND: &'static str = "group";
}
