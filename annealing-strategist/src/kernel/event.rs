//! The events that the kernel takes and the effects that it returns.

use plugin_sdk::{
    GroupHead, Health, HealthRequest, Pin, RolloutId, SelectRequest, Selection, Standing,
};
use prodspec_model::{AssetId, Incarnation};

use super::{
    apart::Taken,
    command::{Command, Refused},
    join::Joins,
};
use crate::group::Heads;
use crate::line::StoppedLine;
use crate::record::{By, Quarantined, Rollout, TargetRecord};

/// An event for the kernel of one policy group.
#[derive(Debug, Clone)]
pub enum Event {
    /// A newer incarnation is in force. A train may let in one that is older than the last, which has failed; it is not taken in
    /// while a rollout is live.
    Took {
        /// The incarnation that is the newest for the group now.
        latest: Incarnation,
        /// The group's assets that the incarnation changes.
        changed: Vec<AssetId>,
        /// Standings of assets that came from another group. They are not reported again.
        come: Vec<(AssetId, Standing)>,
    },
    /// A newer incarnation is in force, which a train has not let into the group yet.
    Sealed {
        /// The newest incarnation, which is in force.
        newest: Incarnation,
        /// The group's assets that the incarnation changes.
        changed: Vec<AssetId>,
    },
    /// The heads of the partition's policy groups, after a change.
    Heads(Heads),
    /// Whether changes are live on assets of the group.
    Changes(bool),
    /// The line was stopped, or goes on.
    Line(Option<StoppedLine>),
    /// The domains that the rollout of a change must not enter now.
    Taken(Taken),
    /// Another change of the same assets was taken back: older evidence of their health does not count.
    TakenBack,
    /// Assets have come while the rollout of a change is live.
    Came {
        /// Those that may join it.
        come: Vec<AssetId>,
        /// Those that will not join it after all.
        gone: Vec<AssetId>,
    },
    /// Assets that came while the rollout of a change is live: it updates them, too.
    Joined {
        /// The assets, in the policy group of the change.
        joins: Vec<Joins>,
        /// All assets that move together, beside those that edges tie.
        ties: Vec<Vec<AssetId>>,
    },
    /// An operator gives the change other values of its fields.
    HandedOver {
        /// The targets with these values.
        latest: Incarnation,
        /// The values, for the history.
        to: String,
        /// The operator, and the reason given.
        by: By,
        /// Number under which the answer is returned.
        reply: u64,
    },
    /// New standings of assets of the group.
    Standings(Vec<(AssetId, Standing)>),
    /// A call of the selection stack ended.
    Selected {
        /// The number of the call that ended.
        call: u64,
        /// The selection, or why it failed.
        answer: Result<Selection, String>,
    },
    /// A health check of the updated targets ended.
    Judged {
        /// The number of the call that ended.
        call: u64,
        /// The verdict, or why the check failed.
        answer: Result<Health, String>,
    },
    /// An operator gave a command.
    Command {
        /// The command that the operator gave.
        command: Command,
        /// The operator, and the reason given.
        by: By,
        /// Number under which the answer is returned.
        reply: u64,
    },
    /// Time has passed; sent at [`Kernel::next_wake`](super::Kernel::next_wake).
    Tick,
}

/// The work that the kernel asks its shell to do.
#[derive(Debug, Default)]
pub struct Effects {
    /// Steps to make durable, one after the other.
    pub steps: Vec<Step>,
    /// Calls to make. Each answer comes back as an event.
    pub calls: Vec<Call>,
    /// Answers to [`Event::Command`], valid once the steps before them are durable.
    pub replies: Vec<(u64, Result<(), Refused>)>,
    /// Assets that the group's rollout no longer holds. They may belong to another group now.
    pub released: Vec<AssetId>,
}

/// Changes that become durable together, in the order of the fields.
#[derive(Debug, Clone, Default)]
pub struct Step {
    /// Records to write or to delete.
    pub records: Vec<Record>,
    /// The group's new head. `None`: it stays.
    pub head: Option<GroupHead<Incarnation>>,
    /// Pins to move, in this order.
    pub moves: Vec<(AssetId, Pin)>,
}

impl Step {
    /// Whether the step contains no change.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty() && self.head.is_none() && self.moves.is_empty()
    }
}

impl From<Record> for Step {
    /// Creates a step that only writes this record.
    fn from(record: Record) -> Self {
        Self {
            records: vec![record],
            ..Self::default()
        }
    }
}

/// A record to write. Variants with an `Option` delete the record if it is `None`.
#[derive(Debug, Clone)]
pub enum Record {
    /// Write the record of a rollout.
    Rollout(Box<Rollout>),
    /// Delete the record of an old rollout.
    Forget(RolloutId),
    /// Write or delete the record of a target.
    Target(AssetId, Option<TargetRecord>),
    /// Write or delete the failed contents of an asset.
    Quarantine(AssetId, Option<Quarantined>),
}

impl Rollout {
    /// Returns this rollout as a record to write.
    pub(super) fn record(&self) -> Record {
        Record::Rollout(Box::new(self.clone()))
    }
}

/// A call that the kernel asks its shell to make. The number comes back with the answer.
#[derive(Debug, Clone)]
pub enum Call {
    /// Ask the selection stack which targets may be updated now.
    Select(u64, Box<SelectRequest>),
    /// Ask the validators for the health of the updated targets.
    Judge(u64, Box<HealthRequest>),
}
