//! Rates of the faults of workflows.

use super::{Fault, Rates};
use crate::random::Random;

/// Separates the random stream that chooses the rates of the faults of workflows.
const RATES: u64 = 0x666c_6f77;

/// The faults of workflows, each with its usual rate per thousand chances. They are drawn in streams of their own, so that
/// other faults do not depend on them.
const FAULTS: [(Fault, u32); 17] = [
    (Fault::FunctionHangs, 60),
    (Fault::FunctionFails, 120),
    (Fault::FunctionPanics, 40),
    (Fault::FunctionKillsProcess, 150),
    (Fault::AnswerLost, 80),
    (Fault::EffectLate, 80),
    (Fault::CommandTwice, 300),
    (Fault::PersonCancels, 15),
    (Fault::PersonRestarts, 40),
    (Fault::PersonSuspends, 20),
    (Fault::PersonAnswersLate, 200),
    (Fault::CommandLate, 150),
    (Fault::PersonEditsField, 30),
    (Fault::SourceRefused, 80),
    (Fault::RolloutGoesBack, 80),
    (Fault::ScheduleEdited, 20),
    (Fault::PersonRedefines, 60),
];

/// Chooses a rate for each fault of workflows on `seed`: zero, the usual one, or three times as much.
pub fn choose_rates(seed: u64, rates: &mut Rates) {
    let mut random = Random::new(seed ^ RATES);
    for (fault, usual) in FAULTS {
        let times = [0, 1, 1, 3][random.below(4)];
        rates.set(fault, (usual * times).min(700));
    }
}

/// Sets three times the usual rate for each fault of workflows.
pub fn choose_storm(rates: &mut Rates) {
    for (fault, usual) in FAULTS {
        rates.set(fault, (usual * 3).min(700));
    }
}
