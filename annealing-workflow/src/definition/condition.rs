//! Guards compiled to bit sets: for each machine that a guard mentions, the set of states in which it may be.

use std::collections::{BTreeMap, BTreeSet};

use plugin_sdk::workflow::{Guard, Machine, MachineName, StateName, States};

use super::{
    clause::GuardOf,
    error::Problem,
    position::{CANCELLED, MachineNo},
};

/// A compiled guard: all, or any, of some sets of states and further conditions.
///
/// Negation is moved to the sets, and lists within lists of the same kind are merged, so most guards are one list of
/// sets with an element for each machine.
#[derive(Debug, PartialEq)]
pub(super) struct Condition {
    /// Whether all elements have to hold; else one is enough.
    all: bool,
    sets: Vec<Set>,
    parts: Vec<Condition>,
}

/// What compiled guards see: the number of the state at each place of a position.
pub(super) trait Places {
    /// The number of the state at a place.
    fn state(&self, place: usize) -> u8;
}

impl Places for [u8] {
    fn state(&self, place: usize) -> u8 {
        self[place]
    }
}

/// Holds while the state at one place of a position is in the set.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Set {
    place: u16,
    /// Bit n: the state with the number n.
    states: u64,
}

/// The machines and states that guards can name.
pub(super) struct Names<'a> {
    numbers: BTreeMap<&'a MachineName, MachineNo>,
    states: Vec<Vec<&'a StateName>>,
}

impl<'a> Names<'a> {
    /// The names of `machines`. Of two machines with one name the first counts.
    pub(super) fn of(machines: &'a [Machine]) -> Self {
        let mut numbers = BTreeMap::new();
        for (index, machine) in machines.iter().enumerate() {
            numbers
                .entry(&machine.name)
                .or_insert(MachineNo::new(index));
        }
        let states = machines.iter().map(|machine| machine.states().collect());
        Self {
            numbers,
            states: states.collect(),
        }
    }

    pub(super) fn number(&self, machine: &MachineName) -> Option<MachineNo> {
        self.numbers.get(machine).copied()
    }
}

/// Compiles the guards of one action, or of the ends, and collects the names that are not there.
pub(super) struct Compiler<'a> {
    pub(super) names: &'a Names<'a>,
    pub(super) of: GuardOf,
    pub(super) problems: &'a mut Vec<Problem>,
}

impl Compiler<'_> {
    /// Compiles `guard`, or its negation if it should not hold.
    pub(super) fn compile(&mut self, guard: &Guard, holds: bool) -> Condition {
        match guard {
            Guard::All(guards) => self.list(guards, holds, holds),
            Guard::Any(guards) => self.list(guards, holds, !holds),
            Guard::Not(guard) => self.compile(guard, !holds),
            Guard::Is { machine, states } => self.is(machine, states, holds),
            Guard::Cancelled => Condition::set(CANCELLED, if holds { 0b10 } else { 0b01 }),
        }
    }

    fn list(&mut self, guards: &[Guard], holds: bool, all: bool) -> Condition {
        let mut list = Condition::empty(all);
        for guard in guards {
            list.add(self.compile(guard, holds));
        }
        list
    }

    fn is(&mut self, machine: &MachineName, states: &States, holds: bool) -> Condition {
        let Some(number) = self.names.number(machine) else {
            self.problems.push(Problem::NoSuchMachine {
                of: self.of.clone(),
                machine: machine.clone(),
            });
            return Condition::empty(holds);
        };
        let known = &self.names.states[number.index()];
        let mut set = 0;
        for state in &states.0 {
            match known.iter().position(|known| *known == state) {
                Some(bit) => set |= 1u64.checked_shl(bit as u32).unwrap_or_default(),
                None => self.problems.push(Problem::NoSuchState {
                    of: self.of.clone(),
                    machine: machine.clone(),
                    state: state.clone(),
                    known: known.iter().map(|&state| state.clone()).collect(),
                }),
            }
        }
        Condition::set(number.place(), if holds { set } else { !set })
    }
}

impl Condition {
    fn empty(all: bool) -> Self {
        Self {
            all,
            sets: Vec::new(),
            parts: Vec::new(),
        }
    }

    fn set(place: usize, states: u64) -> Self {
        let mut one = Self::empty(true);
        // A workflow has at most 1,000 machines.
        let place = place as u16;
        one.sets.push(Set { place, states });
        one
    }

    /// Adds an element to the list.
    fn add(&mut self, condition: Self) {
        let single = condition.sets.len() == 1 && condition.parts.is_empty();
        if !single && condition.all != self.all {
            self.parts.push(condition);
            return;
        }
        for set in condition.sets {
            match self.sets.iter_mut().find(|it| it.place == set.place) {
                Some(same) if self.all => same.states &= set.states,
                Some(same) => same.states |= set.states,
                None => self.sets.push(set),
            }
        }
        self.parts.extend(condition.parts);
    }

    /// Whether the condition holds at a position.
    pub(super) fn holds(&self, places: &(impl Places + ?Sized)) -> bool {
        let holds = |set: &Set| set.states >> places.state(usize::from(set.place)) & 1 == 1;
        match self.all {
            true => self.sets.iter().all(holds) && self.parts.iter().all(|it| it.holds(places)),
            false => self.sets.iter().any(holds) || self.parts.iter().any(|it| it.holds(places)),
        }
    }

    /// Whether the condition can hold if each place has any of the given states. `true` does not prove that it can.
    pub(super) fn may_hold(&self, states: &[u64]) -> bool {
        let may = |set: &Set| set.states & states[usize::from(set.place)] != 0;
        match self.all {
            true => self.sets.iter().all(may) && self.parts.iter().all(|it| it.may_hold(states)),
            false => self.sets.iter().any(may) || self.parts.iter().any(|it| it.may_hold(states)),
        }
    }

    /// Adds the places that the condition depends on to `places`.
    pub(super) fn mentions(&self, places: &mut BTreeSet<usize>) {
        places.extend(self.sets.iter().map(|set| usize::from(set.place)));
        self.parts.iter().for_each(|part| part.mentions(places));
    }
}
