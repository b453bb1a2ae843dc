//! Live executions, schedules and watches as they are shown.

use std::fmt;

use jiff::Timestamp;
use plugin_sdk::{
    operation::{EffectKey, ExecutionId},
    workflow::{MachineName, StateName, WorkflowName},
};
use prodspec_model::{AssetId, IncarnationNo, operation::Watch};
use serde::{Deserialize, Serialize};

use crate::{
    cron::Counts,
    definition::FalseClause,
    record::{Live, Paused, Said},
    watch::WatchCounts,
};

/// A live execution: its machines, and what each of them waits for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Execution {
    /// Id of the execution, which is its name in commands.
    pub id: ExecutionId,
    /// Its record: who started it and why, its key and labels, and whether it is paused or cancelled.
    #[serde(flatten)]
    pub live: Live,
    /// What its start waits for. `None`: it has begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<Wait>,
    /// All machines, in the order of the definition.
    pub machines: Vec<Machine>,
}

impl Execution {
    /// The machines that wait for something, each with it.
    pub fn waits(&self) -> impl Iterator<Item = (&Machine, &Wait)> {
        self.machines
            .iter()
            .filter_map(|machine| Some((machine, machine.wait.as_ref()?)))
    }

    /// The machine with this name. `None`: there is none.
    pub fn machine(&self, name: &str) -> Option<&Machine> {
        self.machines
            .iter()
            .find(|machine| machine.name.as_str() == name)
    }
}

/// One machine of a live execution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Machine {
    /// Name of the machine, unique in its execution.
    pub name: MachineName,
    /// The state in which the machine is now.
    pub state: StateName,
    /// Number of its run, from 1. It rises with every restart.
    pub run: u32,
    /// The key of the effects of that run, under which a callee may have noted one.
    pub key: EffectKey,
    /// Number of the last attempt of the run. 0: there was none.
    pub attempt: u32,
    /// Number of failures in a row.
    pub failures: u32,
    /// The last failure. `None`: the last answer was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What it waits for. `None`: no action of it is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<Wait>,
    /// Why its action is not enabled. Empty: it is, or there is none in its state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_enabled: Vec<FalseClause>,
}

/// What a machine waits for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Wait {
    /// The kind of thing that is waited for.
    pub what: WaitFor,
    /// The reason as text for people.
    pub why: String,
    /// Time since which it waits.
    pub since: Timestamp,
    /// Time at which it is looked at again. `None`: it is looked at when something happens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_look: Option<Timestamp>,
}

/// The kind of thing that a machine waits for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum WaitFor {
    /// The answer of a function, of a probe or of the dispatch stack.
    Call,
    /// The end of a timer or of a delay between attempts.
    Time,
    /// Its turn, a fresh lease of the owner, or the end of a pause or a drain.
    Turn,
    /// A claim, with its holders.
    Claim {
        /// The key of the claim.
        key: String,
        /// The steps, and the executions since their starts, that hold it.
        held_by: Vec<ClaimHolder>,
    },
    /// A dispatch rule, and the assets whose settlement would change its answer, if it waits for some.
    Rule(Vec<AssetId>),
    /// These assets, which an edit changed, to be in sync.
    Settled(Vec<AssetId>),
    /// The end of a child execution, which has this id.
    Child(ExecutionId),
    /// A person who chooses an option.
    Person {
        /// The question as text for this person.
        question: String,
        /// The options to choose from.
        options: Vec<StateName>,
    },
    /// A word of a person about a call: what happened, or whether it is called again.
    Word,
    /// A function or a workflow that is not registered.
    Missing(String),
}

/// What holds a claim: a step, or an execution since its start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ClaimHolder {
    /// The execution that holds it.
    pub execution: ExecutionId,
    /// The machine that holds it. `None`: the execution holds it until it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<MachineName>,
}

impl fmt::Display for ClaimHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.execution)?;
        match &self.machine {
            Some(machine) => write!(f, " {machine}"),
            None => Ok(()),
        }
    }
}

/// A workflow of which no execution begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Drained {
    /// Name of the workflow that is drained.
    pub workflow: WorkflowName,
    /// Who has drained it, why, and when.
    #[serde(flatten)]
    pub said: Said,
}

/// A schedule: its slots, what runs, and what became of the slots before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ScheduleState {
    /// The asset with the schedule.
    pub asset: AssetId,
    /// The cron expression that is in force.
    pub cron: String,
    /// The time zone in which it holds. `None`: `UTC`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// The slot that is open and has not started. `None`: there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open: Option<Timestamp>,
    /// The next slot. `None`: no more slots are left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Timestamp>,
    /// The executions of slots that are live.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub running: Vec<ExecutionId>,
    /// Number of slots by what became of them.
    pub counts: Counts,
    /// The pause. `None`: slots start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<Paused>,
    /// Time at which the asset left intent. The schedule goes on until that is acknowledged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub orphan: Option<Timestamp>,
    /// Why a slot cannot start, or why the asset's content is not in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

impl ScheduleState {
    /// A schedule of an asset whose content cannot be used.
    pub(crate) fn refused(asset: &AssetId, why: &str) -> Self {
        Self {
            asset: asset.clone(),
            cron: String::new(),
            zone: None,
            open: None,
            next: None,
            running: Vec::new(),
            counts: Counts::default(),
            paused: None,
            orphan: None,
            trouble: Some(why.to_owned()),
        }
    }
}

/// A watch: what it has taken, what waits and what runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WatchState {
    /// The asset with the watch.
    pub asset: AssetId,
    /// The assets that are watched, and the changes that count. `None`: the asset's content cannot be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<Watch>,
    /// The incarnation whose changes were taken last. `None`: it is no watch on intent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handled: Option<IncarnationNo>,
    /// Assets that changed, or whose condition holds, and whose run has not started; of many, the oldest 100.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<AssetId>,
    /// The assets in `waiting` of a watch on status, in the same order, each with the time from which its run is due. Empty:
    /// no condition holds that has not had its run, or it is no watch on status.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holding: Vec<Holding>,
    /// The executions of runs that are live.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub running: Vec<ExecutionId>,
    /// Number of changes by what became of them.
    pub counts: WatchCounts,
    /// The pause. `None`: runs start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<Paused>,
    /// Time at which the asset left intent. The watch goes on until that is acknowledged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub orphan: Option<Timestamp>,
    /// Why a run cannot start, or why the asset's content is not in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

/// An asset whose condition holds, and has not had its run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Holding {
    /// The asset whose condition holds.
    pub asset: AssetId,
    /// Time at which the condition has held for as long as the watch wants, if it goes on: the run starts then, unless a
    /// pause, another run or a [trouble](WatchState::trouble) holds it back. By the wall clock, to the second.
    pub due: Timestamp,
}

impl WatchState {
    /// A watch of an asset whose content cannot be used.
    pub(crate) fn refused(asset: &AssetId, why: &str) -> Self {
        Self {
            asset: asset.clone(),
            on: None,
            handled: None,
            waiting: Vec::new(),
            holding: Vec::new(),
            running: Vec::new(),
            counts: WatchCounts::default(),
            paused: None,
            orphan: None,
            trouble: Some(why.to_owned()),
        }
    }
}
