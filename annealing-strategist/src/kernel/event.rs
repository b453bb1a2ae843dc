//! What can happen to the kernel, and what it asks for in return.

use plane_store::records::Standing;
use plugin_sdk::{Cause, Health, HealthRequest, RolloutId, SelectRequest, Selection};
use prodspec_model::{AssetId, Incarnation, IncarnationNo};

use super::people::{Command, Refused};
use crate::group::Heads;
use crate::record::{By, Quarantined, Rollout, TargetRecord};

/// Something that happened.
#[derive(Debug, Clone)]
pub enum Event {
    /// A newer incarnation is in force.
    Took {
        /// That one.
        latest: Incarnation,
        /// The group's assets that it changes.
        changed: Vec<AssetId>,
        /// How those of them stand that come from another group: nobody says that again.
        come: Vec<(AssetId, Standing)>,
    },
    /// Where the heads of the partition's groups are.
    Heads(Heads),
    /// How assets of the group stand.
    Stands(Vec<(AssetId, Standing)>),
    /// A selection ended.
    Selected {
        /// Which call.
        call: u64,
        /// What it said.
        answer: Result<Selection, String>,
    },
    /// A look at health ended.
    Judged {
        /// Which call.
        call: u64,
        /// What it said.
        answer: Result<Health, String>,
    },
    /// A person said something.
    Person {
        /// What.
        command: Command,
        /// Who, and why.
        by: By,
        /// Whom to answer.
        reply: u64,
    },
    /// Time went on.
    Tick,
}

/// What the kernel asks its shell to do.
#[derive(Debug, Default)]
pub struct Effects {
    /// To be made durable one after the other.
    pub steps: Vec<Step>,
    /// To be called; each answer comes back as an event.
    pub calls: Vec<Call>,
    /// Answers to [`Event::Person`], good once the steps before them are durable.
    pub replies: Vec<(u64, Result<(), Refused>)>,
    /// Assets that the group's rollout holds no longer: they may belong to another group by now.
    pub released: Vec<AssetId>,
}

/// What becomes durable together, in this order.
#[derive(Debug, Clone, Default)]
pub struct Step {
    /// What is remembered.
    pub records: Vec<Record>,
    /// The group's new head.
    pub head: Option<Incarnation>,
    /// Pins that move.
    pub moves: Vec<(AssetId, Goes)>,
}

impl Step {
    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty() && self.head.is_none() && self.moves.is_empty()
    }
}

impl From<Record> for Step {
    /// Only this is remembered.
    fn from(record: Record) -> Self {
        Self {
            records: vec![record],
            ..Self::default()
        }
    }
}

/// Where a pin goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goes {
    /// To this incarnation, for this cause.
    At(IncarnationNo, Cause),
    /// Nowhere: the asset is left alone.
    NotYet,
    /// To the group's head.
    Default,
}

/// Something to remember; `None` forgets it.
#[derive(Debug, Clone)]
pub enum Record {
    /// A rollout.
    Rollout(Box<Rollout>),
    /// A rollout of long ago.
    Forget(RolloutId),
    /// What a target went through.
    Target(AssetId, Option<TargetRecord>),
    /// A content that failed.
    Quarantine(AssetId, Option<Quarantined>),
}

impl Rollout {
    /// Itself, to be remembered.
    pub(super) fn record(&self) -> Record {
        Record::Rollout(Box::new(self.clone()))
    }
}

/// Something to call.
#[derive(Debug, Clone)]
pub enum Call {
    /// Which targets may be updated now?
    Select(u64, Box<SelectRequest>),
    /// Is what was updated healthy?
    Judge(u64, Box<HealthRequest>),
}
