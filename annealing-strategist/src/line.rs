//! Stop-the-line: no rollout of the partition goes forward for some time.

use std::{collections::BTreeSet, fmt};

use control_plane_store::Record;
use jiff::Timestamp;
use plugin_sdk::By;
use prodspec_model::AssetId;
use serde::{Deserialize, Serialize};

use crate::record::{TEXT, cut};

/// The name of the record; there is one per partition.
pub(crate) const NAME: &str = "line";

/// Maximum number of exceptions.
const EXCEPTIONS: usize = 1000;

/// The line is stopped: rollouts select no more targets and do not complete. Pushes and edits under way go on, and so do health
/// checks and the way back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoppedLine {
    /// Time at which rollouts go on by themselves.
    pub until: Timestamp,
    /// The rollouts that go on: policy assets of groups, and keys of changes.
    pub except: BTreeSet<AssetId>,
    /// The operator who stopped the line, and why.
    pub by: By,
    /// Time at which the line was stopped.
    pub at: Timestamp,
}

impl StoppedLine {
    /// Cuts who and why to a length that fits into a record and into each reason to wait.
    ///
    /// # Errors
    /// When there are more exceptions than a stop takes.
    pub(crate) fn fit(mut self) -> Result<Self, String> {
        cut(&mut self.by.who, TEXT);
        cut(&mut self.by.why, TEXT);
        let many = self.except.len();
        if many > EXCEPTIONS {
            return Err(format!(
                "a stop of the line takes {EXCEPTIONS} exceptions, and not {many}"
            ));
        }
        Ok(self)
    }

    /// Whether the rollouts of the group, or of the change, `key` stand still at the time `now`.
    pub fn stops(&self, key: &AssetId, now: Timestamp) -> bool {
        now < self.until && !self.except.contains(key)
    }
}

impl fmt::Display for StoppedLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the line is stopped by {}", self.by)
    }
}

impl Record for StoppedLine {
    const KIND: &'static str = "stopped-line";
}
