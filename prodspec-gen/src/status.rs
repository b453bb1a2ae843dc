//! The status that generation reports.

use std::collections::BTreeMap;

use plugin_sdk::Problems;
use prodspec_model::{Revision, SourceName, incarnation::Header};
use serde::{Deserialize, Serialize};

use crate::overrides::Refusal;

/// The status of the generation of one partition.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Status {
    /// The header of the incarnation in force, which stays in force whatever the problems are. `None`: there is none
    /// yet, or it was not read yet.
    pub incarnation: Option<Header>,
    /// All problems of the last run, including warnings. If none is an error, the incarnation has the content of the
    /// sources.
    pub problems: Problems,
    /// The refusals of the last run that an override can lift. Each is also among the problems.
    #[serde(default)]
    pub refusals: Vec<Refusal>,
    /// The source revisions that the last good run read.
    pub seen: BTreeMap<SourceName, Revision>,
    /// Whether a run is in progress.
    pub running: bool,
    /// Number of runs that have ended since the start of regeneration.
    pub runs: u64,
    /// The number of the last run whose result is in force, sealed or found unchanged, from 1. 0: there was none.
    #[serde(default)]
    pub good: u64,
}

impl Status {
    /// Whether at least one run has ended, and the last one found no error.
    pub fn is_good(&self) -> bool {
        self.runs > 0 && !self.problems.any_error()
    }
}
