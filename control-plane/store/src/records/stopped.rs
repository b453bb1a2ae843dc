//! That enforcement of a partition stopped itself.

use jiff::Timestamp;
use plugin_sdk::FencingToken;
use serde::{Deserialize, Serialize};

use super::Ended;
use crate::record::Record;

/// An invariant did not hold: nothing of the partition is enforced before a person clears this. One per partition, the
/// last one is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stopped {
    /// What did not hold.
    pub why: String,
    /// When that was seen.
    pub at: Timestamp,
    /// Under which ownership.
    pub token: FencingToken,
    /// The person who cleared it, and when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cleared: Option<Ended>,
}

impl Record for Stopped {
    const KIND: &'static str = "stopped";
}

impl Stopped {
    /// Whether it still holds the partition.
    pub fn holds(&self) -> bool {
        self.cleared.is_none()
    }
}

impl std::fmt::Display for Stopped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "stopped at {:.0}: {}", self.at, self.why)
    }
}
