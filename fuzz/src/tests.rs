//! Tests: every target runs for some hundred inputs, and planted faults are found.

mod edits;
mod machine;
mod parsers;
mod stored;

use std::time::Duration;

use crate::{
    judge::Bounds,
    run::{Figures, Finding, run},
    target::Target,
    targets,
};

/// Bounds that no run reaches: tests do not depend on the speed of a machine.
const UNBOUNDED: Bounds = Bounds {
    time: Duration::MAX,
    memory: u64::MAX,
    clock: || Duration::ZERO,
    peak: || 0,
};

/// Runs a number of inputs.
fn runs(target: &dyn Target, inputs: u64) -> Result<Figures, Finding> {
    run(target, 7, UNBOUNDED, |nth, _| nth < inputs)
}

/// The law that a target with a planted fault breaks, and the minimised input.
fn broken(target: &dyn Target) -> (&'static str, String) {
    let finding = runs(target, 5_000).expect_err("the planted fault is found");
    (
        finding.broken.law,
        String::from_utf8_lossy(&finding.input).into_owned(),
    )
}

#[test]
fn each_target_runs_without_a_finding() {
    for (name, make) in targets::ALL {
        let target = make();
        assert_eq!(target.name(), name);
        match runs(&*target, 300) {
            Ok(figures) => assert!(figures.classes > 5, "{name}: {figures:?}"),
            Err(finding) => panic!("{name}: {finding:?}\n{}", finding.input.escape_ascii()),
        }
    }
}

#[test]
fn seed_repeats_its_inputs() {
    let (_, make) = targets::ALL[0];
    let inputs = |seed| {
        let mut all = Vec::new();
        let ran = run(&*make(), seed, UNBOUNDED, |nth, input| {
            all.push(input.to_vec());
            nth < 100
        });
        assert!(ran.is_ok());
        all
    };
    assert_eq!(inputs(3), inputs(3));
    assert_ne!(inputs(3), inputs(4));
}
