//! Checks dependency edges: no duplicates and no cycles. The cost is linear in the edges that a change can reach.

use std::collections::{BTreeMap, BTreeSet, VecDeque, btree_map::Entry};

use petgraph::{
    algo::kosaraju_scc,
    graph::{DiGraph, NodeIndex},
};
use plugin_sdk::{AssetView, Candidate, Problem, Problems, Validator};
use prodspec_model::{Asset, AssetId, Message, Snapshot, addons::DependsOn};

/// Refuses duplicate dependency edges, and edges that form a cycle.
#[derive(Debug, Clone, Copy)]
pub struct Dependencies;

/// Maximum number of assets of a cycle that a message shows.
const SHOWN: usize = 12;

impl Validator for Dependencies {
    fn name(&self) -> &str {
        "dependencies"
    }

    fn validate_asset(&self, view: &AssetView<'_>, problems: &mut Problems) {
        let mut seen = BTreeSet::new();
        let edges = DependsOn::edges_of(view.asset());
        for (nth, edge) in edges.iter().enumerate() {
            if !seen.insert(edge) {
                let field = format!("addons.{}.edges[{nth}]", DependsOn::TYPE);
                let message = format!(
                    "depends on `{}` twice in the same way; remove one",
                    edge.provider.id
                );
                problems.push(view.problem(message).field(field));
            }
        }
    }

    fn validate_incarnation(&self, candidate: &Candidate, problems: &mut Problems) {
        // The parent has no cycle, so every new cycle contains an asset that changed.
        let after = candidate
            .changes
            .iter()
            .filter_map(|change| change.after.as_ref());
        let changed = after.filter(|asset| asset.has_addon(DependsOn::TYPE));
        let reach = Reach::from(changed.map(Asset::id), &candidate.snapshot);
        for cycle in reach.cycles() {
            let first = candidate.snapshot.get(cycle[0].as_str());
            let message = format!("depends on itself: {}; break the cycle", shown(&cycle));
            problems.push(
                match first {
                    Some(asset) => Problem::with(&asset, message),
                    None => Problem::new(message),
                }
                .field(format!("addons.{}", DependsOn::TYPE)),
            );
        }
    }
}

fn shown(cycle: &[AssetId]) -> String {
    let more = cycle.len().saturating_sub(SHOWN);
    let mut names: Vec<String> = cycle.iter().take(SHOWN).map(ToString::to_string).collect();
    if more > 0 {
        names.push(format!("({more} more)"));
    }
    names.push(cycle[0].to_string());
    names.join(" -> ")
}

/// The assets that some assets depend on, directly or indirectly, with their edges.
struct Reach {
    ids: Vec<AssetId>,
    graph: DiGraph<(), ()>,
}

impl Reach {
    fn from(starts: impl Iterator<Item = AssetId>, snapshot: &Snapshot) -> Self {
        let mut graph = DiGraph::new();
        let mut ids = Vec::new();
        let mut nodes = BTreeMap::new();
        let mut open: VecDeque<AssetId> = starts.collect();
        let mut edges = Vec::new();
        while let Some(id) = open.pop_front() {
            if nodes.contains_key(&id) {
                continue;
            }
            let node = graph.add_node(());
            nodes.insert(id.clone(), node);
            let needs: Vec<_> = snapshot
                .get(id.as_str())
                .map(|asset| DependsOn::edges_of(&asset))
                .unwrap_or_default();
            for edge in needs {
                edges.push((node, edge.provider.id.clone()));
                open.push_back(edge.provider.id);
            }
            ids.push(id);
        }
        for (from, to) in edges {
            graph.update_edge(from, nodes[&to], ());
        }
        Self { ids, graph }
    }

    /// One cycle for each set of assets that depend on each other (a strongly connected component), from its smallest
    /// id.
    fn cycles(&self) -> Vec<Vec<AssetId>> {
        let mut cycles: Vec<Vec<AssetId>> = kosaraju_scc(&self.graph)
            .into_iter()
            .filter_map(|knot| {
                let inside: BTreeSet<_> = knot.iter().copied().collect();
                let start = *knot.iter().min_by_key(|node| &self.ids[node.index()])?;
                self.way_round(start, &inside)
            })
            .collect();
        cycles.sort();
        cycles
    }

    /// The shortest cycle from `start` back to `start` within `inside`, found breadth first. `None`: there is none.
    fn way_round(&self, start: NodeIndex, inside: &BTreeSet<NodeIndex>) -> Option<Vec<AssetId>> {
        let mut from = BTreeMap::new();
        let mut open = VecDeque::from([start]);
        while let Some(node) = open.pop_front() {
            for next in self
                .graph
                .neighbors(node)
                .filter(|next| inside.contains(next))
            {
                if next == start {
                    let back = std::iter::successors(Some(node), |at| from.get(at).copied());
                    let mut way: Vec<AssetId> =
                        back.map(|at| self.ids[at.index()].clone()).collect();
                    way.reverse();
                    return Some(way);
                }
                if let Entry::Vacant(new) = from.entry(next) {
                    new.insert(node);
                    open.push_back(next);
                }
            }
        }
        None
    }
}
