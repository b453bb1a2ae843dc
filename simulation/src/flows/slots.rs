//! What the judge knows of the slots of schedules.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use plugin_sdk::operation::ExecutionId;
use prodspec_model::AssetId;

use crate::executor::Instant;

/// What the judge knows of slots.
#[derive(Default)]
pub(crate) struct Slots {
    /// The execution of each slot that has started.
    pub(crate) started: BTreeMap<(AssetId, Timestamp), ExecutionId>,
    /// The live executions of each schedule.
    pub(crate) running: [BTreeSet<ExecutionId>; 3],
    /// When a run of each schedule started last, or ended if slots wait for that.
    pub(crate) last: [Instant; 3],
    /// Whether each schedule has slots every other minute.
    pub(crate) seldom: [bool; 3],
}
