//! Workflows: definitions that were checked, explored and sealed.

use std::{collections::BTreeSet, sync::Arc};

use plugin_sdk::workflow::{Action, Machine, MachineName, StateName, WorkflowName};
use prodspec_model::Digest;

use super::{
    check::check,
    clause::{FalseClause, GuardOf},
    data::Definition,
    error::{Error, Problem, StuckEnd, Transition},
    explore::{Exploration, Explored, Move, Start, explore},
    outcome::{Judge, Outcome},
    plan::{Plan, Step},
    position::{CANCELLED, MachineNo, Position, StateNo},
};

/// A workflow that was checked and sealed. Cheap to clone.
///
/// Beside the definition it holds the compiled guards. Machines and states are numbers there, and the states of an
/// execution are a [`Position`].
#[derive(Debug, Clone)]
pub struct Workflow(Arc<Sealed>);

#[derive(Debug)]
struct Sealed {
    definition: Definition,
    /// The bytes that are stored, whose digest is `digest`.
    json: Box<[u8]>,
    digest: Digest,
    plan: Plan,
    exploration: Option<Exploration>,
}

/// Workflows are equal if their stored definitions are.
impl PartialEq for Workflow {
    fn eq(&self, other: &Self) -> bool {
        self.0.digest == other.0.digest
    }
}

/// A stored definition that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The text is no definition, or has kinds of guards or tasks that this program version does not know.
    #[error(
        "the stored definition cannot be read; if a newer program version wrote it, start that version"
    )]
    Unreadable(#[source] serde_json::Error),
    /// The definition is refused, although it was accepted when it was stored.
    #[error(transparent)]
    Refused(Error),
}

impl Definition {
    /// Checks the definition, explores the states that an execution can reach, and seals it.
    ///
    /// The exploration stops after 100,000 states. A workflow with more is accepted if no problem was found until then,
    /// nor in a sample of whole executions: see [`Exploration`].
    ///
    /// # Errors
    /// With every [`Problem`] found: names that are not there, limits, actions that cannot be run. Without these: states
    /// and actions that are never reached, and an end that is neither good nor bad.
    pub fn build(self) -> Result<Workflow, Error> {
        let position = Position::first(self.machines.len());
        Workflow::explored(self, &position, &[], 0)
    }
}

impl Workflow {
    /// Begins the definition of a workflow. [`Definition::build`] ends it.
    #[expect(clippy::new_ret_no_self, reason = "reads as prose in a program")]
    pub fn new(name: impl Into<WorkflowName>) -> Definition {
        Definition::new(name.into())
    }

    /// Reads a stored definition. It was explored when it was built, and is not again. The digest is that of the stored
    /// bytes, also if they have fields that this program version does not know.
    ///
    /// # Errors
    /// When this program version cannot read or run the definition.
    pub fn load(json: &[u8]) -> Result<Self, LoadError> {
        let definition: Definition = serde_json::from_slice(json).map_err(LoadError::Unreadable)?;
        let (plan, _) = check(&definition)
            .map_err(|problems| LoadError::Refused(refused(&definition, problems)))?;
        Ok(Self::seal(definition, plan, json, None))
    }

    /// The workflow with further machines, for an execution that is at `position` with calls in flight of the machines
    /// `in_flight`. The new machines get the numbers after the present ones; see [`extend`](Self::extend) for the position.
    ///
    /// All states that can be reached from the position are explored. States and actions of the new machines have to be
    /// reached; those of the others may lie in the past.
    ///
    /// # Errors
    /// As [`Definition::build`]; nothing is changed.
    pub fn extended(
        &self,
        machines: impl IntoIterator<Item = Machine>,
        position: &Position,
        in_flight: &[MachineNo],
    ) -> Result<Self, Error> {
        let definition = self.0.definition.clone().machines(machines);
        let position = position.extended(definition.machines.len());
        Self::explored(definition, &position, in_flight, self.len())
    }

    pub(super) fn explored(
        definition: Definition,
        position: &Position,
        in_flight: &[MachineNo],
        since: usize,
    ) -> Result<Self, Error> {
        let (plan, json) = match check(&definition) {
            Ok(checked) => checked,
            Err(problems) => return Err(refused(&definition, problems)),
        };
        let start = Start {
            position,
            in_flight,
            since,
        };
        let found = explore(&plan, &start);
        let mut problems = Vec::new();
        if let Some((path, end)) = &found.stuck {
            problems.push(stuck(&definition, &plan, position, path, end));
        } else {
            unreached(&definition, &plan, &found, since, &mut problems);
        }
        match problems.is_empty() {
            true => Ok(Self::seal(definition, plan, &json, Some(found.exploration))),
            false => Err(refused(&definition, problems)),
        }
    }

    fn seal(
        definition: Definition,
        plan: Plan,
        json: &[u8],
        exploration: Option<Exploration>,
    ) -> Self {
        Self(Arc::new(Sealed {
            definition,
            json: json.into(),
            digest: Digest::of(json),
            plan,
            exploration,
        }))
    }

    /// The name of the workflow, unique in its partition.
    pub fn name(&self) -> &WorkflowName {
        &self.0.definition.name
    }

    /// The digest of the definition, under which it is stored.
    pub fn digest(&self) -> Digest {
        self.0.digest
    }

    /// The definition as it is stored.
    pub fn json(&self) -> &[u8] {
        &self.0.json
    }

    /// The definition as plain data. Its canonical JSON is what is stored.
    pub fn definition(&self) -> &Definition {
        &self.0.definition
    }

    /// What was explored when the workflow was built. `None`: it was loaded.
    pub fn exploration(&self) -> Option<Exploration> {
        self.0.exploration
    }

    /// The number of machines, at least 1.
    #[expect(clippy::len_without_is_empty, reason = "a workflow is never empty")]
    pub fn len(&self) -> usize {
        self.0.plan.machines.len()
    }

    /// The numbers of all machines, in the order of the definition.
    pub fn numbers(&self) -> impl Iterator<Item = MachineNo> + use<> {
        self.0.plan.numbers()
    }

    /// The number of a machine. `None`: the workflow has no machine of that name.
    pub fn machine_no(&self, machine: &MachineName) -> Option<MachineNo> {
        self.0.plan.number(machine)
    }

    /// The machine with this number, as it was defined.
    pub fn machine(&self, machine: MachineNo) -> &Machine {
        &self.0.definition.machines[machine.index()]
    }

    /// The number of a state of a machine. `None`: the machine has no state of that name.
    pub fn state_no(&self, machine: MachineNo, state: &StateName) -> Option<StateNo> {
        let states = &self.0.plan.machines[machine.index()].states;
        let number = states.iter().position(|it| it == state)?;
        Some(StateNo(number as u8))
    }

    /// The name of a state of a machine.
    pub fn state(&self, machine: MachineNo, state: StateNo) -> &StateName {
        self.0.plan.state(machine, state)
    }

    /// The position of an execution that begins: every machine in its first state.
    pub fn first(&self) -> Position {
        Position::first(self.len())
    }

    /// A position of this workflow before it was extended, with the new machines in their first states.
    pub fn extend(&self, position: &Position) -> Position {
        position.extended(self.len())
    }

    /// The action of a machine in a state. `None`: the state is a final one.
    pub fn action(&self, machine: MachineNo, state: StateNo) -> Option<&Action> {
        self.machine(machine)
            .actions
            .get(self.state(machine, state))
    }

    /// The state to which an outcome of a machine's action in the state `from` leads. `None`: the outcome is not
    /// declared, which is a failure.
    pub fn leads(&self, machine: MachineNo, from: StateNo, outcome: &StateName) -> Option<StateNo> {
        let state = self.action(machine, from)?.outcomes.get(outcome)?;
        self.state_no(machine, state)
    }

    /// Whether a machine has an action that is enabled: it is in the action's state, the guard holds, and if the
    /// execution was cancelled, the action cleans up.
    pub fn is_enabled(&self, machine: MachineNo, position: &Position) -> bool {
        self.0.plan.is_enabled(machine, position.places())
    }

    /// The machines with an action that is enabled, in order. An execution without any, and without a call in flight,
    /// has ended.
    pub fn enabled(&self, position: &Position) -> impl Iterator<Item = MachineNo> {
        self.numbers()
            .filter(|machine| self.is_enabled(*machine, position))
    }

    /// The machines with a guard that mentions `machine`, in order: those whose actions may be enabled or not any more
    /// after it changed its state.
    pub fn mentioning(&self, machine: MachineNo) -> &[MachineNo] {
        &self.0.plan.mentioning[machine.place()]
    }

    /// The machines with an action that a cancel can enable, or disable, in order.
    pub fn mentioning_cancelled(&self) -> &[MachineNo] {
        &self.0.plan.mentioning[CANCELLED]
    }

    /// These machines and all whose guards depend on them, directly or through others, in order: what a restart sets
    /// back to its first state.
    pub fn depending(&self, machines: impl IntoIterator<Item = MachineNo>) -> BTreeSet<MachineNo> {
        let mut found = BTreeSet::new();
        let mut open: Vec<MachineNo> = machines.into_iter().collect();
        while let Some(machine) = open.pop() {
            if found.insert(machine) {
                open.extend(self.mentioning(machine));
            }
        }
        found
    }

    /// The outcome of an execution that ended at `position`. A function of the position alone.
    pub fn outcome(&self, position: &Position) -> Outcome {
        self.judge(position).outcome()
    }

    /// The parts of a guard because of which a machine's action is not enabled at `position`. Empty if the guard holds,
    /// or if the machine has no action there.
    pub fn false_clauses(&self, machine: MachineNo, position: &Position) -> Vec<FalseClause> {
        self.judge(position).false_clauses(machine)
    }

    fn judge<'a>(&'a self, position: &'a Position) -> Judge<'a> {
        Judge {
            definition: &self.0.definition,
            plan: &self.0.plan,
            position,
        }
    }
}

fn refused(definition: &Definition, problems: Vec<Problem>) -> Error {
    Error {
        workflow: definition.name.clone(),
        problems,
    }
}

/// The problem of an end that is stuck: the way to it in words, and what does not hold there.
fn stuck(
    definition: &Definition,
    plan: &Plan,
    start: &Position,
    path: &[Move],
    end: &Position,
) -> Problem {
    let mut places = start.places().to_vec();
    let name = |machine: MachineNo| definition.machines[machine.index()].name.clone();
    let mut transition = |by: &Move| match *by {
        Move::Outcome(machine, target) => {
            let step = plan.step(machine, places.as_slice())?;
            let (outcome, to) = step.targets.get(usize::from(target))?;
            places[machine.place()] = *to;
            Some(Transition::Outcome {
                machine: name(machine),
                outcome: outcome.clone(),
            })
        }
        Move::Withdraw(machine) => Some(Transition::Withdrawn {
            machine: name(machine),
        }),
        Move::Cancel => Some(Transition::Cancelled),
    };
    let judge = Judge {
        definition,
        plan,
        position: end,
    };
    let clauses = match judge.outcome() {
        Outcome::Stuck { clauses } => clauses,
        _ => Vec::new(),
    };
    Problem::Stuck(Box::new(StuckEnd {
        path: path.iter().filter_map(&mut transition).collect(),
        clauses,
    }))
}

/// Adds the actions that are never enabled, and the states that are never reached for another reason.
fn unreached(
    definition: &Definition,
    plan: &Plan,
    found: &Explored,
    since: usize,
    problems: &mut Vec<Problem>,
) {
    for index in since..definition.machines.len() {
        let (machine, steps) = (&definition.machines[index], &plan.machines[index]);
        let (reached, enabled) = (found.coverage.reached[index], found.coverage.enabled[index]);
        let has = |set: u64, state: usize| set >> state & 1 == 1;
        let before = problems.len();
        for (state, (name, step)) in steps.states.iter().zip(&steps.actions).enumerate() {
            if let (Some(action), Some(step)) = (machine.actions.get(name), step)
                && has(reached, state)
                && !has(enabled, state)
            {
                problems.push(Problem::NeverEnabled {
                    of: GuardOf::Action {
                        machine: machine.name.clone(),
                        state: name.clone(),
                    },
                    guard: action.guard.clone(),
                    advice: advice(step),
                });
            }
        }
        if problems.len() > before {
            continue; // The states behind these actions are not reached because of them.
        }
        let states = steps.states.iter().enumerate();
        let missing = states.filter(|(state, _)| !has(reached, *state));
        problems.extend(missing.map(|(_, state)| Problem::NeverReached {
            machine: machine.name.clone(),
            state: state.clone(),
        }));
    }
}

/// What to change about an action that is never enabled.
fn advice(step: &Step) -> &'static str {
    match step.asks_for_a_cancel_that_disables_it() {
        true => {
            "a cancel disables actions that do not clean up: add `cleans_up`, or correct the guard"
        }
        false => "correct the guard or remove the action",
    }
}
