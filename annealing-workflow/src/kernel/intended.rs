//! What the kernel is told of schedules and watches.

use std::collections::{BTreeMap, BTreeSet};

use prodspec_model::AssetId;
use serde::{Deserialize, Serialize};

use crate::{cron, watch};

/// The schedules and watches of intent that differ from the ones told before.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Intended {
    /// Whether these are all there are. If not, the others are as they were.
    pub all: bool,
    /// What each schedule wants. `None`: it has left intent.
    pub schedules: BTreeMap<AssetId, Option<cron::Wanted>>,
    /// What each watch wants. `None`: it has left intent.
    pub watches: BTreeMap<AssetId, Option<watch::Wanted>>,
    /// Those that are turned down, which are not among the others: they stop. What runs goes on until it ends.
    pub turned_down: BTreeSet<AssetId>,
}

/// A word for a schedule or a watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ScheduleWord {
    /// Nothing starts until it is resumed. Slots that fall into the pause never will; of what a watch sees meanwhile, the
    /// newest does then.
    Pause,
    /// Ends a pause. The next slot, or a change that waits, may start a run.
    Resume,
    /// The asset is meant to be gone from intent: the schedule or the watch stops, as it does while the asset has the addon
    /// `Turndown`. What runs goes on until it ends.
    Acknowledge,
    /// Starts a run of a schedule now, beside its slots, which stay as they are. It is refused while a run is live, unless the
    /// schedule's concurrency is `Allow`, and while the schedule is paused.
    Run,
}

impl std::fmt::Display for ScheduleWord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Acknowledge => "acknowledge",
            Self::Run => "run",
        })
    }
}
