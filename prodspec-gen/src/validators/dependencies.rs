//! Checks dependency edges: no duplicates and no cycles. The cost is linear in the edges that a change can reach.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use plugin_sdk::{
    AssetView, Candidate, Problem, Problems, Validator,
    graph::{components, shortest_cycle},
};
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
    /// For each of the assets, the places of those that it depends on, ordered by id.
    providers: Vec<Vec<usize>>,
}

impl Reach {
    fn from(starts: impl Iterator<Item = AssetId>, snapshot: &Snapshot) -> Self {
        let mut ids = Vec::new();
        let mut needs = Vec::new();
        let mut places = BTreeMap::new();
        let mut open: VecDeque<AssetId> = starts.collect();
        while let Some(id) = open.pop_front() {
            if places.contains_key(&id) {
                continue;
            }
            places.insert(id.clone(), ids.len());
            let edges = snapshot
                .get(id.as_str())
                .map(|asset| DependsOn::edges_of(&asset))
                .unwrap_or_default();
            let providers: BTreeSet<AssetId> =
                edges.into_iter().map(|edge| edge.provider.id).collect();
            open.extend(providers.iter().cloned());
            needs.push(providers);
            ids.push(id);
        }
        let place = |id: &AssetId| places[id];
        let providers = needs.iter().map(|ids| ids.iter().map(place).collect());
        Self {
            providers: providers.collect(),
            ids,
        }
    }

    /// One cycle for each set of assets that depend on each other (a strongly connected component), from its smallest
    /// id. It is a shortest one.
    fn cycles(&self) -> Vec<Vec<AssetId>> {
        let mut cycles: Vec<Vec<AssetId>> = components(&self.providers)
            .into_iter()
            .filter_map(|knot| {
                let start = *knot.iter().min_by_key(|place| &self.ids[**place])?;
                let cycle = shortest_cycle(&self.providers, start, &knot)?;
                Some(cycle.into_iter().map(|at| self.ids[at].clone()).collect())
            })
            .collect();
        cycles.sort();
        cycles
    }
}
