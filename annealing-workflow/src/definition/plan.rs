//! The compiled form of a definition, which exploration and execution share.

use std::collections::{BTreeMap, BTreeSet};

use plugin_sdk::workflow::{Action, Guard, Machine, MachineName, StateName, is};

use super::{
    clause::GuardOf,
    condition::{Compiler, Condition, Names, Places},
    data::Definition,
    error::Problem,
    position::{CANCELLED, MachineNo, StateNo},
};

/// A compiled workflow. Machines and states are numbers.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) machines: Vec<Steps>,
    /// By place of a position: the machines with an action whose guard mentions it, in order.
    pub(super) mentioning: Vec<Vec<MachineNo>>,
    numbers: BTreeMap<MachineName, MachineNo>,
    ends_well: Condition,
    /// What `ends_badly` names.
    ends_badly: Condition,
    /// A machine is in `failed` or `expired`.
    failed: Condition,
}

/// The states of one machine with their actions.
#[derive(Debug)]
pub(super) struct Steps {
    pub(super) states: Vec<StateName>,
    /// By number of the state.
    pub(super) actions: Vec<Option<Step>>,
}

/// The action of a machine in one state.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) guard: Condition,
    pub(super) cleans_up: bool,
    pub(super) goes_on: bool,
    /// The states to which outcomes lead, each once, with the first outcome that leads there.
    pub(super) targets: Vec<(StateName, u8)>,
}

impl Plan {
    /// Compiles a definition whose numbers of machines and states are within the limits. Names that are not there are
    /// added to `problems`.
    pub(super) fn of(definition: &Definition, problems: &mut Vec<Problem>) -> Self {
        let names = &Names::of(&definition.machines);
        let mut compile = |of: GuardOf, guard: &Guard| {
            let mut compiler = Compiler {
                names,
                of,
                problems,
            };
            compiler.compile(guard, true)
        };
        let machines = definition.machines.iter();
        let numbers = machines.clone().enumerate();
        let numbers = numbers.map(|(index, it)| (it.name.clone(), MachineNo::new(index)));
        let machines = machines
            .map(|machine| Steps::of(machine, &mut compile))
            .collect();
        let mut plan = Self {
            machines,
            numbers: numbers.collect(),
            mentioning: vec![Vec::new(); definition.machines.len() + 1],
            ends_well: compile(GuardOf::EndsWell, &definition.ends_well),
            ends_badly: compile(GuardOf::EndsBadly, &definition.ends_badly),
            failed: compile(GuardOf::EndsBadly, &failed(&definition.machines)),
        };
        plan.index();
        plan
    }

    /// Fills the lists of the guards that mention a place.
    fn index(&mut self) {
        for (index, steps) in self.machines.iter().enumerate() {
            let mut places = BTreeSet::new();
            for step in steps.actions.iter().flatten() {
                step.guard.mentions(&mut places);
                if !step.cleans_up {
                    places.insert(CANCELLED);
                }
            }
            for place in places {
                self.mentioning[place].push(MachineNo::new(index));
            }
        }
    }

    /// Whether an execution that ended here succeeded.
    pub(super) fn ended_well(&self, places: &(impl Places + ?Sized)) -> bool {
        self.ends_well.holds(places)
    }

    /// Whether an execution that ended here, and did not succeed, failed.
    pub(super) fn ended_badly(&self, places: &(impl Places + ?Sized)) -> bool {
        self.failed.holds(places) || self.ends_badly.holds(places)
    }

    /// Whether an execution that ended here would be stuck.
    pub(super) fn is_stuck(&self, places: &(impl Places + ?Sized)) -> bool {
        places.state(CANCELLED) == 0 && !self.ended_well(places) && !self.ended_badly(places)
    }

    /// The number of a machine, by its name.
    pub(super) fn number(&self, machine: &MachineName) -> Option<MachineNo> {
        self.numbers.get(machine).copied()
    }

    /// The name of a state of a machine.
    pub(super) fn state(&self, machine: MachineNo, state: StateNo) -> &StateName {
        &self.machines[machine.index()].states[usize::from(state.0)]
    }

    /// The action of a machine in its present state.
    pub(super) fn step(
        &self,
        machine: MachineNo,
        places: &(impl Places + ?Sized),
    ) -> Option<&Step> {
        let state = places.state(machine.place());
        self.machines[machine.index()].actions[usize::from(state)].as_ref()
    }

    /// Whether the action of a machine in its present state is enabled.
    pub(super) fn is_enabled(&self, machine: MachineNo, places: &(impl Places + ?Sized)) -> bool {
        let step = self.step(machine, places);
        step.is_some_and(|step| step.is_enabled(places))
    }

    /// The numbers of all machines, in order.
    pub(super) fn numbers(&self) -> impl Iterator<Item = MachineNo> + Clone + use<> {
        (0..self.machines.len()).map(MachineNo::new)
    }
}

impl Step {
    /// Whether the guard asks for a cancel, which disables the action.
    pub(super) fn asks_for_a_cancel_that_disables_it(&self) -> bool {
        let mut places = BTreeSet::new();
        self.guard.mentions(&mut places);
        !self.cleans_up && places.contains(&CANCELLED)
    }

    pub(super) fn is_enabled(&self, places: &(impl Places + ?Sized)) -> bool {
        (self.cleans_up || places.state(CANCELLED) == 0) && self.guard.holds(places)
    }
}

impl Steps {
    fn of(machine: &Machine, compile: &mut impl FnMut(GuardOf, &Guard) -> Condition) -> Self {
        let states: Vec<StateName> = machine.states().cloned().collect();
        let number = |state: &StateName| states.iter().position(|it| it == state);
        let mut step = |state: &StateName| {
            let action = machine.actions.get(state)?;
            let of = GuardOf::Action {
                machine: machine.name.clone(),
                state: state.clone(),
            };
            Some(Step {
                guard: compile(of, &action.guard),
                cleans_up: action.cleans_up,
                goes_on: action.task.goes_on(),
                targets: targets(action, number),
            })
        };
        let actions = states.iter().map(&mut step).collect();
        Self { states, actions }
    }
}

fn targets(action: &Action, number: impl Fn(&StateName) -> Option<usize>) -> Vec<(StateName, u8)> {
    let mut targets: Vec<(StateName, u8)> = Vec::new();
    for (outcome, state) in &action.outcomes {
        // A machine has at most 64 states.
        let to = number(state).unwrap_or_default() as u8;
        if targets.iter().all(|(_, there)| *there != to) {
            targets.push((outcome.clone(), to));
        }
    }
    targets
}

/// Holds while a machine is in `failed` or `expired`.
fn failed(machines: &[Machine]) -> Guard {
    let bad =
        |state: &&StateName| [StateName::FAILED, StateName::EXPIRED].contains(&state.as_str());
    let guards = machines.iter().filter_map(|machine| {
        let states: Vec<StateName> = machine.states().filter(bad).cloned().collect();
        (!states.is_empty()).then(|| is(&machine.name, states))
    });
    Guard::Any(guards.collect())
}
