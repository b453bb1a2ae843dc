//! Finds pushes that wait for each other in a circle, so that `explain` can show them.

use std::collections::{BTreeMap, BTreeSet};

use plugin_sdk::graph::{components, shortest_cycle};
use prodspec_model::AssetId;

/// Finds circles in `waits`. Each pair is an asset and an asset that it waits for.
///
/// For each set of assets that all wait for each other, returns one circle: a shortest one through the set's first
/// asset. The last asset of a circle waits for its first. The circles are sorted.
///
/// ```
/// use annealing_checks::solver::wait_cycles;
/// use prodspec_model::AssetId;
///
/// let id = |text| AssetId::new(text);
/// let (a, b, c) = (id("a")?, id("b")?, id("c")?);
/// let waits = [(c.clone(), a.clone()), (b.clone(), a.clone()), (a.clone(), b.clone())];
/// assert_eq!(wait_cycles(&waits), [[a, b]]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn wait_cycles(waits: &[(AssetId, AssetId)]) -> Vec<Vec<AssetId>> {
    let ids: BTreeSet<&AssetId> = waits.iter().flat_map(|(a, b)| [a, b]).collect();
    let numbers: BTreeMap<&AssetId, usize> = ids.iter().copied().zip(0..).collect();
    let ids: Vec<_> = ids.into_iter().collect();
    let edges: BTreeSet<(usize, usize)> = waits
        .iter()
        .map(|(a, b)| (numbers[a], numbers[b]))
        .collect();
    let mut successors = vec![Vec::new(); ids.len()];
    for (from, to) in edges {
        successors[from].push(to);
    }
    let mut cycles: Vec<Vec<AssetId>> = components(&successors)
        .into_iter()
        .filter_map(|members| shortest_cycle(&successors, *members.iter().min()?, &members))
        .map(|cycle| {
            cycle
                .into_iter()
                .map(|number| ids[number].clone())
                .collect()
        })
        .collect();
    cycles.sort();
    cycles
}
