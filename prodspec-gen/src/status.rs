//! What generation says about itself.

use std::collections::BTreeMap;

use plugin_sdk::Problems;
use prodspec_model::{Revision, SourceName, incarnation::Header};
use serde::{Deserialize, Serialize};

/// How generation of one partition stands.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Status {
    /// The last good incarnation: it stays in force whatever else stands here.
    pub incarnation: Option<Header>,
    /// Every problem of the last run. Without an error the incarnation is what the sources say.
    pub problems: Problems,
    /// The revisions that the last good run saw.
    pub seen: BTreeMap<SourceName, Revision>,
    /// Whether a run is under way.
    pub running: bool,
    /// How many runs have ended.
    pub runs: u64,
}

impl Status {
    /// Whether the last run found no error.
    pub fn is_good(&self) -> bool {
        self.runs > 0 && !self.problems.any_error()
    }
}
