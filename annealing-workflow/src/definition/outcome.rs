//! How an execution ended: a function of the states of its machines alone.

use std::fmt;

use plugin_sdk::workflow::Guard;
use prodspec_model::tolerant;
use serde::{Deserialize, Deserializer, Serialize};

use super::{
    clause::{FalseClause, GuardOf},
    data::Definition,
    plan::Plan,
    position::{MachineNo, Position},
};

/// Maximum number of false clauses that an outcome names.
const MAX_CLAUSES: usize = 50;

/// How an execution ended. The same states give the same outcome, whatever the order in which they were reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Outcome {
    /// The condition `ends_well` holds at the end of the execution.
    Succeeded,
    /// `ends_well` does not hold, and a machine is in `failed` or `expired`, or `ends_badly` holds.
    Failed,
    /// Neither holds, and cancelling the execution was asked for.
    Cancelled,
    /// An operator has ended it at once, whatever its states are.
    Terminated,
    /// None of these. The definition has no answer for this end.
    Stuck {
        /// The conditions that do not hold, of which one should: those of the ends, then those of actions. At most 50.
        clauses: Vec<FalseClause>,
    },
}

impl Outcome {
    /// Reads the outcome of a record. One that this program version does not know is stuck, without clauses.
    pub(crate) fn known<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        tolerant::known_or(from, |_| Self::unknown())
    }

    /// The same for an execution that may not have ended.
    pub(crate) fn known_if_any<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Self>, D::Error> {
        tolerant::known_or(from, |_| Some(Self::unknown()))
    }

    fn unknown() -> Self {
        let clauses = Vec::new();
        Self::Stuck { clauses }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Succeeded => f.write_str("succeeded"),
            Self::Failed => f.write_str("failed"),
            Self::Cancelled => f.write_str("cancelled"),
            Self::Terminated => f.write_str("terminated"),
            Self::Stuck { clauses } => {
                f.write_str("stuck")?;
                let mut before = ": ";
                for clause in clauses {
                    write!(f, "{before}{clause}")?;
                    before = "; ";
                }
                Ok(())
            }
        }
    }
}

/// A definition with its compiled form and the position at which guards are judged.
#[derive(Clone, Copy)]
pub(super) struct Judge<'a> {
    pub(super) definition: &'a Definition,
    pub(super) plan: &'a Plan,
    pub(super) position: &'a Position,
}

impl Judge<'_> {
    /// The outcome of an execution that ended at the position.
    pub(super) fn outcome(self) -> Outcome {
        let places = self.position.places();
        if self.plan.ended_well(places) {
            Outcome::Succeeded
        } else if self.plan.ended_badly(places) {
            Outcome::Failed
        } else if self.position.cancelled() {
            Outcome::Cancelled
        } else {
            let clauses = self.missing();
            Outcome::Stuck { clauses }
        }
    }

    /// The false clauses of the ends, and of the actions that are not enabled.
    fn missing(self) -> Vec<FalseClause> {
        let definition = self.definition;
        let mut clauses = Vec::new();
        self.explain(&GuardOf::EndsWell, &definition.ends_well, &mut clauses);
        if !definition.ends_badly.is_never() {
            self.explain(&GuardOf::EndsBadly, &definition.ends_badly, &mut clauses);
        }
        for machine in self.plan.numbers() {
            clauses.extend(self.false_clauses(machine));
        }
        clauses.truncate(MAX_CLAUSES);
        clauses
    }

    /// The false clauses of the guard of a machine's action in its present state. Empty if the guard holds, or if there
    /// is no action.
    pub(super) fn false_clauses(self, machine: MachineNo) -> Vec<FalseClause> {
        let mut clauses = Vec::new();
        let machine_data = &self.definition.machines[machine.index()];
        let state = self.plan.state(machine, self.position.state(machine));
        if let Some(action) = machine_data.actions.get(state) {
            let of = GuardOf::Action {
                machine: machine_data.name.clone(),
                state: state.clone(),
            };
            self.explain(&of, &action.guard, &mut clauses);
        }
        clauses
    }

    /// Whether `guard` holds. If not, adds the smallest parts of it because of which it does not.
    fn explain(self, of: &GuardOf, guard: &Guard, clauses: &mut Vec<FalseClause>) -> bool {
        let before = clauses.len();
        let mut found = None;
        let holds = match guard {
            Guard::All(parts) => {
                let failing = parts.iter().filter(|part| !self.explain(of, part, clauses));
                failing.count() == 0
            }
            Guard::Any(parts) => {
                let holding = parts.iter().filter(|part| self.explain(of, part, clauses));
                holding.count() > 0
            }
            Guard::Not(part) => !self.explain(of, part, &mut Vec::new()),
            Guard::Cancelled => self.position.cancelled(),
            Guard::Is { machine, states } => {
                found = self.plan.number(machine).map(|machine| {
                    let state = self.position.state(machine);
                    self.plan.state(machine, state).clone()
                });
                found.as_ref().is_some_and(|state| states.0.contains(state))
            }
        };
        if holds {
            clauses.truncate(before);
        } else if clauses.len() == before {
            clauses.push(FalseClause {
                of: of.clone(),
                clause: guard.clone(),
                found,
            });
        }
        holds
    }
}
