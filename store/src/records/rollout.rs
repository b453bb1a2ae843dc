//! How far a policy group is: written by rollouts, read by enforcement.

use plugin_sdk::GroupHead;

use crate::record::Record;

/// Recorded under the id of the policy asset.
impl Record for GroupHead {
    const KIND: &'static str = "group";
}
