//! Laws of the exploration, judged by an interpreter of guards by name that knows nothing of numbers, sets and packing.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use plugin_sdk::workflow::{
    Action, Guard, Machine, MachineName, StateName, Task, all, any, cancelled, is, not,
};
use proptest::{prelude::*, sample::Index};

use super::{Explorer, Start, packing::Mark};
use crate::definition::{
    Definition, GuardOf, Outcome, Position, Problem, Transition, Workflow, check::check,
};

/// An execution as the interpreter sees it. Calls that have begun are known one by one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct World {
    states: BTreeMap<MachineName, StateName>,
    cancelled: bool,
    begun: BTreeSet<MachineName>,
}

impl World {
    fn first(definition: &Definition) -> Self {
        let states = definition.machines.iter();
        Self {
            states: states
                .map(|it| (it.name.clone(), it.first.clone()))
                .collect(),
            cancelled: false,
            begun: BTreeSet::new(),
        }
    }

    fn holds(&self, guard: &Guard) -> bool {
        match guard {
            Guard::All(parts) => parts.iter().all(|part| self.holds(part)),
            Guard::Any(parts) => parts.iter().any(|part| self.holds(part)),
            Guard::Not(part) => !self.holds(part),
            Guard::Is { machine, states } => states.0.contains(&self.states[machine]),
            Guard::Cancelled => self.cancelled,
        }
    }

    fn action<'a>(&self, machine: &'a Machine) -> Option<&'a Action> {
        machine.actions.get(&self.states[&machine.name])
    }

    fn is_enabled(&self, machine: &Machine) -> bool {
        let enabled =
            |action: &Action| (action.cleans_up || !self.cancelled) && self.holds(&action.guard);
        self.action(machine).is_some_and(enabled)
    }

    /// Every world that can follow: a call begins, is withdrawn between attempts, or an action has an outcome.
    fn next(&self, definition: &Definition) -> Vec<Self> {
        let mut next = Vec::new();
        for machine in &definition.machines {
            let Some(action) = self.action(machine) else {
                continue;
            };
            let (enabled, begun) = (self.is_enabled(machine), self.begun.contains(&machine.name));
            let call = !matches!(action.task, Task::Ask { .. } | Task::Wait { .. });
            if call && enabled && !begun {
                let mut world = self.clone();
                world.begun.insert(machine.name.clone());
                next.push(world);
            }
            if begun && !enabled {
                let mut world = self.clone();
                world.begun.remove(&machine.name);
                next.push(world);
            }
            if begun || enabled && !call {
                for state in action.outcomes.values() {
                    let mut world = self.clone();
                    world.begun.remove(&machine.name);
                    world.states.insert(machine.name.clone(), state.clone());
                    next.push(world);
                }
            }
        }
        next
    }

    fn cancel(&self) -> Self {
        let mut world = self.clone();
        world.cancelled = true;
        world
    }

    /// The outcome of an execution that ended here. `None`: it is stuck.
    fn outcome(&self, definition: &Definition) -> Option<Outcome> {
        let bad = |state: &StateName| ["failed", "expired"].contains(&state.as_str());
        if self.holds(&definition.ends_well) {
            Some(Outcome::Succeeded)
        } else if self.states.values().any(bad) || self.holds(&definition.ends_badly) {
            Some(Outcome::Failed)
        } else {
            self.cancelled.then_some(Outcome::Cancelled)
        }
    }

    /// What exploration tells apart: calls that have begun count only if they are not enabled any more.
    fn seen(mut self, definition: &Definition) -> Self {
        let enabled = definition
            .machines
            .iter()
            .filter(|machine| self.is_enabled(machine));
        let enabled: Vec<MachineName> = enabled.map(|machine| machine.name.clone()).collect();
        self.begun.retain(|machine| !enabled.contains(machine));
        self
    }

    fn reachable(definition: &Definition) -> BTreeSet<Self> {
        let mut found = BTreeSet::new();
        let mut open = vec![Self::first(definition)];
        while let Some(world) = open.pop() {
            if found.insert(world.clone()) {
                open.extend(world.next(definition));
                open.push(world.cancel());
            }
        }
        found
    }
}

/// The worlds that the exploration finds, without its early ends.
fn explored(definition: &Definition) -> BTreeSet<World> {
    let (plan, _) = check(definition).unwrap();
    let position = Position::first(definition.machines.len());
    let start = Start {
        position: &position,
        in_flight: &[],
        since: 0,
    };
    let mut explorer = Explorer::new(&plan, &start);
    assert_eq!(explorer.drain(usize::MAX), None);
    assert!(explorer.cancel(usize::MAX, false));
    let found = explorer.seen.len();
    let world = |number: usize| {
        let state = explorer.seen.state(number);
        let packing = &explorer.moves.packing;
        let position = packing.position(state);
        let names = plan.numbers().zip(&definition.machines);
        let states = names.clone().map(|(number, machine)| {
            let state = plan.state(number, position.state(number));
            (machine.name.clone(), state.clone())
        });
        let begun = names.filter(|(number, _)| packing.is_marked(state, Mark::GoingOn, *number));
        World {
            states: states.collect(),
            cancelled: position.cancelled(),
            begun: begun.map(|(_, machine)| machine.name.clone()).collect(),
        }
    };
    (0..found).map(world).collect()
}

/// A guard whose machines and states are drawn when the machines are known.
#[derive(Debug, Clone)]
enum Shape {
    Is(Index, Index),
    Cancelled,
    Not(Box<Shape>),
    All(Vec<Shape>),
    Any(Vec<Shape>),
}

impl Shape {
    fn guard(&self, machines: &[Machine]) -> Guard {
        let list = |shapes: &[Self]| -> Vec<Guard> {
            shapes.iter().map(|shape| shape.guard(machines)).collect()
        };
        match self {
            Self::Is(machine, state) => {
                let machine = machine.get(machines);
                let states: Vec<&StateName> = machine.states().collect();
                is(&machine.name, (*state.get(&states)).clone())
            }
            Self::Cancelled => cancelled(),
            Self::Not(shape) => not(shape.guard(machines)),
            Self::All(shapes) => all(list(shapes)),
            Self::Any(shapes) => any(list(shapes)),
        }
    }
}

fn shape() -> impl Strategy<Value = Shape> {
    let leaf = prop_oneof![
        8 => any_of::<(Index, Index)>().prop_map(|(machine, state)| Shape::Is(machine, state)),
        1 => Just(Shape::Cancelled),
    ];
    leaf.prop_recursive(2, 6, 3, |inner| {
        let several = prop::collection::vec(inner.clone(), 1..4);
        prop_oneof![
            inner.prop_map(|shape| Shape::Not(Box::new(shape))),
            several.clone().prop_map(Shape::All),
            several.prop_map(Shape::Any),
        ]
    })
}

fn any_of<T: Arbitrary>() -> impl Strategy<Value = T> {
    proptest::prelude::any::<T>()
}

/// One of a few kinds of machines, without guards.
fn machine(name: &str, kind: u8) -> Machine {
    match kind {
        0 => Machine::calls(name, "f"),
        1 => Machine::asks(name, "Go?", ["yes", "no"]),
        2 => Machine::waits(name, Duration::ZERO),
        3 => Machine::calls(name, "f").outcomes(["empty"]),
        _ => Machine::new(name, "looking")
            .on(
                "looking",
                Action::calls("look")
                    .outcomes(["again"])
                    .leads("again", "pausing"),
            )
            .on(
                "pausing",
                Action::waits(Duration::ZERO).leads("done", "looking"),
            ),
    }
}

prop_compose! {
    fn definitions()(
        kinds in prop::collection::vec((0u8..5, any_of::<bool>()), 1..4),
        guards in prop::collection::vec(prop::option::weighted(0.7, shape()), 6),
        ends in (shape(), shape()),
    ) -> Definition {
        let bare: Vec<Machine> = kinds.iter().enumerate()
            .map(|(n, (kind, _))| machine(&format!("m{n}"), *kind)).collect();
        let mut machines = bare.clone();
        let mut guards = guards.iter();
        for (machine, (_, cleans_up)) in machines.iter_mut().zip(&kinds) {
            for action in machine.actions.values_mut() {
                if let Some(Some(shape)) = guards.next() {
                    action.guard = shape.guard(&bare);
                }
                action.cleans_up = *cleans_up;
            }
        }
        Workflow::new("w")
            .machines(machines)
            .ends_well(ends.0.guard(&bare))
            .ends_badly(ends.1.guard(&bare))
    }
}

/// Makes a definition acceptable: names its stuck ends, and removes guards that never hold. `None`: it cannot be done.
fn accepted(mut definition: Definition) -> Option<Workflow> {
    loop {
        let problems = match definition.clone().build() {
            Ok(workflow) => return Some(workflow),
            Err(error) => error.problems,
        };
        for problem in problems {
            match problem {
                Problem::Stuck(stuck) => {
                    let end = replay(&definition, &stuck.path);
                    assert_eq!(end.outcome(&definition), None, "{stuck}");
                    let machines = end
                        .states
                        .iter()
                        .map(|(machine, state)| is(machine, state.clone()));
                    definition.ends_badly = any([definition.ends_badly, all(machines)]);
                }
                Problem::NeverEnabled {
                    of: GuardOf::Action { machine, state },
                    guard,
                    ..
                } => {
                    let machine = definition
                        .machines
                        .iter_mut()
                        .find(|it| it.name == machine)?;
                    let action = machine.actions.get_mut(&state)?;
                    if guard.is_always() {
                        return None;
                    }
                    action.guard = Guard::always();
                    action.cleans_up = true;
                }
                _ => return None,
            }
        }
    }
}

/// The end to which a path leads.
fn replay(definition: &Definition, path: &[Transition]) -> World {
    let mut world = World::first(definition);
    for transition in path {
        let Transition::Outcome {
            machine: name,
            outcome,
        } = transition
        else {
            continue;
        };
        let machine = definition
            .machines
            .iter()
            .find(|it| it.name == *name)
            .unwrap();
        let state = world.action(machine).unwrap().outcomes[outcome].clone();
        world.states.insert(name.clone(), state);
    }
    world
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn r29_explored_states_are_those_of_an_interpreter_of_guards(definition in definitions()) {
        let definition = definition.ends_badly(Guard::always());
        let naive = World::reachable(&definition).into_iter();
        let naive: BTreeSet<World> = naive.map(|world| world.seen(&definition)).collect();
        prop_assert_eq!(explored(&definition), naive);
    }

    #[test]
    fn r29_accepted_workflow_never_ends_stuck(
        definition in definitions(),
        draws in prop::collection::vec(any_of::<Index>(), 40),
        cancel_at in prop::option::weighted(0.3, 0usize..20),
    ) {
        let Some(workflow) = accepted(definition) else {
            return Ok(());
        };
        let definition = workflow.definition();
        let mut world = World::first(definition);
        for (at, draw) in draws.iter().enumerate() {
            if Some(at) == cancel_at {
                world = world.cancel();
            }
            let next = world.next(definition);
            if next.is_empty() {
                let mut position = workflow.first();
                for (machine, state) in &world.states {
                    let machine = workflow.machine_no(machine).unwrap();
                    position.set(machine, workflow.state_no(machine, state).unwrap());
                }
                if world.cancelled {
                    position.cancel();
                }
                prop_assert_eq!(workflow.enabled(&position).count(), 0);
                prop_assert_eq!(Some(workflow.outcome(&position)), world.outcome(definition));
                break;
            }
            world = draw.get(&next).clone();
        }
    }

    #[test]
    fn r29_false_clauses_are_named_exactly_where_a_guard_does_not_hold(
        definition in definitions(),
        draws in prop::collection::vec(any_of::<Index>(), 3),
        cancelled in any_of::<bool>(),
    ) {
        let definition = definition.ends_badly(Guard::always());
        let Some(workflow) = accepted(definition) else {
            return Ok(());
        };
        let mut position = workflow.first();
        if cancelled {
            position.cancel();
        }
        let mut world = World::first(workflow.definition());
        world.cancelled = cancelled;
        for (machine, draw) in workflow.numbers().zip(&draws) {
            let data = workflow.machine(machine);
            let states: Vec<&StateName> = data.states().collect();
            let state = *draw.get(&states);
            position.set(machine, workflow.state_no(machine, state).unwrap());
            world.states.insert(data.name.clone(), state.clone());
        }
        for machine in workflow.numbers() {
            let data = workflow.machine(machine);
            prop_assert_eq!(workflow.is_enabled(machine, &position), world.is_enabled(data));
            let holds = world.action(data).is_none_or(|action| world.holds(&action.guard));
            let clauses = workflow.false_clauses(machine, &position);
            prop_assert_eq!(clauses.is_empty(), holds);
            prop_assert!(clauses.iter().all(|clause| !world.holds(&clause.clause)));
        }
    }
}
