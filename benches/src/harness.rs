//! Runs the sides of a scenario in turn, each in a fresh process of this program, and takes medians.
//!
//! Each side has its own process because the heap of an earlier side would hide the memory that this side needs, and
//! because a process cannot reset its peak of memory.

use std::{collections::BTreeMap, io, process::Command};

use tracing_subscriber::filter::LevelFilter;

use crate::{
    Error,
    measure::Sample,
    report::Line,
    scenarios::{self, OURS, Scenario},
};

/// Runs all sides of `scenario` `runs` times and compares the medians, phase by phase.
pub(crate) fn run(scenario: &Scenario, assets: usize, runs: usize) -> Result<Vec<Line>, Error> {
    let mut samples: BTreeMap<&str, Vec<Vec<Sample>>> = BTreeMap::new();
    for _ in 0..runs {
        for (side, _) in scenario.sides {
            let phases = child(scenario.name, side, assets)?;
            samples.entry(side).or_default().push(phases);
        }
    }
    let mut medians: BTreeMap<&str, Vec<Sample>> = BTreeMap::new();
    for (side, runs) in samples {
        medians.insert(side, median(runs));
    }
    let ours = medians.remove(OURS).unwrap_or_default();
    Ok(Line::compare(
        (scenario.name, scenario.target),
        ours,
        &medians,
    ))
}

/// Runs one side in this process. Like in a service, a subscriber formats log lines from INFO on; it discards the
/// output.
pub(crate) fn side(scenario: &str, side: &str, assets: &[usize]) -> Result<Vec<Sample>, Error> {
    tracing_subscriber::fmt()
        .with_max_level(LevelFilter::INFO)
        .with_writer(io::sink)
        .init();
    let mut scenarios = scenarios::named(scenario);
    let sides = scenarios.next().map_or(&[][..], |scenario| scenario.sides);
    match (sides.iter().find(|(name, _)| *name == side), assets) {
        (Some((_, run)), [assets]) => run(*assets),
        _ => Err(
            format!("{scenario} has no side {side}, or `--assets` is not a single number").into(),
        ),
    }
}

fn child(scenario: &str, side: &str, assets: usize) -> Result<Vec<Sample>, Error> {
    let output = Command::new(std::env::current_exe()?)
        .args([scenario, "--side", side, "--assets", &assets.to_string()])
        .stderr(io::stderr())
        .output()?;
    if !output.status.success() {
        return Err(format!("{scenario}: {side} ended with {}", output.status).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// For each phase, the median sample of all runs by [`Sample::cost`].
fn median(runs: Vec<Vec<Sample>>) -> Vec<Sample> {
    let phases = runs.first().map_or(0, Vec::len);
    let middle = |phase: usize| {
        let mut samples: Vec<&Sample> = runs.iter().filter_map(|run| run.get(phase)).collect();
        samples.sort_by(|a, b| a.cost().total_cmp(&b.cost()));
        samples
            .get(samples.len() / 2)
            .map(|sample| (*sample).clone())
    };
    (0..phases).filter_map(middle).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::program::postgres_is_installed as installed;

    #[test]
    fn the_median_is_taken_for_each_phase() {
        let sample = |phase: &str, ns_each| Sample {
            phase: phase.into(),
            ns_each: Some(ns_each),
            ..Sample::default()
        };
        let runs = [(3.0, 10.0), (1.0, 30.0), (2.0, 20.0)];
        let runs = runs.map(|(a, b)| vec![sample("a", a), sample("b", b)]);
        assert_eq!(median(runs.into()), [sample("a", 2.0), sample("b", 20.0)]);
    }

    #[test]
    fn all_sides_of_each_scenario_run_and_report_phases_of_ours() {
        for scenario in scenarios::named(scenarios::ALL) {
            let mut ours: Vec<String> = Vec::new();
            for (side, run) in scenario.sides {
                let samples = run(scenario.sizes.smoke).unwrap();
                let names: Vec<String> = samples.into_iter().map(|s| s.phase).collect();
                if *side == OURS {
                    ours.clone_from(&names);
                    let left_out = scenario.name.ends_with("-postgres") && !installed();
                    assert!(left_out || !ours.is_empty(), "{}", scenario.name);
                }
                let is_ours = names.iter().all(|name| ours.contains(name));
                assert!(
                    is_ours,
                    "{}, {side}: {names:?}, not {ours:?}",
                    scenario.name
                );
            }
        }
    }
}
