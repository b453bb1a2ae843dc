//! Actions: what a machine does in a state, and the states to which the outcomes lead.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use prodspec_model::operation::Power;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    guard::Guard,
    name::{MachineName, StateName, WorkflowName},
};
use crate::setters;

/// The number of attempts of an action in which consecutive failures may occur, unless it says otherwise.
pub const RETRY_LIMIT: u32 = 5;

/// The time for all attempts of an action together, unless it says otherwise: 24 hours.
pub const DEADLINE: Duration = Duration::from_secs(24 * 3600);

/// The action of a machine in one of its states. It is enabled while the machine is in that state and the guard holds.
///
/// The action reports one of its declared outcomes, and the outcome leads to a state. An outcome leads to the state of
/// its own name unless [`leads`](Self::leads) says otherwise.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Action {
    /// What is done when the action begins.
    pub task: Task,
    /// The condition under which the action is enabled. Default: it always is.
    #[serde(default, skip_serializing_if = "Guard::is_always")]
    pub guard: Guard,
    /// The declared outcomes, each with the state to which it leads. An answer with another outcome is a failure.
    pub outcomes: BTreeMap<StateName, StateName>,
    /// The input of the action, at most 64 KiB. A function gets the input of the execution, over which this is merged if both
    /// are objects; else it gets this, unless it is null. A child execution gets this alone. Default: null.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub input: Value,
    /// Whether the action cleans up: it stays enabled when the execution is cancelled, and has the urgent class.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cleans_up: bool,
    /// Maximum number of attempts with consecutive failures; after the last one the outcome is `failed`. Default: 5.
    #[serde(default = "retry_limit")]
    pub retry_limit: u32,
    /// The time for all attempts together, after which the outcome is `failed`, or `expired` for a question. `None`: no
    /// limit. Default: 24 hours, and no limit for questions and timers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Duration>,
    /// The time for one attempt. `None`: the deadline of the function, which is 60 seconds unless it says otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt_deadline: Option<Duration>,
    /// The time for the assets that the action's edits change to be in sync. `None`: the action does not wait for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settles: Option<Duration>,
    /// Maximum number of times that the action begins in one run of its machine; the next time its outcome is `expired`
    /// at once. `None`: only the limit of 10,000 transitions of an execution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<u32>,
    /// Whether the edits and pauses of the answer are kept for an action that [edits](Task::Edit), instead of being made
    /// when the function has answered.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gathers: bool,
    /// What an answer may contain, beside what the function itself declares. `None`: only the function says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub may: Option<Vec<Power>>,
    /// Maximum number of assets that the edits of the action may change, as the dry run finds it. `None`: 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blast_radius: Option<u32>,
}

/// What an action does when it begins, with the outcomes that it can have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// Calls a function. Outcomes: `done`, `failed`, and those that the action declares.
    Call {
        /// The name under which the function is registered.
        function: Arc<str>,
    },
    /// Asks a person. The outcomes are the options.
    Ask {
        /// The question as it is shown.
        question: Arc<str>,
        /// The options in the order in which they are shown.
        options: Vec<StateName>,
    },
    /// Sets the fields that machines edited back to their values before, each only if it still has the edited value.
    /// Outcomes: `done`, `failed`.
    Restore {
        /// The machines whose edits are undone, in this order.
        machines: Vec<MachineName>,
    },
    /// Makes all edits and pauses that machines have gathered, in one change. Outcomes: `done`, `failed`.
    Edit {
        /// The machines whose gathered edits are made.
        machines: Vec<MachineName>,
    },
    /// Starts a child execution and waits for its end. Outcomes: `done` if it succeeded, else `failed`.
    Start {
        /// The workflow of the child execution.
        workflow: WorkflowName,
    },
    /// Waits for a time. Outcome: `done`.
    Wait {
        /// The time from the moment at which the action is enabled.
        time: Duration,
    },
}

impl Task {
    /// Whether an action that has begun goes on until it has an outcome, also when its guard stops to hold or the
    /// execution is cancelled. Questions and timers are withdrawn instead.
    pub fn goes_on(&self) -> bool {
        match self {
            Self::Call { .. } | Self::Restore { .. } | Self::Edit { .. } | Self::Start { .. } => {
                true
            }
            Self::Ask { .. } | Self::Wait { .. } => false,
        }
    }
}

impl Action {
    /// Calls the function that is registered as `function`. Outcomes: `done` and `failed`.
    pub fn calls(function: &str) -> Self {
        let function = function.into();
        Self::new(
            Task::Call { function },
            [StateName::DONE, StateName::FAILED],
        )
    }

    /// Asks a person `question`. The outcomes are the `options`.
    pub fn asks<S: Into<StateName>>(question: &str, options: impl IntoIterator<Item = S>) -> Self {
        let options: Vec<StateName> = options.into_iter().map(Into::into).collect();
        let question = question.into();
        let outcomes = options.clone();
        Self::new(Task::Ask { question, options }, outcomes)
    }

    /// Undoes the edits of `machines` field by field, where the field still has the edited value. Outcomes: `done` and
    /// `failed`.
    pub fn restores<M: Into<MachineName>>(machines: impl IntoIterator<Item = M>) -> Self {
        let machines = machines.into_iter().map(Into::into).collect();
        Self::new(
            Task::Restore { machines },
            [StateName::DONE, StateName::FAILED],
        )
    }

    /// Makes all edits and pauses that `machines` have [gathered](Self::gathers), in one change. Outcomes: `done` and
    /// `failed`.
    pub fn edits<M: Into<MachineName>>(machines: impl IntoIterator<Item = M>) -> Self {
        let machines = machines.into_iter().map(Into::into).collect();
        Self::new(
            Task::Edit { machines },
            [StateName::DONE, StateName::FAILED],
        )
    }

    /// Starts a child execution of `workflow` and waits for its end. Outcomes: `done` and `failed`.
    pub fn starts(workflow: impl Into<WorkflowName>) -> Self {
        let workflow = workflow.into();
        Self::new(
            Task::Start { workflow },
            [StateName::DONE, StateName::FAILED],
        )
    }

    /// Waits for `time` from the moment at which the action is enabled. Outcome: `done`.
    pub fn waits(time: Duration) -> Self {
        Self::new(Task::Wait { time }, [StateName::DONE])
    }

    fn new<S: Into<StateName>>(task: Task, outcomes: impl IntoIterator<Item = S>) -> Self {
        let action = Self {
            guard: Guard::always(),
            outcomes: BTreeMap::new(),
            input: Value::Null,
            cleans_up: false,
            retry_limit: RETRY_LIMIT,
            deadline: task.goes_on().then_some(DEADLINE),
            attempt_deadline: None,
            settles: None,
            at_most: None,
            gathers: false,
            may: None,
            blast_radius: None,
            task,
        };
        action.outcomes(outcomes)
    }

    setters! {
        /// Sets the input of the action, at most 64 KiB. A function gets the input of the execution, over which this is merged
        /// if both are objects; else it gets this, unless it is null. A child execution gets this alone. Default: null.
        input: Value,
        /// Sets the maximum number of attempts with consecutive failures, at least 1. Default: 5.
        retry_limit: u32,
    }

    /// Sets the condition under which the action is enabled. Default: it always is.
    #[must_use]
    pub fn when(mut self, guard: Guard) -> Self {
        self.guard = guard;
        self
    }

    /// Declares further outcomes, each leading to the state of its own name.
    #[must_use]
    pub fn outcomes<S: Into<StateName>>(mut self, outcomes: impl IntoIterator<Item = S>) -> Self {
        for outcome in outcomes.into_iter().map(Into::into) {
            self.outcomes.entry(outcome.clone()).or_insert(outcome);
        }
        self
    }

    /// Declares an outcome that leads to the state `state`, or says where a declared outcome leads.
    #[must_use]
    pub fn leads(mut self, outcome: impl Into<StateName>, state: impl Into<StateName>) -> Self {
        self.outcomes.insert(outcome.into(), state.into());
        self
    }

    /// Keeps the action enabled when the execution is cancelled, and gives it the urgent class.
    #[must_use]
    pub fn cleans_up(mut self) -> Self {
        self.cleans_up = true;
        self
    }

    /// Waits, for at most `time` after the edits of the answer are made, until the assets that they change are in sync. Adds
    /// the outcomes `overwritten`, `rolled_back` and `expired`.
    #[must_use]
    pub fn settles(mut self, time: Duration) -> Self {
        self.settles = Some(time);
        self.outcomes([
            StateName::OVERWRITTEN,
            StateName::ROLLED_BACK,
            StateName::EXPIRED,
        ])
    }

    /// Sets the time for all attempts together, from the first one on, after which the outcome is `failed`. Default: 24 hours.
    /// Delays before it, and pauses, do not count. The wait for the assets of an edit has [a time of its own](Self::settles),
    /// which begins when the edit is made. A question has no deadline unless it is set here; after it the outcome is
    /// `expired`, which this adds.
    #[must_use]
    pub fn deadline(mut self, time: Duration) -> Self {
        self.deadline = Some(time);
        match self.task {
            Task::Ask { .. } => self.outcomes([StateName::EXPIRED]),
            _ => self,
        }
    }

    /// Sets the time for one attempt. Default: the deadline of the function, which is 60 seconds unless it says
    /// otherwise.
    #[must_use]
    pub fn attempt_deadline(mut self, time: Duration) -> Self {
        self.attempt_deadline = Some(time);
        self
    }

    /// Keeps the edits and pauses of the answer for an action that [edits](Self::edits). Functions that are called before
    /// that see them in [`FunctionRequest::edits`](crate::operation::FunctionRequest::edits).
    #[must_use]
    pub fn gathers(mut self) -> Self {
        self.gathers = true;
        self
    }

    /// Bounds what an answer may contain, beside what the function itself declares. Default: only the function says.
    #[must_use]
    pub fn may(mut self, powers: impl IntoIterator<Item = Power>) -> Self {
        self.may = Some(powers.into_iter().collect());
        self
    }

    /// Sets the maximum number of assets that the edits of the action may change, at most 4,000. Default: 100.
    #[must_use]
    pub fn blast_radius(mut self, assets: u32) -> Self {
        self.blast_radius = Some(assets);
        self
    }

    /// Bounds a loop: the action begins at most `times` times in one run of its machine. The next time its outcome is
    /// `expired` at once; this adds that outcome.
    #[must_use]
    pub fn at_most(mut self, times: u32) -> Self {
        self.at_most = Some(times);
        self.outcomes([StateName::EXPIRED])
    }
}

fn retry_limit() -> u32 {
    RETRY_LIMIT
}
