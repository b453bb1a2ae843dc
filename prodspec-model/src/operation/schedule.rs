//! Operations that run on a schedule.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Operation;
use crate::message::Message;

/// An operation that runs at each slot of a schedule.
///
/// ```
/// use prodspec_model::operation::{Concurrency, CronOperation, History, Operation, PipelineStep, Schedule};
///
/// let nightly = CronOperation {
///     schedule: Schedule::new("30 3 * * *").zone("Europe/London"),
///     starting_deadline_secs: Some(7200),
///     concurrency: Concurrency::Forbid,
///     history: History::default(),
///     template: Operation::pipeline([PipelineStep::new("run", "reindex")]),
/// };
/// # let _ = nightly;
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename = "prodspec.v1.CronOperation")]
#[schemars(deny_unknown_fields)]
pub struct CronOperation {
    /// The times at which the operation runs. Each of them is a slot.
    pub schedule: Schedule,
    /// Seconds after its time within which a slot may still start. `None`: until the next slot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starting_deadline_secs: Option<u64>,
    /// What happens to a slot while an earlier run is under way.
    #[serde(default)]
    pub concurrency: Concurrency,
    /// Numbers of ended runs that are kept.
    #[serde(default)]
    pub history: History,
    /// The operation that each slot runs.
    pub template: Operation,
}

impl Message for CronOperation {
    const TYPE: &'static str = "prodspec.v1.CronOperation";
}

/// Times in a named time zone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename = "prodspec.v1.Schedule")]
#[schemars(deny_unknown_fields)]
pub struct Schedule {
    /// The times as a cron expression of five fields, such as `30 3,15 * * *`.
    pub cron: String,
    /// IANA name of the time zone, such as `Europe/London`. `UTC` by default.
    #[serde(default = "utc")]
    pub zone: String,
}

fn utc() -> String {
    "UTC".to_owned()
}

impl Schedule {
    /// The times of the expression `cron`, in UTC.
    pub fn new(cron: impl Into<String>) -> Self {
        Self {
            cron: cron.into(),
            zone: utc(),
        }
    }

    /// Sets the time zone, by its IANA name.
    #[must_use]
    pub fn zone(mut self, zone: impl Into<String>) -> Self {
        self.zone = zone.into();
        self
    }
}

/// What happens when a run is due while an earlier one of the same schedule, or of the same watched asset, is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Concurrency {
    /// It waits until the earlier run has ended.
    #[default]
    Forbid,
    /// It starts at once, beside the earlier run.
    Allow,
    /// The earlier run is cancelled, with its clean-up; the new one starts when that has ended.
    Replace,
}

/// Numbers of ended runs that are kept for people to read. They decide nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename = "prodspec.v1.History")]
#[schemars(deny_unknown_fields)]
pub struct History {
    /// Number of succeeded runs that are kept, 3 by default.
    pub succeeded: u32,
    /// Number of failed runs that are kept, 3 by default.
    pub failed: u32,
}

impl Default for History {
    fn default() -> Self {
        Self {
            succeeded: 3,
            failed: 3,
        }
    }
}
