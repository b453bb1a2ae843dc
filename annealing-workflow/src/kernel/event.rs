//! What the kernel takes in, and what it gives out.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use plugin_sdk::{
    By, Dispatch, DispatchRequest, Follow, Holder, Mono, Standing,
    operation::{
        AssetRun, EffectKey, ExecutionId, Fence, Join, Probed, Ran, Requirement, SourceEdit, Start,
        StartCause,
    },
    plugin,
    port::{HeldEdit, Made, SettleRequest, Settlement},
    workflow::{MachineName, WorkflowName},
};
use prodspec_model::{AssetId, Digest, Incarnation, IncarnationNo};
use serde_json::{Map, Value};

use super::{
    intended::{Intended, ScheduleWord},
    refused::Refused,
    say::{Say, WorkflowWord},
};
use crate::{
    cron::ScheduleRecord,
    definition::{Outcome, Workflow},
    kernel::RecoveredExecution,
    operation::Operated,
    query::{ExecutionPage, ExecutionQuery},
    record::{
        AnswerRecord, Changed, DrainRecord, Ended, Entry, InboxId, KeyRecord, LaneRecord, Live,
        LogRecord, Output, RateRecord, StepRecord, Subject,
    },
    view::{self, Execution},
    watch::{WatchRecord, WatchedRecord},
};

/// Number of a call to a function, a probe or the dispatch stack, or of an edit or a wait for production. Unique for one
/// owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallNo(pub u64);

/// Number of a caller that waits for a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplyNo(pub u64);

/// Number of a commit of the lane. Commits become durable in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct CommitNo(pub u64);

/// An input of the kernel.
#[derive(Debug)]
pub enum Event {
    /// A word for an execution, or the start of one.
    Heard {
        /// The command that the lane has to handle.
        command: Command,
        /// The person or program that gives the command, and the reason.
        by: By,
        /// What the store knows of the key of a start. `None`: nothing, or there is no key.
        known: Option<Box<KeyRecord>>,
        /// Number of the caller, under which [`Effects::replies`] has the reply.
        reply: ReplyNo,
    },
    /// A command of another process, from the inbox. It is answered by [`Record::Answered`].
    Asked {
        /// The name of its row. The same command may come twice.
        id: InboxId,
        /// Time of the command, by the clock of its process.
        at: Timestamp,
        /// What is asked for. `Err`: the owner cannot take it, and why.
        command: Result<Command, Refused>,
        /// The person or program that gives the command, and the reason.
        by: By,
        /// What the store knows of the key of a start.
        known: Option<Box<KeyRecord>>,
    },
    /// The dispatch stack has answered.
    Dispatched(CallNo, Result<Dispatch, String>),
    /// What the store knows of keys under which the next answer starts executions.
    Known(Vec<KeyRecord>),
    /// A function has answered its call, or has failed.
    Answered(CallNo, Result<Ran, plugin::Error>),
    /// The function of a call cannot be called now, and was not.
    PutOff(CallNo, plugin::Error),
    /// A probe has answered whether the effect of a call happened, or has failed.
    Probed(CallNo, Result<Probed, plugin::Error>),
    /// An edit was made, or was not.
    Edited(CallNo, Result<Made, plugin::Error>),
    /// The assets of an edit are in sync, or will not be.
    Settled(CallNo, Result<Settlement, plugin::Error>),
    /// A newer incarnation is in force, in which these schedules and watches came, changed or left.
    Took(Incarnation, Box<Intended>),
    /// Schedules and watches came to intent, changed there or left it. The first such event has all of them, and nothing of
    /// them starts before it.
    Intended(Box<Intended>),
    /// The present standings of assets that are [followed](Effects::follow).
    Stands(Vec<(AssetId, Standing)>),
    /// Everything up to this commit is durable.
    Durable(CommitNo),
    /// The ownership is fresh until this time; after it nothing starts before the next such event.
    Lease(Mono),
    /// The owner ends in order. No call begins any more, and those in flight are waited for.
    Drain,
    /// The time for calls in flight is over, or none is in flight: what is left is for the next owner.
    HandOver,
    /// Time has passed: timers, retries and slots that are due by now go on.
    Tick,
}

/// A word for an execution, or the start of one.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Starts an execution, or finds the one that this key has started.
    Start {
        /// The workflow, the key and the input.
        start: Box<Start>,
        /// The reason for which the execution is started.
        cause: StartCause,
        /// The executions and watches that led to it, the nearest last.
        chain: Vec<String>,
    },
    /// Runs an operation, or finds the execution that this key has started.
    Operate {
        /// The name of the operation, as the workflow, and the key.
        start: Box<Start>,
        /// The operation to run, compiled and checked against the registered functions.
        operation: Box<Operated>,
        /// The reason for which the operation is run.
        cause: StartCause,
    },
    /// Joins the live run of a workflow for an asset, or starts one, which may run an operation.
    Join(Box<Join>, Option<Box<Operated>>),
    /// Shows the runs of a workflow for an asset.
    Runs(WorkflowName, AssetId),
    /// A word for a live execution.
    Say(ExecutionId, Say),
    /// Restarts machines of an execution that has ended, as the store has it: it is live again.
    Reopen(Box<RecoveredExecution>, Vec<MachineName>),
    /// Shows a live execution. Answered by [`Reply::Shown`].
    Show(ExecutionId),
    /// Shows a page of live executions.
    ShowPage(Box<ExecutionQuery>),
    /// A word for a schedule.
    Schedule(AssetId, ScheduleWord),
    /// Shows all schedules of the partition. Answered by [`Reply::Schedules`].
    ShowSchedules,
    /// A word for a watch.
    Watch(AssetId, ScheduleWord),
    /// A word for a workflow.
    Workflow(WorkflowName, WorkflowWord),
    /// Shows the workflows that are drained.
    ShowDrained,
    /// Shows all watches of the partition. Answered by [`Reply::Watches`].
    ShowWatches,
}

/// The answer to a command. It is given when everything before it is durable.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// The execution that a start has begun, or that its key had begun before.
    Started {
        /// Id of the execution that has the key.
        id: ExecutionId,
        /// Whether this start began it.
        new: bool,
        /// How it ended. `None`: it is live.
        outcome: Option<Outcome>,
    },
    /// The run that a caller has joined.
    Joined(Box<AssetRun>),
    /// The runs of a workflow for an asset.
    Runs(Vec<AssetRun>),
    /// The command was accepted; its changes are durable.
    Taken,
    /// One execution. `None`: it is not live.
    Shown(Option<Box<Execution>>),
    /// Live executions, in the order of their numbers.
    Page(ExecutionPage),
    /// All schedules, sorted by asset.
    Schedules(Vec<view::ScheduleState>),
    /// The workflows that are drained, by name.
    Drained(Vec<view::Drained>),
    /// All watches, sorted by asset.
    Watches(Vec<view::WatchState>),
    /// The command does not fit. Nothing was changed.
    Refused(Refused),
}

/// A change of the stored data.
#[derive(Debug, Clone, PartialEq)]
pub enum Record {
    /// The counters of the lane.
    Lane(LaneRecord),
    /// The definition of a workflow.
    Definition(Workflow),
    /// Writes the record of a live execution: its origin, its pause, its claims. Its steps have their own.
    Live(ExecutionId, Box<Live>),
    /// The input of an execution.
    Input(ExecutionId, Value),
    /// The state of a machine.
    Step(ExecutionId, MachineName, Box<StepRecord>),
    /// What the last answer of a machine left. `None`: nothing.
    Output(ExecutionId, MachineName, Option<Box<Output>>),
    /// Entries of the log, from this number on.
    Log(ExecutionId, u32, LogRecord),
    /// Removes the entries of the log that begin at this number.
    ForgetLog(ExecutionId, u32),
    /// Writes the execution that a key has started, for later starts with this key.
    Key(Box<KeyRecord>),
    /// An execution has ended; its live record goes.
    Ended(Box<Ended>),
    /// An ended execution is live again; the record of its end goes.
    Reopened(ExecutionId),
    /// The state of a schedule. `None`: it has stopped.
    Schedule(AssetId, Option<Box<ScheduleRecord>>),
    /// The state of a watch. `None`: it has stopped.
    Watch(AssetId, Option<Box<WatchRecord>>),
    /// What a watch knows of an asset, which comes second. `None`: nothing that matters.
    Watched(AssetId, AssetId, Option<Box<WatchedRecord>>),
    /// The assets that a run of a watch is about.
    Changed(ExecutionId, Changed),
    /// How far a rate is used up. `None`: it is free.
    Rate(plugin_sdk::Key, Option<Box<RateRecord>>),
    /// The word by which no execution of a workflow begins. `None`: they begin.
    Drained(WorkflowName, Option<Box<DrainRecord>>),
    /// An entry of the feed that is not about an execution.
    Told(Subject, Entry),
    /// The answer to a command of another process, whose row in the inbox goes.
    Answered(InboxId, Box<AnswerRecord>),
}

/// A call that the shell makes.
#[derive(Debug)]
pub enum Call {
    /// Asks the dispatch stack. Answered by [`Event::Dispatched`].
    Dispatch(CallNo, Box<DispatchRequest>),
    /// Calls a function. Answered by [`Event::Answered`].
    Run(CallNo, Box<Run>),
    /// Asks a probe. Answered by [`Event::Probed`].
    Probe(CallNo, Arc<str>, EffectKey),
    /// Makes changes of intent, once under their id. Answered by [`Event::Edited`].
    Edit(CallNo, Box<PreparedEdit>),
    /// Waits until the assets of an edit are in sync. Answered by [`Event::Settled`].
    Settle(CallNo, Box<SettleRequest>),
    /// The execution has ended: its fields may be set by others.
    Release(Holder),
    /// The answer of this call does not count any more: its future may be dropped, its wait forgotten.
    Abandon(CallNo),
}

/// Changes of intent of a step, as they are stored.
#[derive(Debug, Clone, PartialEq)]
pub struct PreparedEdit {
    /// The edit, as the port to intent takes it.
    pub edit: HeldEdit,
    /// The executions to start when the edit is made.
    pub starts: Vec<Start>,
}

/// The call of a function.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// Name of the function, as the program registered it.
    pub function: Arc<str>,
    /// The key of the effect.
    pub key: EffectKey,
    /// The position of the attempt.
    pub fence: Fence,
    /// The incarnation whose content counts.
    pub incarnation: IncarnationNo,
    /// Why the execution was started.
    pub cause: StartCause,
    /// The input of the execution, and over it that of the action.
    pub input: Value,
    /// What the steps before left for each other.
    pub context: Map<String, Value>,
    /// What the steps before have gathered, and is not made yet.
    pub edits: Vec<SourceEdit>,
    /// What the function has asked for so far.
    pub needs: BTreeMap<String, Requirement>,
    /// The assets that the execution is about, if it is a run of a watch.
    pub changed: Option<Changed>,
    /// The call is not made from this time on. It is before `until` if the callee cannot refuse old calls: that may take the
    /// time between.
    pub begins_by: Mono,
    /// When the call counts as one without an answer.
    pub until: Mono,
    /// Whether the execution is being cancelled.
    pub cancelled: bool,
}

/// What a step of the kernel results in.
#[derive(Debug, Default)]
pub struct Effects {
    /// Changes of stored data, all in one commit.
    pub records: Vec<Record>,
    /// The number of that commit. The shell reports it with [`Event::Durable`].
    pub commit: Option<CommitNo>,
    /// Whether the commit has to reach the disk soon. If not, it may wait for the next one that does.
    pub urgent: bool,
    /// Calls that the shell makes when `commit` is durable.
    pub calls: Vec<Call>,
    /// Assets to follow, or not any more, in this order.
    pub follow: Vec<Follow>,
    /// Answers to give when everything up to here is durable.
    pub replies: Vec<(ReplyNo, Reply)>,
    /// Executions that ended in this step.
    pub ended: Vec<Ended>,
    /// A broken invariant: the lane has to stop.
    pub violation: Option<String>,
}

/// A digest of what a start asks for, to tell a repeated start from another one: the input, and the operation if it is one.
pub(super) fn digest(input: &Value, operation: Option<Digest>) -> Digest {
    match operation {
        None => Digest::of(input.to_string().as_bytes()),
        Some(operation) => Digest::of(format!("{operation} {input}").as_bytes()),
    }
}
