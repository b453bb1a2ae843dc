//! Machines: the steps of a workflow, each a small state machine.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use prodspec_model::operation::Power;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    action::Action,
    guard::Guard,
    name::{MachineName, StateName, WorkflowName},
};

/// One machine of a workflow: a first state, and at most one action in each state. A state without an action is a final
/// state of the machine.
///
/// Most machines have one action, in the first state `waiting`. [`calls`](Self::calls), [`asks`](Self::asks),
/// [`restores`](Self::restores), [`edits`](Self::edits), [`starts`](Self::starts) and [`waits`](Self::waits) make these. Machines of several
/// steps, and loops, are made with [`new`](Self::new) and [`on`](Self::on). Nothing is checked before the workflow is
/// built.
///
/// ```
/// use plugin_sdk::workflow::{Action, Machine, is};
/// use std::time::Duration;
///
/// let verify = Machine::calls("verify", "verify-texts").when(is("load", "done")).retry_limit(3);
/// assert_eq!(verify.states().map(|state| state.as_str()).collect::<Vec<_>>(), ["waiting", "done", "failed"]);
///
/// // Looks once a minute, for an hour.
/// let quiet = Machine::new("quiet", "looking")
///     .on("looking", Action::calls("no-alert").outcomes(["no"]).leads("no", "pausing").at_most(60))
///     .on("pausing", Action::waits(Duration::from_secs(60)).leads("done", "looking"));
/// # assert_eq!(quiet.actions.len(), 2);
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Machine {
    /// The name of the machine, unique in its workflow.
    pub name: MachineName,
    /// The state in which the machine begins each run.
    pub first: StateName,
    /// The actions, each by the state in which it is enabled.
    pub actions: BTreeMap<StateName, Action>,
    #[serde(skip)]
    set_nothing: bool,
}

impl Machine {
    /// A machine that begins in the state `first`, without actions.
    pub fn new(name: impl Into<MachineName>, first: impl Into<StateName>) -> Self {
        Self {
            name: name.into(),
            first: first.into(),
            actions: BTreeMap::new(),
            set_nothing: false,
        }
    }

    /// Whether a setter found no action that it could change, because the first state has none or was given it later. Such
    /// a machine is refused when the workflow is built: what was set, perhaps a guard, would be lost.
    pub fn has_set_nothing(&self) -> bool {
        self.set_nothing
    }

    /// Gives the machine an action in the state `state`. It replaces an earlier one of that state.
    #[must_use]
    pub fn on(mut self, state: impl Into<StateName>, action: Action) -> Self {
        self.actions.insert(state.into(), action);
        self
    }

    fn single(name: impl Into<MachineName>, action: Action) -> Self {
        Self::new(name, StateName::WAITING).on(StateName::WAITING, action)
    }

    /// Calls the function that is registered as `function`. States: `waiting`, `done`, `failed`.
    pub fn calls(name: impl Into<MachineName>, function: &str) -> Self {
        Self::single(name, Action::calls(function))
    }

    /// Asks a person `question`. States: `waiting`, and each of the `options`.
    pub fn asks<S: Into<StateName>>(
        name: impl Into<MachineName>,
        question: &str,
        options: impl IntoIterator<Item = S>,
    ) -> Self {
        Self::single(name, Action::asks(question, options))
    }

    /// Undoes the edits of `machines` field by field, where the field still has the edited value. States: `waiting`,
    /// `done`, `failed`.
    pub fn restores<M: Into<MachineName>>(
        name: impl Into<MachineName>,
        machines: impl IntoIterator<Item = M>,
    ) -> Self {
        Self::single(name, Action::restores(machines))
    }

    /// Makes all edits and pauses that `machines` have [gathered](Self::gathers), in one change. States: `waiting`, `done`,
    /// `failed`.
    ///
    /// ```
    /// use plugin_sdk::workflow::{Machine, is};
    ///
    /// let machines = [
    ///     Machine::calls("place", "place").gathers(),
    ///     Machine::calls("check", "headroom").gathers().when(is("place", "done")), // sees the edits of `place`
    ///     Machine::edits("edit", ["place", "check"]).when(is("check", "done")),
    /// ];
    /// # assert!(machines[0].actions.values().all(|action| action.gathers));
    /// ```
    pub fn edits<M: Into<MachineName>>(
        name: impl Into<MachineName>,
        machines: impl IntoIterator<Item = M>,
    ) -> Self {
        Self::single(name, Action::edits(machines))
    }

    /// Starts a child execution of `workflow` and waits for its end. States: `waiting`, `done`, `failed`.
    pub fn starts(name: impl Into<MachineName>, workflow: impl Into<WorkflowName>) -> Self {
        Self::single(name, Action::starts(workflow))
    }

    /// Waits for `time` from the moment at which it is enabled. States: `waiting`, `done`.
    pub fn waits(name: impl Into<MachineName>, time: Duration) -> Self {
        Self::single(name, Action::waits(time))
    }

    /// All states, each once: the first one, the states with actions, and those to which outcomes lead. The position of
    /// a state in this list is its number.
    pub fn states(&self) -> impl Iterator<Item = &StateName> {
        let others = self
            .actions
            .iter()
            .flat_map(|(state, action)| std::iter::once(state).chain(action.outcomes.values()));
        let mut seen = BTreeSet::new();
        std::iter::once(&self.first)
            .chain(others)
            .filter(move |state| seen.insert(*state))
    }
}

/// The setters of [`Action`] for machines with one action: they change the action of the first state. A machine without
/// such an action is [refused](Machine::has_set_nothing) then.
impl Machine {
    fn first_action(mut self, change: impl FnOnce(Action) -> Action) -> Self {
        match self.actions.remove(&self.first) {
            Some(action) => drop(self.actions.insert(self.first.clone(), change(action))),
            None => self.set_nothing = true,
        }
        self
    }

    /// Sets the condition under which the action is enabled. Default: it always is.
    #[must_use]
    pub fn when(self, guard: Guard) -> Self {
        self.first_action(|action| action.when(guard))
    }

    /// Sets the input of the action, at most 64 KiB, over the input of the execution. Default: null. See [`Action::input`].
    #[must_use]
    pub fn input(self, input: Value) -> Self {
        self.first_action(|action| action.input(input))
    }

    /// Declares further outcomes of the function, each a state of the machine.
    #[must_use]
    pub fn outcomes<S: Into<StateName>>(self, outcomes: impl IntoIterator<Item = S>) -> Self {
        self.first_action(|action| action.outcomes(outcomes))
    }

    /// Sets the maximum number of attempts with consecutive failures, at least 1. Default: 5.
    #[must_use]
    pub fn retry_limit(self, attempts: u32) -> Self {
        self.first_action(|action| action.retry_limit(attempts))
    }

    /// Keeps the action enabled when the execution is cancelled. See [`Action::cleans_up`].
    #[must_use]
    pub fn cleans_up(self) -> Self {
        self.first_action(Action::cleans_up)
    }

    /// Waits until the edited assets are in sync. Adds the states `overwritten`, `rolled_back` and `expired`. See
    /// [`Action::settles`].
    #[must_use]
    pub fn settles(self, time: Duration) -> Self {
        self.first_action(|action| action.settles(time))
    }

    /// Sets the time for all attempts together. Default: 24 hours, and no limit for questions. See
    /// [`Action::deadline`].
    #[must_use]
    pub fn deadline(self, time: Duration) -> Self {
        self.first_action(|action| action.deadline(time))
    }

    /// Sets the time for one attempt. See [`Action::attempt_deadline`].
    #[must_use]
    pub fn attempt_deadline(self, time: Duration) -> Self {
        self.first_action(|action| action.attempt_deadline(time))
    }

    /// Keeps the edits and pauses of the answer for a machine that [edits](Self::edits). See [`Action::gathers`].
    #[must_use]
    pub fn gathers(self) -> Self {
        self.first_action(Action::gathers)
    }

    /// Bounds what an answer may contain, beside what the function itself declares. See [`Action::may`].
    #[must_use]
    pub fn may(self, powers: impl IntoIterator<Item = Power>) -> Self {
        self.first_action(|action| action.may(powers))
    }

    /// Sets the maximum number of assets that the edits may change. Default: 100. See [`Action::blast_radius`].
    #[must_use]
    pub fn blast_radius(self, assets: u32) -> Self {
        self.first_action(|action| action.blast_radius(assets))
    }

    /// Bounds a loop to this number of rounds. Adds the state `expired`. See [`Action::at_most`].
    #[must_use]
    pub fn at_most(self, times: u32) -> Self {
        self.first_action(|action| action.at_most(times))
    }
}
