//! What the kernel is told of schedules.

use std::collections::BTreeMap;

use prodspec_model::AssetId;

use crate::cron::Wanted;

/// The schedules of intent that differ from the ones told before.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Intended {
    /// Whether these are all there are. If not, the others are as they were.
    pub all: bool,
    /// What each of them wants. `None`: it has left intent.
    pub schedules: BTreeMap<AssetId, Option<Wanted>>,
}

/// A word for a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScheduleWord {
    /// Nothing starts until it is resumed, and slots that fall into the pause never will.
    Pause,
    /// Ends a pause.
    Resume,
    /// The asset is meant to be gone from intent: the schedule stops. What runs goes on until it ends.
    Acknowledge,
}

impl std::fmt::Display for ScheduleWord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Acknowledge => "acknowledge",
        })
    }
}
