//! The durable rows of an execution, and what its definition says about them.

use std::collections::BTreeMap;

use annealing_workflow::{
    definition::{Definition, Outcome},
    record::{Does, Ended, Live, StepRecord},
};
use control_plane_store::{Record, Version, Versioned, record};
use plugin_sdk::{
    operation::{EffectKey, ExecutionId},
    workflow::{Action, Guard, Machine, MachineName},
};

use crate::{
    flows::definitions::{action, definition_of},
    intent::partition,
    world::State,
};

/// The durable rows of one execution.
pub(super) struct Stored {
    pub(super) definition: &'static Definition,
    pub(super) live: Option<(Live, Version)>,
    pub(super) ended: Option<Ended>,
    /// The records of the machines that have begun, each with the version of its row.
    pub(super) steps: BTreeMap<MachineName, (StepRecord, Version)>,
}

impl State {
    /// Reads the durable rows of an execution; `None` if it has none.
    pub(super) fn stored(&self, id: &ExecutionId) -> Option<Stored> {
        let live = self.row::<Live>(&id.to_string());
        let ended = self.row::<Ended>(&id.to_string()).map(|(ended, _)| ended);
        let record = live.as_ref().map(|(live, _)| live);
        let record = record.or(ended.as_ref().map(|ended| &ended.live))?;
        let definition = definition_of(&id.workflow, record.origin.definition)?;
        let steps = definition.machines.iter().filter_map(|machine| {
            let row = self.row::<StepRecord>(&StepRecord::name(id, &machine.name))?;
            Some((machine.name.clone(), row))
        });
        Some(Stored {
            definition,
            live,
            ended,
            steps: steps.collect(),
        })
    }

    /// How an execution has ended, by the durable rows; `None`: it has not.
    pub(crate) fn outcome(&self, id: &ExecutionId) -> Option<String> {
        let ended = self.row::<Ended>(&id.to_string());
        ended.map(|(ended, _)| ended.outcome.to_string())
    }

    pub(super) fn row<R: Record>(&self, name: &str) -> Option<(R, Version)> {
        let key = record::key(&partition(), R::KIND, name);
        let Versioned { version, value } = self.store.durable(&key)?;
        Some((serde_json::from_slice(&value).ok()?, version))
    }
}

impl Stored {
    /// The record of the execution, live or as it was while it was live.
    pub(super) fn record(&self) -> Option<&Live> {
        let live = self.live.as_ref().map(|(live, _)| live);
        live.or(self.ended.as_ref().map(|ended| &ended.live))
    }

    /// The key of the effects of a machine's present run.
    pub(super) fn key(&self, id: &ExecutionId, name: &MachineName, step: &StepRecord) -> EffectKey {
        match self.record() {
            Some(live) => step.key(id, live, name),
            None => EffectKey::new(id.clone(), name.clone(), step.run),
        }
    }

    /// The state of a machine: that of its record, or its first one.
    pub(super) fn state<'s>(&'s self, machine: &'s Machine) -> &'s str {
        let step = self.steps.get(&machine.name);
        step.map_or(machine.first.as_str(), |(step, _)| step.state.as_str())
    }

    pub(super) fn cancelled(&self) -> bool {
        let live = self.live.as_ref().map(|(live, _)| live);
        live.or(self.ended.as_ref().map(|ended| &ended.live))
            .is_some_and(|live| live.cancelled.is_some())
    }

    /// Whether a condition holds by the durable states.
    pub(super) fn holds(&self, guard: &Guard) -> bool {
        match guard {
            Guard::All(guards) => guards.iter().all(|guard| self.holds(guard)),
            Guard::Any(guards) => guards.iter().any(|guard| self.holds(guard)),
            Guard::Not(guard) => !self.holds(guard),
            Guard::Is { machine, states } => {
                let mut machines = self.definition.machines.iter();
                let machine = machines.find(|it| it.name == *machine);
                let state = machine.map(|machine| self.state(machine));
                states.0.iter().any(|it| Some(it.as_str()) == state)
            }
            Guard::Cancelled => self.cancelled(),
        }
    }

    /// The action of a machine in its present state; `None` if the state has none.
    pub(super) fn action(&self, machine: &Machine) -> Option<&'static Action> {
        action(self.definition, &machine.name, self.state(machine))
    }

    /// The machines whose actions are enabled by the durable states.
    pub(super) fn enabled(&self) -> impl Iterator<Item = &'static Machine> {
        self.definition.machines.iter().filter(|machine| {
            self.action(machine).is_some_and(|action| {
                (action.cleans_up || !self.cancelled()) && self.holds(&action.guard)
            })
        })
    }

    /// What a machine does or waits for.
    pub(super) fn does(&self, machine: &MachineName) -> Does {
        let step = self.steps.get(machine);
        step.map_or(Does::Rests, |(step, _)| step.does)
    }

    /// The outcome that these states have.
    pub(super) fn is_outcome(&self, outcome: &Outcome) -> bool {
        if self.record().is_some_and(|live| live.terminated.is_some()) {
            return *outcome == Outcome::Terminated;
        }
        let states = self.definition.machines.iter().map(|it| self.state(it));
        let failed = states
            .into_iter()
            .any(|it| it == "failed" || it == "expired");
        if self.holds(&self.definition.ends_well) {
            return *outcome == Outcome::Succeeded;
        }
        if failed || self.holds(&self.definition.ends_badly) {
            return *outcome == Outcome::Failed;
        }
        *outcome == Outcome::Cancelled && self.cancelled()
    }
}
