//! `explore`: `build` of a workflow of `n` machines with more states than are explored.
//!
//! `ns_each` is the processor time of one build, and `p50_us` its wall time.

use control_plane::workflow::{Guard, Machine, Workflow, all, is};

use super::{OURS, Scenario, Sizes};
use crate::{
    Error,
    measure::{Meter, Sample, now},
};

/// The scenario `explore` with its sizes and sides.
pub(super) static SCENARIO: Scenario = Scenario {
    name: "explore",
    about: "one workflow: checked, compiled, 100,000 states explored",
    target: "p50 150 ms",
    sizes: Sizes {
        named: 30,
        all: 30,
        smoke: 6,
    },
    sides: &[(OURS, ours)],
};

/// Number of builds.
const BUILDS: usize = 20;

fn ours(n: usize) -> Result<Vec<Sample>, Error> {
    let (meter, mut latencies) = (Meter::start()?, Vec::new());
    for _ in 0..BUILDS {
        let start = now();
        let workflow = definition(n)?;
        latencies.push(start.elapsed());
        if workflow.exploration().is_none() {
            return Err("it was not explored".into());
        }
    }
    Ok(vec![meter.stop("all", BUILDS)?.latencies(latencies)])
}

/// Machines that run side by side in rows of ten, each row after the one before.
fn definition(n: usize) -> Result<Workflow, Error> {
    let name = |machine: usize| format!("m{machine}");
    let mut definition = Workflow::new("wide");
    for machine in 0..n {
        let row = machine / 10;
        let before = (row.max(1) - 1) * 10..row * 10;
        let guard = all(before
            .map(|it| is(&*name(it), "done"))
            .collect::<Vec<Guard>>());
        definition = definition.machine(Machine::calls(&*name(machine), "step").when(guard));
    }
    let done = (0..n)
        .map(|it| is(&*name(it), "done"))
        .collect::<Vec<Guard>>();
    Ok(definition.ends_well(all(done)).build()?)
}
