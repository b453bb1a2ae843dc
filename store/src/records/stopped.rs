//! The record of a partition whose enforcement stopped itself.

use jiff::Timestamp;
use plugin_sdk::FencingToken;
use serde::{Deserialize, Serialize};

use super::Ended;
use crate::record::Record;

/// An invariant did not hold. Nothing in the partition is enforced until an operator clears this record. There is one
/// per partition; the last one is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stopped {
    /// The invariant that did not hold.
    pub why: String,
    /// Time at which the violation was found.
    pub at: Timestamp,
    /// Fencing token of the owner that found it.
    pub token: FencingToken,
    /// The operator who cleared it, and when. `None` means that it is in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cleared: Option<Ended>,
}

impl Record for Stopped {
    const KIND: &'static str = "stopped";
    const SAME: &'static [&'static str] = &["at"];
}

impl Stopped {
    /// A stop that is in force, found by the owner with `token`.
    pub fn new(why: impl Into<String>, at: Timestamp, token: FencingToken) -> Self {
        Self {
            why: why.into(),
            at,
            token,
            cleared: None,
        }
    }

    /// Whether the stop is still in force.
    pub fn holds(&self) -> bool {
        self.cleared.is_none()
    }
}

impl std::fmt::Display for Stopped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "stopped at {:.0}: {}", self.at, self.why)
    }
}
