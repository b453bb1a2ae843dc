//! The stored data of a schedule. Operators are shown the same data.

use control_plane_store::Record;
use jiff::Timestamp;
use prodspec_model::{
    operation::{Concurrency, CronOperation, History, Operation},
    tolerant,
};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::{
    super::{error::Error, slots::Slots},
    StartedSlots,
};
use crate::record::Paused;

/// The state of one schedule, stored as `workflow-schedule/{partition}/{asset}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScheduleRecord {
    /// The content of the asset that was seen last. It stays in force if the asset leaves intent.
    pub wanted: Wanted,
    /// Slots up to this time do not count: it is when the expression was taken, or when a pause ended.
    pub from: Timestamp,
    /// All slots up to this time have started or closed. It moves in the commit in which they do.
    pub closed_to: Timestamp,
    /// The wall time of the decision that moved `closed_to`. A clock that shows less was, or is, wrong.
    pub decided_at: Timestamp,
    /// The slots that started, which never start again.
    #[serde(default)]
    pub started: StartedSlots,
    /// The slots whose executions are live, in the order in which they started.
    #[serde(default)]
    pub running: Vec<Timestamp>,
    /// Number of slots by what became of them.
    #[serde(default)]
    pub counts: Counts,
    /// Set while an operator has paused the schedule. `None`: slots start.
    #[serde(default)]
    pub paused: Option<Paused>,
    /// Time at which the asset left intent. The schedule goes on with what it wanted last, until a person acknowledges
    /// that it is gone. `None`: it is in intent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub orphan: Option<Timestamp>,
}

impl Record for ScheduleRecord {
    const KIND: &'static str = "workflow-schedule";
}

impl ScheduleRecord {
    pub(super) fn new(wanted: Wanted, now: Timestamp) -> Self {
        Self {
            wanted,
            from: now,
            closed_to: now,
            decided_at: now,
            started: StartedSlots::default(),
            running: Vec::new(),
            counts: Counts::default(),
            paused: None,
            orphan: None,
        }
    }
}

/// What an asset wants of its schedule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Wanted {
    /// The cron expression, five fields: minute, hour, day, month, weekday.
    pub cron: String,
    /// The IANA time zone in which it holds. `None`: `UTC`.
    #[serde(default)]
    pub zone: Option<String>,
    /// Time after its instant in which a slot may start, in seconds. `None`: until the next slot.
    #[serde(default)]
    pub starting_deadline_secs: Option<u64>,
    /// What happens when a slot opens while another one runs. Default: [`Concurrency::Forbid`].
    #[serde(default, deserialize_with = "concurrency")]
    pub concurrency: Concurrency,
    /// Numbers of ended runs that are kept. The schedule does not look at it.
    #[serde(default)]
    pub history: History,
    /// What a slot starts, as the asset has it. The schedule does not look at it.
    #[serde(default)]
    pub template: Value,
}

impl Wanted {
    /// A schedule in `UTC` without deadline that forbids concurrency and starts nothing yet.
    pub fn new(cron: impl Into<String>) -> Self {
        Self {
            cron: cron.into(),
            zone: None,
            starting_deadline_secs: None,
            concurrency: Concurrency::default(),
            history: History::default(),
            template: Value::Null,
        }
    }

    /// What an asset with this content wants.
    pub fn of(content: &CronOperation) -> Self {
        Self {
            cron: content.schedule.cron.clone(),
            zone: Some(content.schedule.zone.clone()),
            starting_deadline_secs: content.starting_deadline_secs,
            concurrency: content.concurrency,
            history: content.history,
            template: serde_json::to_value(&content.template).unwrap_or_default(),
        }
    }

    /// The operation that a slot runs.
    ///
    /// # Errors
    /// If the template is no operation, such as one that a newer program version wrote.
    pub fn operation(&self) -> Result<Operation, serde_json::Error> {
        Operation::deserialize(&self.template)
    }

    /// The slots of the expression in the zone. For checks before a seal, too.
    ///
    /// # Errors
    /// If the expression, the zone or the deadline cannot be used.
    pub fn slots(&self) -> Result<Slots, Error> {
        match self.starting_deadline_secs {
            Some(0) => Err(Error::Deadline),
            _ => Slots::new(&self.cron, self.zone.as_deref()),
        }
    }
}

/// Reads a concurrency; one that this program version does not know starts nothing beside what runs.
fn concurrency<'de, D: Deserializer<'de>>(from: D) -> Result<Concurrency, D::Error> {
    tolerant::known_or(from, |_| Concurrency::Forbid)
}

/// Number of slots by what became of them. A slot that a wrong clock closed, and that was open again when the clock was
/// right, counts twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Counts {
    /// Slots that started, however their executions end.
    pub started: u64,
    /// Slots that closed before they could start, for no other reason than time.
    pub late: u64,
    /// Slots that closed while [`Concurrency::Forbid`] made them wait.
    pub forbidden: u64,
    /// Slots that fell into a pause, or closed in one.
    pub paused: u64,
}
