//! Finds pushes that wait for each other in a circle, so that `explain` can show them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use petgraph::{algo::kosaraju_scc, graphmap::DiGraphMap};
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
    let edges = waits.iter().map(|(a, b)| (numbers[a], numbers[b]));
    let graph: DiGraphMap<usize, ()> = DiGraphMap::from_edges(edges);
    let mut cycles: Vec<Vec<AssetId>> = kosaraju_scc(&graph)
        .into_iter()
        .filter_map(|members| shortest_cycle(&graph, &members))
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

/// A shortest circle through the smallest of `members`, all of which reach each other. `None`: the only member does not
/// wait for itself.
fn shortest_cycle(graph: &DiGraphMap<usize, ()>, members: &[usize]) -> Option<Vec<usize>> {
    let start = *members.iter().min()?;
    let members: BTreeSet<usize> = members.iter().copied().collect();
    let mut reached_from: BTreeMap<usize, usize> = BTreeMap::new();
    let mut next = VecDeque::from([start]);
    while let Some(at) = next.pop_front() {
        let mut neighbors: Vec<_> = graph.neighbors(at).collect();
        neighbors.sort_unstable();
        for neighbor in neighbors {
            if neighbor == start {
                return Some(path_to(at, start, &reached_from));
            }
            if members.contains(&neighbor) && !reached_from.contains_key(&neighbor) {
                reached_from.insert(neighbor, at);
                next.push_back(neighbor);
            }
        }
    }
    None
}

fn path_to(mut at: usize, start: usize, reached_from: &BTreeMap<usize, usize>) -> Vec<usize> {
    let mut path = vec![at];
    while at != start {
        at = reached_from[&at];
        path.push(at);
    }
    path.reverse();
    path
}
